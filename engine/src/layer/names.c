/*
 * Operations on names: stat, unlink, rename, link. Each
 * translates its path once (namespace/resolve.h), acts on the backing file first, and then
 * brings the file record up to date. A journal that must know is told before, so that a
 * crash between the two is replayed rightly.
 */
#include "layer/names.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/kill_point.h"
#include "buffer/of_file.h"
#include "file/claim.h"
#include "file/name_tree.h"
#include "file/state.h"
#include "file/times.h"
#include "flush/flush.h"
#include "io/answer.h"
#include "io/identity.h"
#include "journal/journal.h"
#include "layer/end.h"
#include "layer/layer.h"
#include "layer/late.h"
#include "namespace/deferred.h"
#include "namespace/intent.h"
#include "namespace/named.h"
#include "namespace/rename.h"
#include "namespace/resolve.h"
#include "namespace/shadow_copy.h"
#include "shared/commit.h"

int tb_layer_record(tb_engine *e, const struct tb_place *p, struct tb_identity *id, uint32_t *file)
{
    *file = TB_NONE;
    int rc = e->header->files.n || p->waits ? tb_identity_of_path(p->io, p->path, id) : -ENOENT;
    if (!rc && id->regular)
        *file = tb_file_find(e, id);
    return tb_io_failed(rc) || (rc == -ENOENT && p->waits) ? rc : 0;
}

void tb_layer_take_name(tb_engine *e, uint32_t file, const char *path)
{
    struct tb_file *f = &e->region.files[file];
    char now[TB_PATH_MAX];
    if (!tb_is_shared(e, f))
        return;
    int stripe = tb_file_lock(e, file);
    tb_file_path(e, f, now, sizeof(now));
    tb_file_unlock(e, stripe);
    if (strcmp(now, path) != 0 && tb_file_rename(e, file, path) == 0)
        tb_file_untie(f);
}

/* In a shadow a symlink's text is translated, so its size is that of the text which the program sees. */
static int stat_link(tb_engine *e, const struct tb_place *p, struct stat *st)
{
    char text[PATH_MAX], shown[PATH_MAX];
    ssize_t n = TB_IO(p->io, readlink, p->path, text, sizeof(text) - 1);
    text[n < 0 ? 0 : n] = 0;
    if (tb_io_failed(n))
        return (int)n;
    if (n > 0 && tb_shadow_shown(e, text, shown, sizeof(shown)))
        st->st_size = (off_t)strlen(shown);
    return 0;
}

static int stat_name(tb_engine *e, const struct tb_route *r, const char *path, struct stat *st, int flags, struct tb_place *p)
{
    if (tb_place_known(e, r, path, p)) {
        int rc = TB_IO(p->io, stat, p->path, st, AT_SYMLINK_NOFOLLOW);
        if (rc || !S_ISLNK(st->st_mode))
            return rc;
    }
    int rc = tb_place_find(e, r, path, TB_NAME_LOOK | (flags & AT_SYMLINK_NOFOLLOW ? TB_NAME_NOFOLLOW : 0), p);
    if (!rc)
        rc = TB_IO(p->io, stat, p->path, st, flags);
    return !rc && p->kind == TB_SHADOW_LINK ? stat_link(e, p, st) : rc;
}

/* Of a file that other nodes have bytes of the size is theirs where that is more. */
static int show_end(tb_engine *e, const struct tb_place *p, struct stat *st)
{
    struct tb_identity id;
    uint64_t end = 0;
    int rc = tb_identity_of_path(p->io, p->path, &id);
    if (rc)
        return tb_io_failed(rc) ? rc : 0;
    rc = p->scratch ? 0 : tb_shared_end(e, &id, &end);
    if (!rc && (uint64_t)st->st_size < end)
        st->st_size = (off_t)end;
    return rc;
}

/* What its record knows better than the PFS. */
static int show_record(tb_engine *e, const struct tb_place *p, struct stat *st, int flags)
{
    struct tb_identity id;
    uint32_t file;
    if (!tb_file_may_be_known(e, st))
        return 0;
    int rc = tb_layer_record(e, p, &id, &file);
    bool buffered = !rc && file != TB_NONE && !(e->region.files[file].flags & TB_FILE_COHERENT);
    if (buffered && tb_times_are_old(&e->region.files[file], st))
        rc = TB_IO(p->io, stat, p->path, st, flags);
    if (!rc && buffered) {
        st->st_size = tb_layer_size(e, file, st->st_size);
        tb_times_show(e, &e->region.files[file], st);
    }
    return rc;
}

