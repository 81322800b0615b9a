/*
 * Opening a file: where its name leads, the record of the file that was opened, and the open
 * description that the
 * descriptor is bound to. The O_TRUNC of a writer is not given to the kernel: it would cut the file
 * without the end lock.
 */
#include "layer/open.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h> /* RENAME_NOREPLACE */
#include <string.h>
#include <sys/stat.h>

#include "buffer/of_file.h"
#include "file/state.h"
#include "io/identity.h"
#include "layer/descriptions.h"
#include "layer/end.h"
#include "layer/layer.h"
#include "layer/names.h"
#include "namespace/deferred.h"
#include "namespace/resolve.h"
#include "region/clients.h"
#include "tiering/stream.h"

static int open_place(const struct tb_place *p, int flags, mode_t mode)
{
    return p->io->ops->open(p->io, p->path, flags, mode);
}

static unsigned use_of_open(int flags)
{
    unsigned use = (flags & O_ACCMODE) == O_RDONLY ? TB_NAME_ENTER : flags & O_TRUNC ? TB_NAME_EMPTY : TB_NAME_WRITE;
    if ((flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL))
        use = TB_NAME_LOOK | TB_NAME_NOFOLLOW;
    return use | (flags & O_NOFOLLOW ? TB_NAME_NOFOLLOW : 0);
}

static int open_to_wait(tb_engine *e, const char *path, int flags, mode_t mode, struct tb_place *p)
{
    int fd = tb_waiting_open(e, path, flags, mode, p->path);
    p->waits = strcmp(path, p->path) != 0;
    return fd;
}

/* `flags` are the program's. `without` is what the kernel must not see. */
static int open_name(tb_engine *e, const char *path, int flags, int without, mode_t mode, struct tb_place *p)
{
    if (!(flags & (O_PATH | O_DIRECTORY | O_NOFOLLOW)) && tb_place_known(e, path, p)) {
        int fd = open_place(p, (flags & ~without) | O_NOFOLLOW, mode);
        if (fd != -ELOOP)
            return fd;
    }
    int rc = tb_place_find(e, path, use_of_open(flags), p);
    bool stub = p->mode == TB_MODE_SCRATCH && !p->scratch;
    if (rc || (stub && (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL)))
        return rc ? rc : -EEXIST;
    if (p->waits && (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL))
        return -EEXIST;
    if (p->waits)
        /* never O_CREAT: the name may take its place at any time, and would be made twice */
        return open_place(p, flags & ~without & ~O_CREAT, mode);
    if (flags & O_CREAT && p->deferred)
        return open_to_wait(e, path, flags & ~without, mode, p);
    /* for a stub O_CREAT is dropped: a scratch prefix makes nothing on the PFS */
    return open_place(p, flags & ~without & ~(stub ? O_CREAT : 0), mode);
}

static uint32_t flags_of(const struct tb_place *p)
{
    return p->waits ? TB_FILE_WAITING : p->scratch ? TB_FILE_SCRATCH : p->mode == TB_MODE_PERSISTENT_SYNC ? TB_FILE_SYNC : 0;
}

/* On failure the caller closes the descriptor; the record's n_open is given back here. */
static int bind(tb_engine *e, int fd, uint32_t file, int flags, const char *path)
{
    uint32_t open = tb_open_new(e, file, flags);
    int rc = open == TB_NONE ? -ENFILE : tb_open_bind(e, fd, open);
    if (rc && open != TB_NONE)
        tb_open_free(e, &e->region.opens[open]);
    if (rc)
        tb_file_put(e, file);
    else
        tb_reader_open(e, open, path);
    return rc;
}

/* The tables are full, so no record can remember that the name is deferred: give it its place now. */
static int publish_unknown(tb_engine *e, const struct tb_place *p)
{
    char to[PATH_MAX];
    int rc = tb_waiting_shown(e, p->path, to, sizeof(to)) ? 0 : -ESTALE;
    if (!rc)
        rc = e->pfs->ops->rename(e->pfs, p->path, to, RENAME_NOREPLACE);
    return rc;
}

/* With several nodes only the PFS knows the end of a file, so O_APPEND makes it coherent. */
static int open_at_the_end(struct tb_io *io, int fd)
{
    int rc = tb_engine_make_coherent(tb_layer_engine(io), fd);
    if (rc)
        io->ops->close(io, fd);
    return rc ? rc : fd;
}

int tb_layer_open(struct tb_io *io, const char *path, int flags, mode_t mode)
{
    tb_engine *e = tb_layer_engine(io);
    struct tb_place p;
    struct tb_identity id;
    uint32_t file;
    bool cut = flags & O_TRUNC && (flags & O_ACCMODE) != O_RDONLY;
    int fd = open_name(e, path, flags, cut ? O_TRUNC : 0, mode, &p);
    if (fd == -ENOENT && p.waits) /* it was given its final name a moment ago */
        fd = open_name(e, path, flags, cut ? O_TRUNC : 0, mode, &p);
    if (fd < 0)
        return fd;
    int rc = flags & (O_PATH | O_DIRECTORY) || !p.managed ? -EISDIR : tb_identity_of_fd(fd, &id);
    bool known = !rc && id.regular && !e->passes_through && tb_file_get(e, fd, &id, p.path, flags_of(&p), &file) == 0;
    e->header->passed += !rc && id.regular && !known;
    if (known) {
        bool through = p.mode == TB_MODE_PERSISTENT_SYNC || (!p.scratch && tb_client_is_closed(e));
        if (through && !(e->region.files[file].flags & TB_FILE_SYNC))
            tb_file_write_through(e, file); /* another process opened it in another mode, or the instance is about to end */
        if (id.links > 1)
            tb_file_rename(e, file, p.path); /* of several names, keep one that exists */
        /* the size of a coherent file is known to the kernel only, so id.size is asked too */
        if (cut && (e->region.files[file].size || id.size))
            rc = tb_end_set(e, file, NULL, fd, 0);
        if (!rc)
            /* a full table is an error: passing through while others have buffered bytes would mix old and new */
            rc = bind(e, fd, file, flags, path);
        if (!rc && flags & O_APPEND && e->header->config.several_nodes)
            return open_at_the_end(io, fd);
    } else if (!rc && p.waits && !id.size) {
        rc = publish_unknown(e, &p);
    } else if (cut && (!p.managed || (!rc && id.regular))) {
        rc = p.io->ops->ftruncate(p.io, fd, 0);
    } else {
        rc = 0;
    }
    if (rc)
        p.io->ops->close(p.io, fd);
    return rc ? rc : fd;
}
