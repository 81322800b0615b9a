/*
 * Appending and setting a file's length, under one lock a file: layer/end.h tells the
 * rules and the limits.
 * Order of a cut: mark the file, wait for writers, tell readers the new length, cut the
 * backing file, cut the buffers, clear the mark.
 */
#include "layer/end.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include "base/kill_point.h"
#include "buffer/map.h"
#include "buffer/of_file.h"
#include "file/claim.h"
#include "file/state.h"
#include "file/times.h"
#include "flush/backing.h"
#include "io/identity.h"
#include "journal/journal.h"
#include "layer/layer.h"
#include "layer/names.h"
#include "namespace/named.h"
#include "namespace/resolve.h"
#include "region/counters.h"
#include "shared/commit.h"
#include "shared/local.h"
#include "tiering/stage.h"

/*
 * Records past the new end are made void, synced. Otherwise a crash could bring back the
 * old length with neither old nor new bytes.
 */
static int tell_journal(tb_engine *e, uint32_t file, struct tb_io *io, int fd, uint64_t length)
{
    TB_STEP("truncated");
    int rc = TB_IO(io, fsync, fd, true);
    rc = rc ? rc : tb_journal_drop(e, file, length, 0, 0);
    rc = rc ? rc : tb_journal_sync(e);
    TB_STEP("truncation recorded");
    return rc;
}

/* The journal is told only if the file shrinks and the journal holds records. Synced before the buffers go. */
static int set_backing(tb_engine *e, uint32_t file, int fd, uint64_t length, bool shrinks)
{
    struct tb_io *io = tb_file_io(e, file);
    int own = fd < 0 ? tb_target_open(e, file, O_WRONLY) : fd;
    int rc = own < 0 ? own : TB_IO(io, ftruncate, own, (off_t)length);
    if (!rc && shrinks && e->region.files[file].n_buffers && tb_journal_has_records(e))
        rc = tell_journal(e, file, io, own, length);
    if (fd < 0 && own >= 0)
        TB_IO(io, close, own);
    return rc;
}

/* The buffers go after the backing file was cut: if killed between, repair cuts both again. */
static void set_buffers(tb_engine *e, uint32_t file, uint64_t length, bool shrinks)
{
    struct tb_file *f = &e->region.files[file];
    if (shrinks)
        tb_file_cut(e, file, length);
    TB_STEP("buffers cut");
    f->size = length;
    if (f->written_ns > 0)
        tb_times_written(f);
}

/*
 * The point of no return: if killed after the mark is set, repair or the next holder
 * finishes the cut. Writers are waited for, because bytes written past the new end would
 * be seen, go, and come back.
 */
static void begin(tb_engine *e, uint32_t file, uint64_t length)
{
    struct tb_file *f = &e->region.files[file];
    assert(tb_file_is_claimed(e, file) && length <= INT64_MAX);
    f->cut_to = length;
    TB_STEP("cut to");
    tb_file_begin_cut(e, file);
    tb_chunk_wait_all(e, file);
    tb_file_note_change(e, f); /* noted before the cut too, because a client that is killed may have cut without noting it */
    tb_stage_void(e);
}

static void finish(tb_engine *e, struct tb_file *f)
{
    assert(f->flags & TB_FILE_CUTTING);
    tb_file_note_change(e, f);
    TB_STEP("length set");
    tb_file_end_cut(f);
}

/*
 * Locked by the end lock; the file is claimed, so that no flush writes old bytes past the
 * new end. Readers see the new length before any byte goes.
 */
static int set(tb_engine *e, uint32_t file, int fd, uint64_t length)
{
    struct tb_file *f = &e->region.files[file];
    begin(e, file, length);
    uint64_t before = f->size;
    bool shrinks = length < before;
    if (shrinks) {
        f->size = length;
        f->n_cuts++;
    }
    TB_STEP("length told");
    int rc = set_backing(e, file, fd, length, shrinks);
    if (rc)
        tb_file_raise_size(f, before); /* the backing file refused: no byte was cut */
    else
        set_buffers(e, file, length, shrinks);
    finish(e, f);
    return rc;
}

/*
 * Finish a cut that a killed client began. How far it came is unknown, so all steps are
 * done again; each gives the same result twice. Limit: a file without a name can be cut
 * only through a descriptor (`fd`). Without one, bytes past the new length stay in it, and
 * show if the file is made longer again.
 */