int tb_layer_stat(struct tb_io *io, const char *path, struct stat *st, int flags)
{
    tb_engine *e = tb_layer_engine(io);
    struct tb_place p;
    const struct tb_route r = tb_route_given(io, path);
    int rc, looks = 0;
    do {
        rc = stat_name(e, &r, path, st, flags, &p);
        bool regular = !rc && S_ISREG(st->st_mode);
        rc = regular && e->shared_device ? show_end(e, &p, st) : rc;
        rc = !rc && regular ? show_record(e, &p, st, flags) : rc;
    } while (tb_place_was_left(&p, rc, &looks));
    return rc;
}

/*
 * The only name of a file goes. The file is claimed. Order: journal, intent, unlink,
 * record. If killed after the unlink, repair finds the intent and marks the file as one
 * without a name.
 */
static int unlink_last(tb_engine *e, uint32_t file, const struct tb_place *p)
{
    assert(tb_file_is_claimed(e, file));
    int rc = tb_journal_tell_removal(e, file);
    if (rc)
        return rc;
    struct tb_intent *intent = tb_intent_unlink(e, file, p->path);
    TB_STEP("unlink");
    rc = TB_IO(p->io, unlink, p->path, 0);
    TB_STEP("unlinked");
    if (!rc) {
        tb_file_lose_name(&e->region.files[file]);
        tb_file_take_place(&e->region.files[file]);
    }
    tb_intent_end(intent);
    if (!rc)
        tb_file_forget_claimed(e, file);
    return rc;
}

/*
 * In a shadow a symlink may show a directory of the PFS: unlink must refuse it, and rmdir
 * may remove it if it is empty.
 */
static int remove_link(tb_engine *e, const struct tb_route *r, const char *path, int flags)
{
    struct tb_place p;
    int rc = tb_place_find(e, r, path, (flags & AT_REMOVEDIR ? TB_NAME_ENTER : TB_NAME_LOOK) | TB_NAME_NOFOLLOW, &p);
    if (rc || p.kind == TB_SHADOW_STUB_DIRECTORY)
        return rc ? rc : -EISDIR;
    if (p.kind == TB_SHADOW_STUB_FILE)
        rc = tb_place_find(e, r, path, TB_NAME_MAKE, &p);
    return rc ? rc : TB_IO(p.io, unlink, p.path, flags);
}

/* The record of the named file, claimed, or TB_NONE. If the name became another file's before the claim, that one is looked up. */
static int claim_named(tb_engine *e, const struct tb_place *p, struct tb_identity *id, uint32_t *file)
{
    int rc;
    do {
        rc = tb_named_record(e, p, id, file);
        if (!rc && *file != TB_NONE)
            rc = tb_named_claim(e, *file, p, id);
    } while (rc == -EAGAIN);
    return rc;
}

/* The shared file that is gone with this name; not `regular`: none is. */
static struct tb_identity last_name(tb_engine *e, const struct tb_place *p)
{
    struct tb_identity id = {.regular = false};
    if (!e->shared_device || p->scratch || tb_identity_of_name(p->io, p->path, &id) || id.links > 1)
        id.regular = false;
    return id;
}

/* With several nodes a file that loses one of its names is flushed only; later promises are the PFS's: a record would name a lost path. */
static int keep_bytes(tb_engine *e, uint32_t file, const struct tb_identity *id)
{
    assert(file == TB_NONE || tb_file_is_claimed(e, file));
    if (!e->header->config.several_nodes || file == TB_NONE || id->links == 1 || e->region.files[file].flags & TB_FILE_SCRATCH)
        return 0;
    tb_file_promise_pfs(&e->region.files[file]);
    return tb_flush_claimed(e, file, -1, false).error;
}

/*
 * Must the bytes that the file has here, or gets, reach the backing file before the name goes? Yes for late opens, which the record does
 * not count; and if the file has other names, because the record may have this one, and a flush by it would fail.
 */
