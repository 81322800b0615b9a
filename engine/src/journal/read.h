/*
 * Reading a journal that a kill or a crash of the node may have cut, or that is damaged.
 *
 * Records of another instance or of an older generation are not believed, wherever
 * they are.  A hole (zeros, a torn or flipped record, the end missing) is damage where
 * a sync had covered it, as the mark or any sound record says; else it was never
 * promised and is nothing.
 */
#ifndef TB_JOURNAL_READ_H
#define TB_JOURNAL_READ_H

#include "journal/journal.h"

/*
 * Every sound record of the instance in file order to `each`; every damaged place to `damaged` with
 * its offset.  Instance 0: not known, as its lease says nothing; the journal's header or mark tells.
 * Stops at the first non-zero return.  Descriptors are -1 where there is no such file.
 */
int tb_journal_read(int journal_fd, int mark_fd, uint64_t instance, int (*each)(void *, const struct tb_record *),
                    int (*damaged)(void *, uint64_t offset), void *arg);

#endif
