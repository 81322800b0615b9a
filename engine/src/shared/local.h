/*
 * What this node has of a file that several nodes share: which of its bytes the PFS lacks, and what becomes of bytes when
 * another node has newer ones.
 */
#ifndef TB_SHARED_LOCAL_H
#define TB_SHARED_LOCAL_H

#include "region/handle.h"
#include "shared/ranges.h"

/* The record of that file, or TB_NONE. It may become another file's as long as nothing holds it. */
uint32_t tb_local_find(tb_engine *e, const struct tb_wire_file *id);
/* The dirty bytes, up to the file's end: added to `out`, which is settled then. 0 or negative errno. */
int tb_local_dirty(tb_engine *e, uint32_t file, struct tb_ranges *out);
/* Note that there is a version of the file. */
void tb_local_hear(tb_engine *e, uint32_t file, uint64_t version);
/* The next number of what this node says to keepers: none that it said before is higher. */
uint64_t tb_local_tick(tb_engine *e);
/* Bytes [lo, hi), all of them from buffers: 0; -ESTALE: they are not all here. */
int tb_local_read(tb_engine *e, const struct tb_wire_file *id, uint64_t lo, uint64_t hi, char *to);
/* Bytes that another node's commit has newer ones of. */
struct tb_due {
    uint64_t version; /* of the commit */
    struct tb_ranges ranges;
};

/*
 * For `n` commits of other nodes: what is here of their ranges goes, dirty or not, and is never flushed; except for what was written
 * here since this node's own last commit (shared/recent.h). `clock`: what this node says from then on has none of them. The caller
 * has the file's turn (daemon/turn.h). -EAGAIN: a flush, a cut or a rename of the file is under way. -EBUSY with `*file`: some
 * can't go alone, so flush the file first; no grant holds any more, and the keeper gives none for them (`again`: that was so
 * before).
 */
int tb_local_let_go(tb_engine *e, const struct tb_wire_file *id, const struct tb_due *due, uint32_t n, bool again, uint32_t *file,
                    uint64_t *clock);
/* Its last name was removed by another node: as if it had been here. -EAGAIN as above. */
int tb_local_lose(tb_engine *e, const struct tb_wire_file *id);
/* The same of a record that the caller holds; waits for the claim. */
int tb_local_lose_own(tb_engine *e, uint32_t file);
/* Clean bytes may be old: all of them go. */
void tb_local_forget_clean(tb_engine *e, uint32_t file);

#endif
