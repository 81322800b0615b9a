/*
 * Opening a file: where its name leads, the record of the file that was opened, and the
 * open description that the descriptor is bound to. O_TRUNC is not given
 * to the kernel: it would cut the file without the end lock.
 */
#include "layer/open.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h> /* RENAME_NOREPLACE */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/kill_point.h"
#include "buffer/of_file.h"
#include "file/state.h"
#include "io/real_name.h"
#include "layer/descriptions.h"
#include "layer/end.h"
#include "layer/late.h"
#include "layer/layer.h"
#include "layer/names.h"
#include "namespace/deferred.h"
#include "namespace/named.h"
#include "namespace/rename.h"
#include "region/clients.h"
#include "region/counters.h"
#include "shared/commit.h"
#include "tiering/stream.h"

/* A shadow's names are without links, and a name that waits is the engine's own. */
static bool may_go_through_links(const struct tb_opening *o)
{
    const struct tb_place *p = &o->place;
    return p->managed && p->mode != TB_MODE_SCRATCH && !p->waits && !(o->flags & (O_PATH | O_DIRECTORY));
}

/* The kernel is not asked for links by a late open: few of them are used, and of those the file's own name is asked for. */
static int open_place(struct tb_opening *o, int flags)
{
    const struct tb_place *p = &o->place;
    int fd = -ELOOP;
    bool may = may_go_through_links(o);
    if (may && !o->place_flags)
        fd = TB_IO(p->io, open, p->path, flags | TB_IO_NO_LINKS, o->mode);
    o->by_link = may && fd == -ELOOP;
    return fd == -ELOOP ? TB_IO(p->io, open, p->path, flags, o->mode) : fd;
}

/* As the kernel takes it: a file that is opened for reading is emptied, too. */
static bool empties(int flags)
{
    return flags & O_TRUNC && !(flags & O_PATH);
}

/* What the translation of the name must know: whether a stub of a shadow has to be copied for this open, and its bytes too. */
static unsigned use_of_open(int flags)
{
    unsigned use = empties(flags) ? TB_NAME_EMPTY : (flags & O_ACCMODE) == O_RDONLY ? TB_NAME_ENTER : TB_NAME_WRITE;
    if ((flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL))
        use = TB_NAME_LOOK | TB_NAME_NOFOLLOW;
    return use | (flags & O_NOFOLLOW ? TB_NAME_NOFOLLOW : 0);
}

/* A new file gets a deferred name; where that can't be had it is made at its place, and `p` says which. */
static int open_to_wait(struct tb_opening *o, int flags)
{
    struct tb_place *p = &o->place;
    int fd = tb_waiting_open(o->e, o->path, flags, o->mode, p->path);
    p->waits = strcmp(o->path, p->path) != 0;
    o->by_link = !p->waits;
    return fd;
}

/* What the kernel gets: not O_TRUNC, where the file is emptied by us. */
static int open_name(struct tb_opening *o)
{
    tb_engine *e = o->e;
    struct tb_place *p = &o->place;
    int flags = (o->flags & ~(o->cut ? O_TRUNC : 0)) | o->place_flags;
    if (!(o->flags & (O_PATH | O_DIRECTORY | O_NOFOLLOW)) && tb_place_known(e, &o->route, o->path, p)) {
        int fd = open_place(o, flags | O_NOFOLLOW);
        if (fd != -ELOOP)
            return fd;
    }
    int rc = tb_place_find(e, &o->route, o->path, use_of_open(o->flags), p);
    bool stub = p->mode == TB_MODE_SCRATCH && !p->scratch, must_be_new = (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL);
    if (rc || (must_be_new && (stub || p->waits)))
        return rc ? rc : -EEXIST;
    if (p->waits)
        /* never O_CREAT: the name may take its place at any time, and would be made twice */
        return open_place(o, flags & ~O_CREAT);
    if (flags & O_CREAT && p->deferred)
        return open_to_wait(o, flags);
    /* for a stub O_CREAT is dropped: a scratch prefix makes nothing on the PFS */
    return open_place(o, flags & ~(stub ? O_CREAT : 0));
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
    return rc == -ENOENT ? 0 : rc; /* another one gave it its name first */
}

/* Resolve and open: where the name leads, and a descriptor of what is there. */
static int open_it(struct tb_opening *o)
{
    int fd, looks = 0;
    do
        fd = open_name(o);
    while (tb_place_was_left(&o->place, fd, &looks));
    return o->fd = fd;
}

/*
 * An earlier record of a file that waits may have been flushed and freed since the name was looked up. Then the file has its name, and the
 * record that this open made has the place which it left.
 */