static void go_on(tb_engine *e, uint32_t file, int fd)
{
    struct tb_file *f = &e->region.files[file];
    if (!tb_file_claim(e, file))
        return;
    begin(e, file, f->cut_to);
    f->size = f->cut_to;
    f->n_cuts++;
    int rc = set_backing(e, file, fd, f->cut_to, true);
    set_buffers(e, file, f->cut_to, true);
    if (rc && !(f->flags & TB_FILE_UNLINKED))
        f->error = rc;
    finish(e, f);
    tb_file_unclaim(e, file);
}

static bool is_cutting(const tb_engine *e, uint32_t file)
{
    return e->region.files[file].flags & TB_FILE_CUTTING;
}

static struct tb_lock *lock_of(tb_engine *e, uint32_t file)
{
    return &e->region.locks->end[file % TB_STRIPES].lock;
}

/*
 * A living holder keeps the lock until its cut is done. So a mark that is found with the
 * lock in hand belongs to a killed client.
 */
int tb_end_lock(tb_engine *e, uint32_t file, int fd)
{
    int rc = tb_lock_take(lock_of(e, file));
    if (rc < 0)
        return rc;
    if (is_cutting(e, file))
        go_on(e, file, fd);
    return (int)(file % TB_STRIPES);
}

void tb_end_unlock(tb_engine *e, int stripe)
{
    assert(stripe >= 0 && (uint32_t)stripe < TB_STRIPES);
    tb_lock_drop(&e->region.locks->end[stripe].lock);
}

int tb_end_set(tb_engine *e, uint32_t file, const struct tb_identity *id, int fd, uint64_t length)
{
    int stripe = tb_end_lock(e, file, id ? -1 : fd); /* with `id` the record may be another file's by now, and `fd` is not of that one */
    if (stripe < 0)
        return stripe;
    bool claimed = tb_file_claim(e, file);
    int rc = !claimed || (id && !tb_identity_is(&e->region.files[file], id)) ? -EAGAIN : set(e, file, fd, length);
    if (claimed)
        tb_file_unclaim(e, file);
    tb_end_unlock(e, stripe);
    return rc;
}

/* Where the file ends now: writers wait, so nothing becomes dirty past it until they go on. */
static int end_of_all(tb_engine *e, uint32_t file, int fd, uint64_t *end)
{
    struct tb_ranges dirty = {0};
    struct tb_identity now;
    int rc = tb_local_dirty(e, file, &dirty);
    rc = rc ? rc : tb_identity_of_fd(fd, &now);
    if (!rc && now.size > *end)
        *end = now.size;
    if (!rc && dirty.n && dirty.at[dirty.n - 1].hi > *end)
        *end = dirty.at[dirty.n - 1].hi;
    tb_ranges_free(&dirty);
    return rc;
}

/* Bytes of this node may have gone since, for longer ones of another node. Their version is noted first, so it is looked at twice. */
static void lower_if_latest(tb_engine *e, uint32_t file, uint64_t end, uint64_t version)
{
    struct tb_file *f = &e->region.files[file];
    uint64_t before = f->size;
    if (end >= before || !tb_shared_is_latest(e, file, version))
        return;
    f->size = end;
    f->n_cuts++;
    if (!tb_shared_is_latest(e, file, version))
        tb_file_raise_size(f, before);
}

/* As a cut, but what is past the end is gone already. If killed, the next one finishes it as a cut to that end. */
static int lower(tb_engine *e, uint32_t file, int fd, uint64_t end, uint64_t version)
{
    struct tb_file *f = &e->region.files[file];
    int rc = end_of_all(e, file, fd, &end);
    if (rc || end >= f->size || !tb_shared_is_latest(e, file, version))
        return rc;
    begin(e, file, end);
    rc = end_of_all(e, file, fd, &end);
    if (!rc)
        lower_if_latest(e, file, end, version);
    tb_file_end_cut(f);
    return rc;
}

int tb_end_lower(tb_engine *e, uint32_t file, int fd, uint64_t end, uint64_t version)
{
    if (e->region.files[file].size <= end)
        return 0;
    int stripe = tb_end_lock(e, file, -1);
    if (stripe < 0)
        return stripe;
    bool claimed = tb_file_claim(e, file);
    int rc = claimed ? lower(e, file, fd, end, version) : 0;
    if (claimed)
        tb_file_unclaim(e, file);
    tb_end_unlock(e, stripe);
    return rc;
}

/* False: another process holds the lock, and will finish the cut. */
static bool try_go_on(tb_engine *e, uint32_t file)
{
    if (tb_lock_try(lock_of(e, file)) < 0)
        return false;
    if (is_cutting(e, file))
        go_on(e, file, -1);
    tb_end_unlock(e, (int)(file % TB_STRIPES));
    return true;
}