static bool must_reach_backing(const tb_engine *e, uint32_t file, const struct tb_identity *id, bool late)
{
    if (file == TB_NONE)
        return false;
    const struct tb_file *f = &e->region.files[file];
    bool other = id->links > 1 && !(f->flags & TB_FILE_SCRATCH) && !e->header->config.several_nodes;
    return (f->n_buffers || f->n_open) && (late || other);
}

/* Claimed, and its end locked: its bytes go to the backing file, by the name that is about to go, and those to come, too. */
static int put_in_backing(tb_engine *e, const struct tb_place *p, uint32_t file)
{
    int fd = TB_IO(p->io, open, p->path, O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC | TB_IO_OWN, 0);
    int rc = tb_layer_become_coherent(e, file, fd, O_WRONLY);
    if (fd >= 0)
        TB_IO(p->io, close, fd);
    return rc;
}

/* Claim the file of a name that is about to go. *end: what to unlock after it, or -1. */
static int claim_to_go(tb_engine *e, const struct tb_place *p, bool late, struct tb_identity *id, uint32_t *file, int *end)
{
    *end = -1;
    int rc = claim_named(e, p, id, file);
    while (!rc && must_reach_backing(e, *file, id, late)) {
        tb_named_unclaim(e, *file);
        if ((*end = tb_end_lock(e, *file, -1)) < 0) /* this lock comes before the claim */
            return *end;
        rc = tb_named_claim(e, *file, p, id);
        int kept = rc ? rc : put_in_backing(e, p, *file);
        if (!kept)
            return 0;
        if (!rc)
            tb_named_unclaim(e, *file);
        tb_end_unlock(e, *end);
        *end = -1;
        rc = kept == -EAGAIN ? claim_named(e, p, id, file) : kept;
    }
    return rc;
}

/* The record, if there is one, is claimed, and given back. */
static int unlink_claimed(tb_engine *e, const struct tb_place *p, uint32_t file, const struct tb_identity *id, int flags)
{
    int rc;
    if (file != TB_NONE && id->links == 1)
        rc = unlink_last(e, file, p);
    else if (!(rc = keep_bytes(e, file, id)))
        rc = p->scratch && id->link ? -ENOTDIR : TB_IO(p->io, unlink, p->path, flags);
    tb_named_unclaim(e, file);
    return rc;
}

static int unlink_name(tb_engine *e, const struct tb_route *r, const char *path, int flags, struct tb_place *p)
{
    struct tb_identity id = {.regular = false};
    uint32_t file = TB_NONE;
    int end = -1, rc = tb_place_find(e, r, path, TB_NAME_MAKE, p);
    if (rc)
        return rc;
    if (flags & AT_REMOVEDIR && p->deferred && !p->waits)
        return tb_waiting_remove_directory(e, p->io, p->path);
    const struct tb_identity gone = last_name(e, p);
    bool late = !flags && tb_late_lose_name(e, p->path) && !p->waits;
    rc = flags ? 0 : claim_to_go(e, p, late, &id, &file, &end); /* a directory has no record */
    if (rc)
        return rc;
    rc = unlink_claimed(e, p, file, &id, flags);
    if (end >= 0)
        tb_end_unlock(e, end);
    if (!rc && gone.regular)
        return tb_shared_remove(e, &gone);
    return rc == -ENOTDIR && p->scratch && p->kind != TB_SHADOW_LINK ? remove_link(e, r, path, flags) : rc;
}

/*
 * Around a call that removes or replaces a name. The process's own late open is learned first: its file may be the one. From the look at
 * the name to its removal the locks keep other calls from giving it to another file. `other` may be NULL.
 */
static void begin_change(tb_engine *e, const char *name, const char *other, struct tb_name_locks *locks)
{
    tb_late_learn(e);
    e->header->changes.lane[e->slot % TB_CHANGE_LANES].begun++;
    e->region.clients[e->slot].n_changes++;
    tb_named_lock(e, name, other, locks);
}

/* Never more are ended than began: in this order, and in repair's, a kill loses one. */
static void end_change(tb_engine *e, struct tb_name_locks *locks)
{
    tb_named_unlock(e, locks);
    e->region.clients[e->slot].n_changes--;
    e->header->changes.lane[e->slot % TB_CHANGE_LANES].ended++;
}

