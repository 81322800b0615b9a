/*
 * One file asks for another mode or promise than its configuration has. The answer is
 * flags of its record, so that all processes see it at once. The last close takes it back
 * (file/state.c).
 *
 * A promise can only become stronger, because other writers of the file rely on the
 * configured one. Every mode promises the same after a crash, so any may be asked for. If
 * the prefix is write-through and the file asked for write-back, the last close must flush
 * it.
 */
#include <errno.h>

#include "file/file.h"
#include "file/state.h"
#include "flush/flush.h"
#include "flush/program.h"
#include "layer/descriptions.h"
#include "layer/layer.h"
#include "layer/names.h"

/* The mark comes before the flush: a write that begins after this call is written through, and the flush finds all before it. */
int tb_engine_set_mode(tb_engine *e, int fd, enum tb_mode mode)
{
    struct tb_open *o = tb_open_of(e, fd);
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