static void follow_name(struct tb_opening *o)
{
    tb_engine *e = o->e;
    struct stat st;
    bool may_be_left = o->place.waits && e->header->files.n_freed != o->n_freed && e->region.files[o->file].flags & TB_FILE_WAITING;
    if (!may_be_left || TB_IO(o->place.io, stat, o->place.path, &st, AT_SYMLINK_NOFOLLOW) != -ENOENT ||
        !tb_named_claim_record(e, o->file, &o->id))
        return;
    if (e->region.files[o->file].flags & TB_FILE_WAITING)
        tb_rename_follow(e, o->file);
    tb_named_unclaim(e, o->file);
}

/* Know: what was opened, and its record. */
enum tb_opened tb_opening_know(struct tb_opening *o)
{
    uint32_t n_freed = o->e->header->files.n_freed;
    if (!o->place.managed)
        return TB_OPENED_OUTSIDE;
    if (o->flags & (O_PATH | O_DIRECTORY) || tb_identity_of_fd(o->fd, &o->id) || !o->id.regular)
        return TB_OPENED_IRREGULAR;
    o->id.n_freed = n_freed;
    if (o->by_link)
        tb_real_name_of_file(o->e->base, o->route.prefix->prefix, o->fd, &o->id, o->place.path);
    if (!o->e->passes_through && tb_file_get(o->e, o->fd, &o->id, o->place.path, flags_of(&o->place), &o->file) == 0) {
        follow_name(o);
        return TB_OPENED_KNOWN;
    }
    o->e->header->totals.passed++;
    return TB_OPENED_UNKNOWN;
}

/* Another process opened it in another mode, the instance is about to end, or it has several names. */
void tb_opening_update(struct tb_opening *o)
{
    const struct tb_place *p = &o->place;
    bool through = p->mode == TB_MODE_PERSISTENT_SYNC || (!p->scratch && tb_client_is_closed(o->e));
    if (through && !(o->e->region.files[o->file].flags & TB_FILE_SYNC))
        tb_file_write_through(o->e, o->file);
    if (p->waits)
        return; /* its one name is given by a flush, and may have been given since */
    tb_layer_take_name(o->e, o->file, p->path);
    if (o->id.links > 1)
        tb_file_rename(o->e, o->file, p->path); /* of several names, keep one that exists */
}

/* What other nodes committed by now this open sees. A coherent file is read from the PFS, so all of it goes there. */
static int look(struct tb_opening *o)
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
static int cut(struct tb_opening *o)
{
    if (!o->cut || !(o->e->region.files[o->file].size || o->id.size))
        return 0;
    int rc = tb_end_set(o->e, o->file, NULL, tb_layer_may_write(o->flags) ? o->fd : -1, 0);
    rc = rc ? rc : tb_shared_cut(o->e, &o->id, 0);
    if (rc && tb_file_put(o->e, o->file))
        tb_file_forget(o->e, o->file);
    return rc;
}

/* With several nodes only the PFS knows the end of a file, so O_APPEND makes it coherent. */
static int join_other_nodes(struct tb_opening *o)
{
    return o->flags & O_APPEND && o->e->header->config.several_nodes ? tb_engine_make_coherent(o->e, o->fd) : 0;
}

/* A lock says when bytes may be read and written. Buffers of two nodes would keep their own order, so they don't hold any. */
int tb_engine_before_lock(tb_engine *e, int fd)
{
    const struct tb_open *o = e->header->config.several_nodes ? tb_open_of(e, fd) : NULL;
    return o && !(e->region.files[o->file].flags & TB_FILE_SCRATCH) ? tb_engine_make_coherent(e, fd) : 0;
}

/* Bind: the descriptor gets an open description.  A full table is an error: passing through would mix old and new bytes. */
static int bind_it(struct tb_opening *o)
{
    assert(o->fd >= 0 && o->e->region.files[o->file].n_open);
    tb_opening_update(o);
    int rc = look(o);
    rc = rc ? rc : cut(o);
    rc = rc ? rc : bind(o->e, o->fd, o->file, o->flags, o->path);
    o->is_bound = !rc;
    return rc ? rc : join_other_nodes(o);
}

/* A descriptor for reading cannot cut. Its name can, or is refused as by the kernel; but a pipe or a device stays as it is (EINVAL). */
static int cut_unbuffered(struct tb_opening *o, enum tb_opened is)
{
    if (tb_layer_may_write(o->flags))
        return is == TB_OPENED_IRREGULAR ? 0 : TB_IO(o->place.io, ftruncate, o->fd, 0);
    int rc = TB_IO(o->place.io, truncate, o->place.path, 0);
    return is == TB_OPENED_IRREGULAR && rc == -EINVAL ? 0 : rc;
}

static int pass_through(struct tb_opening *o, enum tb_opened is)
{
    int rc = is == TB_OPENED_UNKNOWN ? tb_shared_settle_identity(o->e, &o->id) : 0;
    if (rc)
        return rc;
    if (is == TB_OPENED_UNKNOWN && o->place.waits && !o->id.size)
        return publish_unknown(o->e, &o->place);
    return o->cut ? cut_unbuffered(o, is) : 0;
}