int tb_layer_unlink(struct tb_io *io, const char *path, int flags)
{
    tb_engine *e = tb_layer_engine(io);
    const struct tb_route r = tb_route_given(io, path);
    struct tb_name_locks locks;
    struct tb_place p;
    int rc, looks = 0;
    begin_change(e, path, NULL, &locks);
    do
        rc = unlink_name(e, &r, path, flags, &p);
    while (tb_place_was_left(&p, rc, &looks));
    end_change(e, &locks);
    return rc;
}

static int claim_one(tb_engine *e, struct tb_renamed *r)
{
    return r->file == TB_NONE ? 0 : tb_named_claim(e, r->file, r->place, &r->id);
}

/*
 * Claims are taken in the order of record numbers, so that two processes that rename
 * across each other cannot wait for each other. -EAGAIN: look again.
 */
static int claim_both(tb_engine *e, struct tb_renamed *a, struct tb_renamed *b)
{
    struct tb_renamed *first = a->file < b->file ? a : b, *second = first == a ? b : a;
    assert(a->file == TB_NONE || a->file != b->file); /* the second claim would wait for the first */
    int rc = claim_one(e, first);
    if (rc)
        return rc;
    rc = claim_one(e, second);
    if (rc)
        tb_named_unclaim(e, first->file);
    return rc;
}

/* A deferred name is given its place before it is renamed or linked. */
static int publish_name(tb_engine *e, const struct tb_route *r, const char *path, unsigned use, struct tb_place *p)
{
    struct tb_identity id;
    uint32_t file;
    if (!p->waits)
        return 0;
    int rc = tb_named_record(e, p, &id, &file);
    if (!rc && tb_named_claim_record(e, file, &id)) {
        rc = tb_rename_publish(e, file);
        tb_named_unclaim(e, file);
    }
    return rc ? rc : tb_place_find(e, r, path, use, p);
}

/* Room for the new name is held. All files below have it at once; of an exchange each is looked at. */
static void rename_records(tb_engine *e, const char *from, const char *to, bool exchange)
{
    if (exchange)
        tb_intent_settle_exchange(e, from, to);
    else
        tb_names_rename_directory(e, from, to);
}

/*
 * What can fail comes before the rename: the texts of deferred names say where their
 * directories will be. If the rename fails, they are put back.
 */
static int rename_with_texts(tb_engine *e, const struct tb_place *p, const struct tb_place *q, unsigned flags)
{
    int rc = tb_waiting_rename(e, p->path, q->path, flags & RENAME_EXCHANGE);
    TB_STEP("rename directory");
    if (rc)
        return rc;
    rc = TB_IO(p->io, rename, p->path, q->path, flags);
    TB_STEP("renamed directory");
    if (rc)
        tb_waiting_settle(e, p->path, q->path);
    else
        rename_records(e, p->path, q->path, flags & RENAME_EXCHANGE);
    return rc;
}

/* A directory that holds files with deferred names must not be replaced by a rename. */
static int check_holds_none(tb_engine *e, const struct tb_place *p)
{
    char *names = NULL;
    int rc = p->deferred ? tb_waiting_list(e, p->path, &names) : 0;
    free(names);
    return rc ? rc : names ? -ENOTEMPTY : 0;
}

/*
 * Locked by the claim on directory names: one rename of a directory at a time. A flush
 * that misses its path during the rename waits for the new one (flush/backing.c). If
 * killed here, repair reads the intent and moves the names.
 */
static int rename_directory(tb_engine *e, const struct tb_place *p, const struct tb_place *q, unsigned flags)
{
    int rc = flags & (RENAME_EXCHANGE | RENAME_NOREPLACE) ? 0 : check_holds_none(e, q);
    if (rc)
        return rc;
    bool exchange = flags & RENAME_EXCHANGE;
    struct tb_file to_be = {.directory = TB_NONE};
    tb_names_claim(e);
    assert(e->header->names.renamer == e->slot + 1);
    if (!exchange)
        rc = tb_names_set(e, &to_be, q->path);
    if (!rc && e->journal_fd >= 0 && !p->scratch)
        rc = tb_rename_tell_journal(e, p->path, q->path, flags);
    struct tb_intent *intent = rc       ? NULL
                             : exchange ? tb_intent_exchange(e, p->path, q->path)
                                        : tb_intent_rename(e, TB_NONE, TB_NONE, p->path, q->path);
    if (!rc)
        rc = rename_with_texts(e, p, q, flags);
    if (intent)
        tb_intent_end(intent);
    tb_names_clear(e, &to_be);
    tb_names_unclaim(e);
    return rc;
}

