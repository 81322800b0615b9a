/*
 * Opening a file: where its name leads, the record of the file that was opened, and the
 * open description that the descriptor is bound to. The O_TRUNC of a writer is not given
 * to the kernel: it would cut the file without the end lock.
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
#include "shared/commit.h"
#include "tiering/stream.h"

static int open_place(const struct tb_place *p, int flags, mode_t mode)
{
    return TB_IO(p->io, open, p->path, flags, mode);
}

/* What the translation of the name must know: whether a stub of a shadow has to be copied for this open, and its bytes too. */
static unsigned use_of_open(int flags)
{
    unsigned use = (flags & O_ACCMODE) == O_RDONLY ? TB_NAME_ENTER : flags & O_TRUNC ? TB_NAME_EMPTY : TB_NAME_WRITE;
    if ((flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL))
        use = TB_NAME_LOOK | TB_NAME_NOFOLLOW;
    return use | (flags & O_NOFOLLOW ? TB_NAME_NOFOLLOW : 0);
}

/* A new file gets a deferred name; where that can't be had it is made at its place, and `p` says which. */
static int open_to_wait(tb_engine *e, const char *path, int flags, mode_t mode, struct tb_place *p)
{
    int fd = tb_waiting_open(e, path, flags, mode, p->path);
    p->waits = strcmp(path, p->path) != 0;
    return fd;
}

/* `flags` are the program's. `without` is what the kernel must not see. */
static int open_name(tb_engine *e, const struct tb_route *r, const char *path, int flags, int without, mode_t mode, struct tb_place *p)
{
    if (!(flags & (O_PATH | O_DIRECTORY | O_NOFOLLOW)) && tb_place_known(e, r, path, p)) {
        int fd = open_place(p, (flags & ~without) | O_NOFOLLOW, mode);
        if (fd != -ELOOP)
            return fd;
    }
    int rc = tb_place_find(e, r, path, use_of_open(flags), p);
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
    int rc = tb_waiting_shown(e, p->path, to, sizeof(to));
    if (!rc)
        rc = TB_IO(e->pfs, rename, p->path, to, RENAME_NOREPLACE);
    return rc;
}

/* One call of open, from step to step. */
struct opening {
    tb_engine *e;
    const char *path;      /* the program's */
    struct tb_route route; /* its */
    int flags;             /* the program's */
    mode_t mode;
    bool cut; /* to be emptied, by us and not by the kernel */
    struct tb_place place;
    int fd;
    struct tb_identity id;
    uint32_t file; /* where it is KNOWN: held by n_open until it is bound */
    bool is_bound; /* the engine's close knows it */
};

enum what_it_is {
    OUTSIDE,   /* nothing is buffered there */
    IRREGULAR, /* a directory, a device, or a descriptor that only names a place */
    UNKNOWN,   /* a file of which no record can be had: all calls pass through */
    KNOWN,
};

/* Resolve and open: where the name leads, and a descriptor of what is there. */
static int open_it(struct opening *o)
{
    int without = o->cut ? O_TRUNC : 0;
    int fd = open_name(o->e, &o->route, o->path, o->flags, without, o->mode, &o->place);
    if (fd == -ENOENT && o->place.waits) /* it was given its final name a moment ago */
        fd = open_name(o->e, &o->route, o->path, o->flags, without, o->mode, &o->place);
    return o->fd = fd;
}

/* Know: what was opened, and its record. */
static enum what_it_is know(struct opening *o)
{
    if (!o->place.managed)
        return OUTSIDE;
    if (o->flags & (O_PATH | O_DIRECTORY) || tb_identity_of_fd(o->fd, &o->id) || !o->id.regular)
        return IRREGULAR;
    if (!o->e->passes_through && tb_file_get(o->e, o->fd, &o->id, o->place.path, flags_of(&o->place), &o->file) == 0)
        return KNOWN;
    o->e->header->totals.passed++;
    return UNKNOWN;
}

