/*
 * Renaming claimed files: journal, PFS, records, in this order. If killed between two of
 * them, replay or repair finishes the change.
 */
#include "namespace/rename.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/kill_point.h"
#include "base/lock.h"
#include "buffer/of_file.h"
#include "file/file.h"
#include "file/name_tree.h"
#include "file/state.h"
#include "journal/journal.h"
#include "namespace/deferred.h"
#include "namespace/intent.h"

static bool has_tail(const char *path)
{
    return path[strlen(path) - 1] == '/'; /* of names that end in dots the adapter lets the kernel say why they can't move */
}

int tb_rename_cut_tails(struct tb_place *from, struct tb_place *to)
{
    char name[PATH_MAX];
    struct stat st;
    if (!has_tail(from->path) && !has_tail(to->path))
        return 0;
    strcpy(name, from->path);
    tb_name_cut_tail(name);
    if (TB_IO(from->io, stat, name, &st, AT_SYMLINK_NOFOLLOW))
        return 0;
    if (!S_ISDIR(st.st_mode))
        return -ENOTDIR;
    tb_name_cut_tail(from->path);
    tb_name_cut_tail(to->path);
    return 0;
}

/* The file at the new name loses its last name. With more names it lives on. */
static bool is_replaced(const struct tb_renamed *over, unsigned flags)
{
    return over->file != TB_NONE && !(flags & RENAME_EXCHANGE) && over->id.links == 1;
}

/* Synced before the rename: a crash after it must let recovery find the file by its new name. */
int tb_rename_tell_journal(tb_engine *e, const char *from, const char *to, unsigned flags)
{
    int rc = tb_journal_rename(e, from, to);
    if (!rc && flags & RENAME_EXCHANGE)
        rc = tb_journal_rename(e, to, from);
    return rc ? rc : tb_journal_sync(e);
}

static int prepare_rename(tb_engine *e, const struct tb_renamed *from, const struct tb_renamed *over, unsigned flags)
{
    int rc = is_replaced(over, flags) ? tb_journal_tell_removal(e, over->file) : 0;
    if (!rc && tb_journal_has_records(e))
        rc = tb_rename_tell_journal(e, from->place->path, over->place->path, flags);
    return rc;
}

/*
 * The names that the records will have, in the table before the PFS is told: what comes
 * after the rename cannot fail for want of room. If killed, their nodes are lost until the
 * instance ends.
 */
struct names_to_be {
    struct tb_file from, over; /* only their names count; directory TB_NONE: none is held */
};

static int hold_name(tb_engine *e, uint32_t file, const char *path, struct tb_file *out)
{
    out->directory = TB_NONE;
    return file == TB_NONE ? 0 : tb_names_set(e, out, path);
}

static void let_go(tb_engine *e, struct names_to_be *names)
{
    tb_names_clear(e, &names->from);
    tb_names_clear(e, &names->over);
}

static int hold_names(tb_engine *e, const struct tb_renamed *from, const struct tb_renamed *over, unsigned flags, struct names_to_be *out)
{
    out->over.directory = TB_NONE;
    int rc = hold_name(e, from->file, over->place->path, &out->from);
    rc = rc || !(flags & RENAME_EXCHANGE) ? rc : hold_name(e, over->file, from->place->path, &out->over);
    if (rc)
        let_go(e, out);
    return rc;
}

/* After the PFS: if killed before, repair does it from the intent. */
static void rename_records(tb_engine *e, const struct tb_renamed *from, const struct tb_renamed *over, unsigned flags,
                           struct names_to_be *names)
{
    if (from->file != TB_NONE)
        tb_file_take_name(e, from->file, &names->from, over->place->path);
    TB_STEP("renamed record");
    if (over->file != TB_NONE && flags & RENAME_EXCHANGE)
        tb_file_take_name(e, over->file, &names->over, from->place->path);
    else if (is_replaced(over, flags))
        tb_file_lose_name(&e->region.files[over->file]);
}

/* If killed after the rename, repair reads the intent and renames the records. -ENFILE: no room for a name, and nothing is changed. */
int tb_rename_claimed(tb_engine *e, const struct tb_renamed *from, const struct tb_renamed *over, unsigned flags)
{
    const struct tb_place *p = from->place, *q = over->place;
    assert(p->io == q->io && (from->file == TB_NONE || from->file != over->file));
    if (from->file == TB_NONE && over->file == TB_NONE)
        return TB_IO(p->io, rename, p->path, q->path, flags);
    struct names_to_be names;
    int rc = hold_names(e, from, over, flags, &names);
    if (rc)
        return rc;
    if ((rc = prepare_rename(e, from, over, flags)))
        return let_go(e, &names), rc;
    struct tb_intent *intent = tb_intent_rename(e, from->file, over->file, p->path, q->path);
    TB_STEP("rename");
    rc = TB_IO(p->io, rename, p->path, q->path, flags);
    TB_STEP("renamed");
    if (!rc)
        rename_records(e, from, over, flags, &names);
    tb_intent_end(intent);
    let_go(e, &names); /* what was not needed */
    if (!rc && is_replaced(over, flags))
        tb_file_forget_claimed(e, over->file);
    return rc;
}