/* Before a stub of a PFS directory, or what takes its name, is moved, it becomes a real directory. */
static int find_to_move(tb_engine *e, const struct tb_route *r, const char *path, struct tb_place *p)
{
    struct stat st;
    int rc = tb_place_to_name(e, r, path, p);
    if (!rc && p->waits)
        return (rc = publish_name(e, r, path, TB_NAME_MAKE, p)) ? rc : tb_place_to_name(e, r, path, p);
    if (rc || !p->scratch || tb_shadow_has_no_stubs(e, p->path))
        return rc;
    rc = TB_IO(p->io, stat, p->path, &st, AT_SYMLINK_NOFOLLOW);
    if (rc || !S_ISLNK(st.st_mode))
        return tb_io_failed(rc) ? rc : 0; /* of what is not there the rename says so */
    rc = tb_place_find(e, r, path, TB_NAME_ENTER | TB_NAME_NOFOLLOW, p);
    return rc ? rc : tb_place_find(e, r, path, TB_NAME_MAKE, p);
}

static bool is_directory(const struct tb_place *p, int *rc)
{
    struct stat st;
    *rc = TB_IO(p->io, stat, p->path, &st, AT_SYMLINK_NOFOLLOW);
    return *rc == 0 && S_ISDIR(st.st_mode);
}

static bool is_one_file(const struct tb_identity *a, const struct tb_identity *b)
{
    return a->regular && b->regular && a->inode == b->inode && a->device == b->device;
}

/* `kind`: the mode of what is at `p`, as it was seen a moment ago; 0: it was not looked at. */
static int rename_places(tb_engine *e, const struct tb_place *p, const struct tb_place *q, mode_t kind, unsigned flags)
{
    struct tb_renamed a = {.place = p}, b = {.place = q};
    tb_late_lose_name(e, p->path);
    bool late = tb_late_lose_name(e, q->path) && !q->waits;
    int rc, there, end;
    if (S_ISDIR(kind))
        return rename_directory(e, p, q, flags);
    do {
        rc = tb_named_record(e, q, &b.id, &b.file);
        rc = rc ? rc : tb_named_record(e, p, &a.id, &a.file); /* after it: if that one has a record, this one is looked at */
        if (!rc && a.file == TB_NONE && is_directory(p, &rc))
            return rename_directory(e, p, q, flags);
        if (!rc && flags & RENAME_EXCHANGE && is_directory(q, &there))
            return rename_directory(e, q, p, flags); /* a file takes the place of a directory, and the other way round */
        if (tb_io_failed(rc))
            return rc;
        if (is_one_file(&a.id, &b.id)) /* then a rename does nothing; the record may have come between the two looks */
            return TB_IO(p->io, rename, p->path, q->path, flags);
        end = must_reach_backing(e, b.file, &b.id, late) ? tb_end_lock(e, b.file, -1) : -1;
        rc = claim_both(e, &a, &b);
        if (rc && end >= 0)
            tb_end_unlock(e, end);
    } while (rc == -EAGAIN);
    if (rc)
        return rc;
    rc = end >= 0 ? put_in_backing(e, q, b.file) : keep_bytes(e, b.file, &b.id);
    if (!rc)
        rc = tb_rename_claimed(e, &a, &b, flags);
    tb_named_unclaim(e, a.file);
    tb_named_unclaim(e, b.file);
    if (end >= 0)
        tb_end_unlock(e, end);
    return rc;
}

/* A name and how it is managed. */
struct name {
    const char *path;
    struct tb_route route;
};

/* A file, and a directory below which nothing is a link, can't make a known directory a link's. */
static bool moves_no_links(tb_engine *e, const struct tb_place *p, mode_t kind, unsigned flags)
{
    return (S_ISREG(kind) && !flags) || (S_ISDIR(kind) && !(flags & RENAME_EXCHANGE) && tb_shadow_has_no_stubs(e, p->path));
}

