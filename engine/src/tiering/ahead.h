/*
 * Reads of bytes that are in several buffers begin on all their tiers at once: each directory tier is told what it
 * will be asked for before the first byte is copied.  So the devices work side by side while the bytes are copied
 * one after the other.
 */
#ifndef TB_AHEAD_H
#define TB_AHEAD_H

#include "region/handle.h"

/*
 * The caller has locked the chunk, and reads all of the range next.  False: nothing was begun, since one buffer holds
 * all of it, all its tiers are memory, or the PFS is read, too.  True: tb_ahead_end follows the reads.
 */
bool tb_ahead_begin(tb_engine *e, uint32_t file, size_t n, uint64_t offset);
void tb_ahead_end(void);

#endif
