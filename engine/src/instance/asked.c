/*
 * What a program asks for by a descriptor, through the API: another mode or promise for its file, and hints.
 *
 * The answer to another mode or promise is flags of the file's record, so that all processes see it at once. The last close
 * takes it back (file/state.c). A promise can only become stronger, because other writers of the file rely on the
 * configured one. Every mode promises the same after a crash, so any may be asked for. If
 * the prefix is write-through and the file asked for write-back, the last close must flush
 * it.
 *
 * A hint changes when bytes are staged in, reclaimed or moved, and never what a read returns.
 */
#include <errno.h>
#include <stdlib.h>

#include "buffer/heat.h"
#include "buffer/map.h"
#include "buffer/of_file.h"
#include "file/file.h"
#include "file/state.h"
#include "flush/flush.h"
#include "flush/program.h"
#include "layer/descriptions.h"
#include "layer/late.h"
#include "layer/layer.h"
#include "layer/names.h"
#include "tiering/stream.h"

/* The mark comes before the flush: a write that begins after this call is written through, and the flush finds all before it. */
int tb_engine_set_mode(tb_engine *e, int fd, enum tb_mode mode)
{
    struct tb_open *o = tb_open_of(e, fd);
    tb_late_learn(e); /* it may be of this file, and then counts */
    if (mode > TB_MODE_BYPASS)
        return -EINVAL;
    if (!o)
        return -EBADF;
    uint32_t flags = e->region.files[o->file].flags;
    if (flags & TB_FILE_SCRATCH || mode == TB_MODE_SCRATCH)
        return flags & TB_FILE_SCRATCH && mode == TB_MODE_SCRATCH ? 0 : -EOPNOTSUPP;
    if (mode == TB_MODE_BYPASS)
        return tb_engine_make_coherent(e, fd);
    if (flags & TB_FILE_COHERENT)
        return -EBUSY;
    assert(mode == TB_MODE_PERSISTENT_SYNC || mode == TB_MODE_PERSISTENT_ASYNC);
    tb_file_set_mode(e, o->file, mode == TB_MODE_PERSISTENT_SYNC);
    struct tb_target t = tb_layer_target(e, o, fd);
    return mode == TB_MODE_PERSISTENT_SYNC ? tb_flush_file(e, o->file, t.can_write ? fd : -1, false).error : 0;
}

/* Scratch promises nothing; a coherent file is on the PFS in any case. */
static enum tb_fsync fsync_of(const tb_engine *e, uint32_t flags)
{
    if (flags & TB_FILE_SCRATCH)
        return TB_FSYNC_NONE;
    return flags & (TB_FILE_FSYNC_PFS | TB_FILE_COHERENT) ? TB_FSYNC_PFS : tb_config_of(e)->fsync;
}

/* Only from `tier` to `pfs`. The bytes of earlier fsyncs stay promised in the tier until the next fsync or flush. */
int tb_engine_set_fsync(tb_engine *e, int fd, enum tb_fsync fsync)
{
    struct tb_open *o = tb_open_of(e, fd);
    tb_late_learn(e); /* it may be of this file, and then counts */
    if (fsync > TB_FSYNC_NONE)
        return -EINVAL;
    if (!o)
        return -EBADF;
    struct tb_file *f = &e->region.files[o->file];
    enum tb_fsync now = fsync_of(e, f->flags);
    if (fsync == now)
        return 0;
    if (f->flags & TB_FILE_SCRATCH)
        return -EOPNOTSUPP;
    if (fsync != TB_FSYNC_PFS)
        return -EPERM;
    tb_file_promise_pfs(f);
    return 0;
}

int tb_engine_promise(tb_engine *e, int fd, enum tb_mode *mode, enum tb_fsync *fsync)
{
    struct tb_open *o = tb_open_of(e, fd);
    if (!o)
        return -EBADF;
    uint32_t flags = e->region.files[o->file].flags;
    *fsync = fsync_of(e, flags);
    *mode = flags & TB_FILE_SCRATCH  ? TB_MODE_SCRATCH
          : flags & TB_FILE_COHERENT ? TB_MODE_BYPASS
          : flags & TB_FILE_SYNC     ? TB_MODE_PERSISTENT_SYNC
                                     : TB_MODE_PERSISTENT_ASYNC;
    return 0;
}

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