/* Sleeps and looks again. The lock of a killed cutter can be taken, so one of the waiters finishes the cut. */
void tb_end_wait(tb_engine *e, uint32_t file)
{
    while (is_cutting(e, file) && !try_go_on(e, file))
        nanosleep(&(struct timespec){0, TB_CLAIM_LOOK_NS}, NULL);
}

void tb_end_repair(tb_engine *e)
{
    for (uint32_t i = 0; i < e->region.n_file_buckets; i++)
        if (is_cutting(e, i))
            try_go_on(e, i);
}

/* Without the claim the record could have become another file's since it was looked up, which would get this name: -EAGAIN. */
static int take_name_claimed(tb_engine *e, uint32_t file, const struct tb_place *p, struct tb_identity *id)
{
    if (!tb_is_shared(e, &e->region.files[file]))
        return 0;
    int rc = tb_named_claim(e, file, p, id);
    if (rc)
        return rc;
    tb_layer_take_name(e, file, p->path);
    tb_named_unclaim(e, file);
    return 0;
}

/* The name that the record has may be gone by now, or another file's. This one leads to the file; -EAGAIN: no more. */
static int open_meant(const struct tb_place *p, const struct tb_identity *id)
{
    struct tb_identity now;
    int fd = TB_IO(p->io, open, p->path, O_WRONLY | O_NONBLOCK | O_CLOEXEC | TB_IO_OWN, 0); /* never waits, if a fifo has the name now */
    int rc = fd < 0 ? 0 : tb_identity_of_fd(fd, &now);
    if (fd >= 0 && !rc && !tb_identity_is_same(&now, id))
        rc = -EAGAIN;
    if (rc)
        TB_IO(p->io, close, fd);
    return rc ? rc : fd;
}

/*
 * The new length of the file that has the name, where it has a record; `file` TB_NONE: it has none, and nothing was done.
 * -EAGAIN: between look-up and lock the record became another file's, so look again.
 */
static int set_end_of(tb_engine *e, const struct tb_place *p, uint64_t length, struct tb_identity *id, uint32_t *file)
{
    int rc = tb_layer_record(e, p, id, file);
    if (rc || *file == TB_NONE)
        return rc;
    rc = take_name_claimed(e, *file, p, id);
    int fd = rc ? rc : open_meant(p, id);
    rc = fd < 0 ? fd : tb_end_set(e, *file, id, fd, length);
    if (fd >= 0)
        TB_IO(p->io, close, fd);
    return rc;
}

static int truncate_place(tb_engine *e, const struct tb_place *p, off_t length)
{
    struct tb_identity id;
    uint32_t file;
    int rc;
    do
        rc = set_end_of(e, p, (uint64_t)length, &id, &file);
    while (rc == -EAGAIN);
    if (!rc && file != TB_NONE)
        return tb_shared_cut(e, &id, (uint64_t)length);
    if (!rc)
        rc = TB_IO(p->io, truncate, p->path, length);
    if (!rc && e->shared_device && !tb_identity_of_path(p->io, p->path, &id))
        return tb_shared_cut(e, &id, (uint64_t)length);
    return rc;
}

int tb_layer_truncate_path(struct tb_io *io, const char *path, off_t length)
{
    tb_engine *e = tb_layer_engine(io);
    struct tb_place p;
    const struct tb_route r = tb_route_given(io, path);
    int rc, looks = 0;
    if (length < 0)
        return -EINVAL;
    do {
        rc = tb_place_find(e, &r, path, length ? TB_NAME_WRITE : TB_NAME_EMPTY, &p);
        rc = rc ? rc : truncate_place(e, &p, length);
    } while (tb_place_was_left(&p, rc, &looks));
    return rc;
}

off_t tb_layer_size(const tb_engine *e, uint32_t file, off_t backing)
{
    const struct tb_file *f = &e->region.files[file];
    off_t size = (off_t)f->size;
    bool ours = f->n_dirty || (tb_is_shared(e, f) && tb_is_elsewhere(e, file));
    if (!e->header->config.several_nodes || (ours && size > backing))
        return size;
    return backing;
}

/* Between nodes the PFS is asked: others may have made the file longer there, and fstat shows that. */
off_t tb_layer_end(tb_engine *e, uint32_t file, int fd)
{
    struct stat st;
    if (!e->header->config.several_nodes || TB_IO(tb_file_io(e, file), fstat, fd, &st))
        return (off_t)e->region.files[file].size;
    return tb_layer_size(e, file, st.st_size);
}
