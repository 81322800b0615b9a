/*
 * Hints by API: what a program says of its descriptor, and of bytes that are in buffers already. A hint changes when bytes are
 * staged in, reclaimed or moved, and never what a read returns.
 */
#include <errno.h>
#include <stdlib.h>

#include "buffer/heat.h"
#include "buffer/map.h"
#include "buffer/of_file.h"
#include "file/file.h"
#include "layer/descriptions.h"
#include "tiering/stream.h"

/* Locked by the chunk. KEEP outlives the hint's descriptor: it stays until another hint or a reclaim takes it. */
static void mark(tb_engine *e, struct tb_buffer *b, enum tb_hint hint)
{
    assert(b->state == TB_BUFFER_LIVE);
    b->flags &= (uint16_t)~TB_BUFFER_KEEP;
    if (hint == TB_HINT_KEEP)
        b->flags |= TB_BUFFER_KEEP;
    if (hint == TB_HINT_ONCE)
        tb_heat_set(e, b, 0, false);
}

/*
 * The list is a snapshot: each buffer is looked at again under its chunk's lock, and one
 * that moved is left as it is.
 */
static void mark_range(tb_engine *e, uint32_t file, uint64_t from, uint64_t to, enum tb_hint hint)
{
    uint32_t n;
    struct tb_buffer_ref *refs = tb_file_buffers(e, file, TB_BUFFERS_ALL, &n);
    for (uint32_t i = 0; i < n; i++) {
        struct tb_buffer *b = &e->region.buffers[refs[i].buffer];
        if (refs[i].start >= to || refs[i].start + tb_buffer_size(e, b) <= from)
            continue;
        int stripe = tb_chunk_lock(e, file, refs[i].start);
        if (stripe >= 0 && tb_buffer_is_at(b, file, refs[i].cell))
            mark(e, b, hint);
        if (stripe >= 0)
            tb_chunk_unlock(e, stripe);
    }
    free(refs);
}

/*
 * WILL_NEED only asks the daemon to read ahead and returns at once. The other hints hold
 * for the descriptor and for what is buffered now.
 */
int tb_engine_advise(tb_engine *e, int fd, uint64_t offset, uint64_t length, enum tb_hint hint)
{
    struct tb_open *o = tb_open_of(e, fd);
    uint64_t end = length && length < UINT64_MAX - offset ? offset + length : UINT64_MAX;
    if (!o)
        return -EBADF;
    if (hint > TB_HINT_WILL_NEED)
        return -EINVAL;
    if (!e->header->config.organizer.enabled)
        return 0;
    if (hint == TB_HINT_WILL_NEED) {
        uint64_t size = e->region.files[o->file].size;
        bool opened = offset >= size || tb_stream_open(e, o->file, offset, 0, 0, end < size ? end : size) != TB_NONE;
        return opened ? 0 : -EAGAIN;
    }
    struct tb_reader *r = &e->readers[o - e->region.opens];
    r->hint_from = offset;
    r->hint_to = end;
    r->hint = hint;
    if (hint == TB_HINT_RANDOM)
        tb_reader_close(e, (uint32_t)(o - e->region.opens));
    if (hint == TB_HINT_KEEP || hint == TB_HINT_ONCE || hint == TB_HINT_NORMAL)
        mark_range(e, o->file, offset, end, hint);
    return 0;
}
