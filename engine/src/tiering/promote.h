/*
 * Promotion: bytes that are read again from a lower tier move up. The reader does it, since it
 * pays for that device's time anyway. They go into free buffers, or into buffers of clean bytes
 * that are less than half as hot. So bytes of the same heat do not push each other up and down.
 */
#ifndef TB_PROMOTE_H
#define TB_PROMOTE_H

#include "buffer/of_file.h"
#include "file/file.h"
#include "flush/backing.h"

#define TB_PROMOTE_MAX 64u /* buffers of one read */

/* Which buffers that a read of this range will meet are to go up; the chunk is locked. */
uint32_t tb_promote_find(tb_engine *e, uint32_t file, uint64_t offset, uint64_t n, struct tb_buffer_ref *out);
/* Move them; no chunk is locked. */
void tb_promote(tb_engine *e, uint32_t file, const struct tb_buffer_ref *refs, uint32_t n);

#endif
