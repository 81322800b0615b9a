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
/* Bytes [lo, hi), all of them from buffers: 0; -ESTALE: they are not all here. */
int tb_local_read(tb_engine *e, const struct tb_wire_file *id, uint64_t lo, uint64_t hi, char *to);
/*
 * Another node has newer bytes of [lo, hi): what is here of them goes, dirty or not, and is never flushed. -EAGAIN: a flush, a
 * cut or a rename of it is under way; -EBUSY with `*file`: it can't go alone, so flush the file first.
 */
int tb_local_let_go(tb_engine *e, const struct tb_wire_file *id, uint64_t lo, uint64_t hi, uint32_t *file);
/* Its last name was removed by another node: as if it had been here. -EAGAIN as above. */
int tb_local_lose(tb_engine *e, const struct tb_wire_file *id);
/* Clean bytes may be old: all of them go. */
void tb_local_forget_clean(tb_engine *e, uint32_t file);

#endif