static int rename_found(tb_engine *e, const struct name *from, const struct name *to, unsigned flags, struct tb_place *p)
{
    struct tb_place q;
    struct stat st;
    mode_t kind = 0;
    int rc = find_to_move(e, &from->route, from->path, p);
    rc = rc ? rc : find_to_move(e, &to->route, to->path, &q);
    rc = rc ? rc : tb_place_beside(e, p, &to->route, to->path, &q);
    if (rc || p->scratch != q.scratch)
        return rc ? rc : -EXDEV;
    if ((rc = tb_rename_cut_tails(p, &q)))
        return rc;
    const struct tb_identity gone = last_name(e, &q), moved = last_name(e, p);
    bool other = gone.inode != moved.inode && !(flags & (RENAME_EXCHANGE | RENAME_NOREPLACE));
    if (moved.regular && (rc = tb_shared_settle_identity(e, &moved)))
        return rc;
    if (p->scratch && TB_IO(p->io, stat, p->path, &st, AT_SYMLINK_NOFOLLOW) == 0)
        kind = st.st_mode;
    bool forget = p->scratch && !moves_no_links(e, p, kind, flags);
    rc = rename_places(e, p, &q, kind, flags);
    if (!rc && gone.regular && other)
        rc = tb_shared_remove(e, &gone);
    if (forget)
        tb_shadow_forget(e);
    return rc;
}

static int rename_names(tb_engine *e, const struct name *from, const struct name *to, unsigned flags)
{
    struct tb_name_locks locks;
    struct tb_place p;
    int rc, looks = 0;
    begin_change(e, from->path, to->path, &locks);
    do
        rc = rename_found(e, from, to, flags, &p);
    while (tb_place_was_left(&p, rc, &looks));
    end_change(e, &locks);
    return rc;
}

static int link_found(tb_engine *e, const struct name *from, const struct name *to, struct tb_place *p)
{
    struct tb_place q;
    int rc = tb_place_find(e, &from->route, from->path, TB_NAME_CHANGE | TB_NAME_NOFOLLOW, p);
    rc = rc ? rc : publish_name(e, &from->route, from->path, TB_NAME_CHANGE | TB_NAME_NOFOLLOW, p);
    rc = rc ? rc : tb_place_find_new(e, p, &to->route, to->path, &q);
    rc = rc ? rc : tb_place_beside(e, p, &to->route, to->path, &q);
    if (rc || p->scratch != q.scratch)
        return rc ? rc : -EXDEV;
    rc = TB_IO(p->io, link, p->path, q.path);
    if (p->kind == TB_SHADOW_LINK)
        tb_shadow_forget(e); /* a link has a new name */
    return rc;
}

/* Locked against an unlink, which would take the old name for the last one. */
static int link_names(tb_engine *e, const struct name *from, const struct name *to)
{
    struct tb_name_locks locks;
    struct tb_place p;
    int rc, looks = 0;
    tb_named_lock(e, from->path, to->path, &locks);
    do
        rc = link_found(e, from, to, &p);
    while (tb_place_was_left(&p, rc, &looks));
    tb_named_unlock(e, &locks);
    return rc;
}

/* As operations: the second name comes without its chain, so it is routed here. */
int tb_layer_rename(struct tb_io *io, const char *from, const char *to, unsigned flags)
{
    tb_engine *e = tb_layer_engine(io);
    return rename_names(e, &(struct name){from, tb_route_given(io, from)}, &(struct name){to, tb_route_of(e, to)}, flags);
}

int tb_layer_link(struct tb_io *io, const char *from, const char *to)
{
    tb_engine *e = tb_layer_engine(io);
    return link_names(e, &(struct name){from, tb_route_given(io, from)}, &(struct name){to, tb_route_of(e, to)});
}

/* ---- the adapter's side: engine.h ---- */

static struct name routed(const tb_engine *e, const struct tb_io *chain, const char *path)
{
    return (struct name){path, tb_route_answered(e, chain, path)};
}

int tb_engine_rename(tb_engine *e, struct tb_io *from_chain, const char *from, struct tb_io *to_chain, const char *to, unsigned flags)
{
    const struct name a = routed(e, from_chain, from), b = routed(e, to_chain, to);
    return rename_names(e, &a, &b, flags);
}

int tb_engine_link(tb_engine *e, struct tb_io *from_chain, const char *from, struct tb_io *to_chain, const char *to)
{
    const struct name a = routed(e, from_chain, from), b = routed(e, to_chain, to);
    return link_names(e, &a, &b);
}