/* Field by field: to clear all of it, with room for a path, would cost as much as a system call. */
static void begin(struct tb_opening *o, struct tb_io *io, const char *path, int flags, mode_t mode)
{
    o->e = tb_layer_engine(io);
    o->path = path;
    o->route = tb_route_given(io, path);
    o->flags = flags;
    o->mode = mode;
    o->cut = empties(flags);
    o->place_flags = 0;
    o->by_link = false;
    o->n_changes = tb_changes_ended(o->e->header);
    o->n_freed = o->e->header->files.n_freed;
    o->is_bound = false;
}

static bool leads_to_it(const struct tb_opening *o)
{
    struct tb_identity there;
    return tb_identity_of_path(o->place.io, o->place.path, &there) == 0 && tb_identity_is_same(&there, &o->id);
}

/* A file that waited when it was opened may have its name now. */
bool tb_opening_is_named(struct tb_opening *o)
{
    struct tb_name_locks locks;
    if (tb_changes_begun(o->e->header) == o->n_changes)
        return true;
    tb_named_lock(o->e, o->path, NULL, &locks);
    bool same = leads_to_it(o);
    if (!same && o->place.waits)
        same = tb_place_find(o->e, &o->route, o->path, use_of_open(o->flags), &o->place) == 0 && leads_to_it(o);
    tb_named_unlock(o->e, &locks);
    return same;
}

bool tb_opening_passes(const struct tb_opening *o, bool named)
{
    bool refused = o->id.read_only && !o->place.scratch && tb_layer_may_write(o->flags) && geteuid() != 0;
    return !named || refused;
}

#define TB_OPEN_AGAIN (INT_MIN + 1)
#define TB_OPEN_TRIES 20

static int give_up(struct tb_opening *o)
{
    if (tb_file_put(o->e, o->file))
        tb_file_forget(o->e, o->file);
    TB_IO(o->place.io, close, o->fd);
    return TB_OPEN_AGAIN;
}

/*
 * The file is open; now its record. If the file lost its name during this call, its bytes may have gone with the name, because its
 * record did not count this open yet. Then it is opened again, as if this call had come after the other one. A file that this call has
 * just made has no bytes. On a file system that gives a path and its descriptor different numbers this would never end: so the last try stays.
 */
static int finish(struct tb_opening *o, struct tb_io *io)
{
    TB_MEETING("file opened");
    enum tb_opened is = tb_opening_know(o);
    bool named = is != TB_OPENED_KNOWN || tb_opening_is_named(o);
    if (!named && !o->is_last && (o->flags & (O_CREAT | O_EXCL)) != (O_CREAT | O_EXCL))
        return give_up(o);
    int rc = is == TB_OPENED_KNOWN ? bind_it(o) : pass_through(o, is);
    if (!rc && o->is_bound && tb_opening_passes(o, named))
        rc = tb_engine_make_coherent(o->e, o->fd);
    assert(rc <= 0 && (!o->is_bound || is == TB_OPENED_KNOWN));
    struct tb_io *closer = o->is_bound ? io : o->place.io;
    if (rc)
        TB_IO(closer, close, o->fd);
    return rc ? rc : o->fd;
}

/* A link at the end of the name would hide which name the file has, so it is not followed: TB_NOT_LATE, as where the open can't be late. */
#define TB_NOT_LATE INT_MIN

static int open_late(struct tb_io *io, const char *path, int flags, mode_t mode, bool is_last)
{
    tb_engine *e = tb_layer_engine(io);
    struct tb_opening *o = tb_late_begin(e, flags);
    if (!o)
        return TB_NOT_LATE;
    begin(o, io, path, flags, mode);
    o->place_flags = O_NOFOLLOW;
    o->is_last = is_last;
    int fd = open_it(o);
    if (fd >= 0 && tb_late_keep(e, o))
        return fd;
    fd = fd >= 0 ? finish(o, io) : fd == -ELOOP ? TB_NOT_LATE : fd;
    tb_late_end(e);
    return fd;
}

static int open_once(struct tb_io *io, const char *path, int flags, mode_t mode, bool is_last)
{
    struct tb_opening o;
    int fd = open_late(io, path, flags, mode, is_last);
    if (fd != TB_NOT_LATE)
        return fd;
    begin(&o, io, path, flags, mode);
    o.is_last = is_last;
    fd = open_it(&o);
    return fd < 0 ? fd : finish(&o, io);
}

int tb_layer_open(struct tb_io *io, const char *path, int flags, mode_t mode)
{
    int fd = TB_OPEN_AGAIN;
    for (int left = TB_OPEN_TRIES; fd == TB_OPEN_AGAIN; left--)
        fd = open_once(io, path, flags, mode, left == 1);
    return fd;
}