/*
 * Of a name in the hidden directory: a rename to where it is to be, unless a file is there.
 * Locked by shadows.lock, against a new deferred name and the removal of the directory.
 * Where the file system cannot refuse to replace: link, record, unlink. If killed after the
 * link, the next flush finds that the name is the file's own already.
 */
static int take_place(tb_engine *e, const struct tb_renamed *from, const struct tb_renamed *to)
{
    const struct tb_place *p = from->place, *q = to->place;
    struct tb_identity there;
    int lock = tb_lock_take(&e->header->shadows.lock);
    int rc = tb_rename_claimed(e, from, to, RENAME_NOREPLACE);
    if (rc == -EINVAL) { /* a file system without it */
        rc = TB_IO(p->io, link, p->path, q->path);
        if (rc == -EEXIST && tb_identity_of_name(q->io, q->path, &there) == 0 && tb_identity_is(&e->region.files[from->file], &there))
            rc = 0;
        if (!rc && !(rc = tb_file_rename(e, from->file, q->path)))
            rc = TB_IO(p->io, unlink, p->path, 0);
    }
    if (lock >= 0)
        tb_lock_drop(&e->header->shadows.lock);
    return rc;
}

/* A record that waits: where it says that its file is, and where that is to be. */
struct ways {
    struct tb_place here, there;
    bool waits, left; /* the file is to move; it is not where the record says */
};

static bool is_at(tb_engine *e, uint32_t file, const struct tb_place *p, int *rc)
{
    struct tb_identity id;
    *rc = tb_identity_of_name(p->io, p->path, &id);
    return !*rc && tb_identity_is(&e->region.files[file], &id);
}

/* Nothing or another file is there: another answer tells nothing of it, as that of a directory that this user may not search. */
static bool tells_absence(int seen)
{
    return !seen || seen == -ENOENT || seen == -ENOTDIR;
}

/* What has its place now may be another new file. */
static int look_up(tb_engine *e, uint32_t file, struct ways *w)
{
    int seen = 0, stripe = tb_file_lock(e, file);
    w->here.io = w->there.io = e->pfs;
    tb_file_path(e, &e->region.files[file], w->here.path, TB_PATH_MAX);
    tb_file_unlock(e, stripe);
    w->waits = strncmp(w->here.path, e->waiting, strlen(e->waiting)) == 0;
    w->left = w->waits && !is_at(e, file, &w->here, &seen) && tells_absence(seen);
    return w->waits ? tb_waiting_shown(e, w->here.path, w->there.path, TB_PATH_MAX) : 0;
}

/* The file is claimed. An earlier record of the same file may have been given the place already. */
static int name_once(tb_engine *e, uint32_t file, bool may_move, bool *left)
{
    struct ways w = {.left = false};
    struct tb_renamed from = {.place = &w.here, .file = file}, to = {.place = &w.there, .file = TB_NONE};
    int seen, rc = look_up(e, file, &w);
    tb_file_begin_naming(e, file);
    if (!rc && w.left)
        rc = is_at(e, file, &w.there, &seen) ? tb_file_rename(e, file, w.there.path) : tells_absence(seen) ? -ENOENT : seen;
    else if (!rc && w.waits)
        rc = may_move ? take_place(e, &from, &to) : -ENOENT;
    if (!rc)
        tb_file_take_place(&e->region.files[file]);
    tb_file_end_naming(&e->region.files[file]);
    *left = w.left;
    return rc;
}

/* To another user of an instance of root's a directory may seem to be gone that it may not look at. */
static bool sees_all(const tb_engine *e)
{
    return geteuid() == 0 || geteuid() == e->header->uid;
}

/*
 * While a directory is being renamed, its text and its name do not agree: wait for that, then try again. A file that left its place and
 * has no name waits no more: its bytes are what another program removed, and without bytes nothing keeps its record.
 */
static int name_it(tb_engine *e, uint32_t file, bool may_move)
{
    uint32_t n_renames;
    bool left;
    int rc;
    assert(file != TB_NONE);
    do {
        n_renames = e->header->names.n_renames;
        rc = name_once(e, file, may_move, &left);
    } while ((rc == -ENOENT || rc == -ESTALE) && tb_names_moved(e, n_renames));
    if (left && (rc == -ENOENT || rc == -ESTALE) && sees_all(e))
        tb_file_take_place(&e->region.files[file]);
    return rc;
}

int tb_rename_publish(tb_engine *e, uint32_t file)
{
    return name_it(e, file, true);
}

int tb_rename_follow(tb_engine *e, uint32_t file)
{
    return name_it(e, file, false);
}