/* Another process opened it in another mode, the instance is about to end, or it has several names. */
static void update_record(struct opening *o)
{
    const struct tb_place *p = &o->place;
    bool through = p->mode == TB_MODE_PERSISTENT_SYNC || (!p->scratch && tb_client_is_closed(o->e));
    if (through && !(o->e->region.files[o->file].flags & TB_FILE_SYNC))
        tb_file_write_through(o->e, o->file);
    tb_layer_take_name(o->e, o->file, p->path);
    if (o->id.links > 1)
        tb_file_rename(o->e, o->file, p->path); /* of several names, keep one that exists */
}

/* What other nodes committed by now this open sees. A coherent file is read from the PFS, so all of it goes there. */
static int look(struct opening *o)
{
    tb_engine *e = o->e;
    struct tb_told told;
    int rc = e->region.files[o->file].flags & TB_FILE_COHERENT ? tb_shared_settle(e, o->file) : tb_shared_look(e, o->file, &told);
    if (rc > 0 && !(rc = tb_end_lower(e, o->file, o->fd, told.end, told.version)))
        tb_shared_learn(e, o->file, &told);
    if (rc && tb_file_put(e, o->file))
        tb_file_forget(e, o->file);
    return rc;
}

/* The size of a coherent file is known to the kernel only, so the backing file's is looked at too. */
static int cut(struct opening *o)
{
    if (!o->cut || !(o->e->region.files[o->file].size || o->id.size))
        return 0;
    int rc = tb_end_set(o->e, o->file, NULL, o->fd, 0);
    rc = rc ? rc : tb_shared_cut(o->e, &o->id, 0);
    if (rc && tb_file_put(o->e, o->file))
        tb_file_forget(o->e, o->file);
    return rc;
}

/* With several nodes only the PFS knows the end of a file, so O_APPEND makes it coherent. */
static int join_other_nodes(struct opening *o)
{
    return o->flags & O_APPEND && o->e->header->config.several_nodes ? tb_engine_make_coherent(o->e, o->fd) : 0;
}

/* Bind: the descriptor gets an open description.  A full table is an error: passing through would mix old and new bytes. */
static int bind_it(struct opening *o)
{
    assert(o->fd >= 0 && o->e->region.files[o->file].n_open);
    update_record(o);
    int rc = look(o);
    rc = rc ? rc : cut(o);
    rc = rc ? rc : bind(o->e, o->fd, o->file, o->flags, o->path);
    o->is_bound = !rc;
    return rc ? rc : join_other_nodes(o);
}

static int pass_through(struct opening *o, enum what_it_is is)
{
    int rc = is == UNKNOWN ? tb_shared_settle_identity(o->e, &o->id) : 0;
    if (rc)
        return rc;
    if (is == UNKNOWN && o->place.waits && !o->id.size)
        return publish_unknown(o->e, &o->place);
    return o->cut && is != IRREGULAR ? TB_IO(o->place.io, ftruncate, o->fd, 0) : 0;
}

/* Field by field: to clear all of it, with room for a path, would cost as much as a system call. */
static void begin(struct opening *o, struct tb_io *io, const char *path, int flags, mode_t mode)
{
    o->e = tb_layer_engine(io);
    o->path = path;
    o->route = tb_route_given(io, path);
    o->flags = flags;
    o->mode = mode;
    o->cut = flags & O_TRUNC && (flags & O_ACCMODE) != O_RDONLY;
    o->is_bound = false;
}

int tb_layer_open(struct tb_io *io, const char *path, int flags, mode_t mode)
{
    struct opening o;
    begin(&o, io, path, flags, mode);
    if (open_it(&o) < 0)
        return o.fd;
    enum what_it_is is = know(&o);
    int rc = is == KNOWN ? bind_it(&o) : pass_through(&o, is);
    assert(rc <= 0 && (!o.is_bound || is == KNOWN));
    struct tb_io *closer = o.is_bound ? io : o.place.io;
    if (rc)
        TB_IO(closer, close, o.fd);
    return rc ? rc : o.fd;
}
