/*
 * Deferred names: making a file in the hidden directory, finding it by the name that it
 * will have, giving it that name, and doing the same after a crash (namespace/deferred.h).
 * A name is made and given its place under shadows.lock, so the two never cross.
 */
#include "namespace/deferred.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/remove_tree.h"
#include "base/report.h"
#include "file/file.h"
#include "io/answer.h"
#include "io/directory.h"
#include "io/identity.h"
#include "region/directories.h"
#include "region/lease.h"

#define MAX_LINKS 40 /* as the kernel */
#define OF ".of"

/* The path stays empty if names are not deferred. */
void tb_waiting_prepare(tb_engine *e)
{
    if (tb_config_of(e)->deferred)
        tb_waiting_directory(tb_config_of(e), e->header->host, e->header->name, e->waiting, sizeof(e->waiting));
}

/* Where root runs programs as other users, they make files in it too. */
int tb_waiting_open_to_clients(const char *path)
{
    return getuid() == 0 && chmod(path, 01733) ? -errno : 0;
}

struct removal {
    struct tb_io *io;
    const char *hidden;
    bool left;
};

static int remove_key(void *arg, const char *name, unsigned char type)
{
    struct removal *r = arg;
    char path[PATH_MAX];
    if (name[0] == '.' || type != DT_DIR)
        return 0;
    snprintf(path, sizeof(path), "%s/%s", r->hidden, name);
    r->left |= TB_IO(r->io, unlink, path, AT_REMOVEDIR) != 0;
    return 0;
}

/* Directories without files, and their names; a file that is left keeps all of it, and so does a listing that fails. */
void tb_waiting_remove(const struct tb_config *c, const char *host, const char *name, struct tb_io *io)
{
    char hidden[TB_PATH_MAX + 256];
    struct removal r = {.io = io, .hidden = hidden};
    if (!c->deferred)
        return;
    tb_waiting_directory(c, host, name, hidden, sizeof(hidden));
    if (tb_io_each_entry(io, hidden, remove_key, &r) == 0 && !r.left)
        tb_remove_tree(hidden, TB_LEASE_HIDDEN);
}

bool tb_waiting_applies(const tb_engine *e, const struct tb_route *r)
{
    return tb_config_of(e)->deferred && r->prefix && r->prefix->mode == TB_MODE_PERSISTENT_ASYNC;
}

/* "DIRECTORY" and "NAME" of a path; false where the last part names no entry. */
static bool split(const char *path, char *directory, const char **name)
{
    const char *slash = strrchr(path, '/');
    *name = slash ? slash + 1 : "";
    if (!slash || !**name || strcmp(*name, ".") == 0 || strcmp(*name, "..") == 0)
        return false;
    snprintf(directory, PATH_MAX, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    return true;
}

/* HIDDEN/KEY of a directory. */
static int key_of(struct tb_io *io, const char *hidden, const char *directory, char *out)
{
    struct tb_identity id;
    int rc = tb_identity_of_path(io, directory, &id);
    if (rc)
        return rc;
    return snprintf(out, PATH_MAX, "%s/%llx-%llx", hidden, (unsigned long long)id.inode, (unsigned long long)id.birth_ns) < TB_PATH_MAX
             ? 0
             : -ENAMETOOLONG;
}

/*
 * Answers of the look-ups below: 1 yes, 0 no, or the error of a file system that failed:
 * a name that waits and is taken for one that does not would be made a second time.
 */
static int yes_or_error(long rc)
{
    return rc >= 0 ? 1 : tb_io_failed(rc) ? (int)rc : 0;
}

/* No also for names that are too long to be deferred: they are made on the PFS. */
static int place_of(const tb_engine *e, const char *path, char *out)
{
    char directory[PATH_MAX];
    const char *name;
    int rc = split(path, directory, &name) ? yes_or_error(key_of(e->pfs, e->waiting, directory, out)) : 0;
    if (rc <= 0)
        return rc;
    size_t n = strlen(out);
    return (size_t)snprintf(out + n, PATH_MAX - n, "/%s", name) < TB_PATH_MAX - n;
}

/* A symlink that leads nowhere on the PFS may lead to a name that waits. */
static int follow_link(const tb_engine *e, char *path)
{
    char text[PATH_MAX], directory[PATH_MAX];
    struct stat st;
    const char *name;
    ssize_t n = TB_IO(e->pfs, readlink, path, text, sizeof(text) - 1);
    int rc = n > 0 ? TB_IO(e->pfs, stat, path, &st, 0) : 0;
    if (n <= 0 || rc == 0 || tb_io_failed(rc) || !split(path, directory, &name))
        return tb_io_failed(n) ? (int)n : tb_io_failed(rc) ? rc : 0;
    text[n] = 0;
    return (text[0] == '/' ? snprintf(path, PATH_MAX, "%s", text) : snprintf(path, PATH_MAX, "%s/%s", directory, text)) < PATH_MAX;
}

/* A name below a file that waits: what the kernel says of that file is what it is to say. */
static int below_waiting(tb_engine *e, const char *path, char *out)
{
    char directory[PATH_MAX];
    const char *name;
    if (!split(path, directory, &name))
        return 0;
    int there = yes_or_error(TB_IO(e->pfs, access, directory, F_OK, AT_EACCESS));
    int rc = there ? there : tb_waiting_find(e, directory, true, out);
    if (there > 0 || rc <= 0)
        return there > 0 ? 0 : rc;
    size_t n = strlen(out);
    return (size_t)snprintf(out + n, PATH_MAX - n, "/%s", name) < TB_PATH_MAX - n;
}

/* names_waited is false until the first deferred name: then nothing costs a look. */
int tb_waiting_find(tb_engine *e, const char *path, bool follow, char *out)
{
    char at[PATH_MAX];
    struct stat st;
    if (!e->header->shadows.names_waited || (size_t)snprintf(at, sizeof(at), "%s", path) >= sizeof(at))
        return 0;
    for (int links = 0; links < MAX_LINKS; links++) {
        int rc = place_of(e, at, out);
        if (rc > 0)
            rc = yes_or_error(TB_IO(e->pfs, stat, out, &st, AT_SYMLINK_NOFOLLOW));
        if (rc)
            return rc;
        rc = follow ? follow_link(e, at) : 0;
        if (rc <= 0)
            return rc ? rc : below_waiting(e, at, out);
    }
    return 0;
}

/*
 * In one step: others look at it without the lock. A text that can't be read is written
 * again. If killed before the rename, ".new" is left, which the next one replaces.
 */
static int note_of(struct tb_io *io, const char *of, const char *directory)
{
    char before[PATH_MAX], aside[PATH_MAX + 2 * sizeof(OF)];
    ssize_t n = TB_IO(io, readlink, of, before, sizeof(before) - 1);
    before[n < 0 ? 0 : n] = 0;
    if (strcmp(before, directory) == 0)
        return 0;
    snprintf(aside, sizeof(aside), "%s.new", of);
    TB_IO(io, unlink, aside, 0); /* of one that was killed */
    int rc = TB_IO(io, symlink, directory, aside);
    return rc ? rc : TB_IO(io, rename, aside, of, 0);
}

/*
 * Where root's programs run as other users, others can make names in HIDDEN.  The text that says what a directory is
 * called is believed where the instance's user made it, or the directory's owner.
 */
static int check_made_for(struct tb_io *io, const char *of, const struct stat *directory, uid_t instance)
{
    struct stat st;
    int rc = TB_IO(io, stat, of, &st, AT_SYMLINK_NOFOLLOW);
    return rc ? rc : st.st_uid == instance || st.st_uid == directory->st_uid ? 0 : -EEXIST;
}

/* With the directory's permissions, as far as the user may, so that the kernel keeps them. */
static int set_permissions(struct tb_io *io, const char *key, const struct stat *directory)
{
    int owner = TB_IO(io, chown, key, directory->st_uid, directory->st_gid, AT_SYMLINK_NOFOLLOW);
    int mode = TB_IO(io, chmod, key, directory->st_mode & 07777, 0);
    return tb_io_failed(owner) ? owner : tb_io_failed(mode) ? mode : 0;
}

/* The text is made after the directory: a directory without a text may be another user's, and is not used. */
static int make_noted(const tb_engine *e, const char *key, const char *directory, const struct stat *st)
{
    char of[PATH_MAX + sizeof(OF)];
    assert(strncmp(key, e->waiting, strlen(e->waiting)) == 0 && directory[0] == '/');
    snprintf(of, sizeof(of), "%s" OF, key);
    int made = TB_IO(e->pfs, mkdir, key, 0700);
    int rc = made == -EEXIST ? check_made_for(e->pfs, of, st, e->header->uid) : made;
    if (rc)
        return rc;
    rc = note_of(e->pfs, of, directory);
    if (rc && !made)
        TB_IO(e->pfs, unlink, key, AT_REMOVEDIR); /* the next one tries again */
    return rc ? rc : set_permissions(e->pfs, key, st);
}

/* The directory's place in HIDDEN. */
static int make_key(const tb_engine *e, const char *directory, char *key)
{
    char real[PATH_MAX];
    struct stat st, hidden;
    int rc = key_of(e->pfs, e->waiting, directory, key);
    rc = rc ? rc : TB_IO(e->pfs, stat, directory, &st, 0);
    rc = rc ? rc : TB_IO(e->pfs, stat, e->waiting, &hidden, 0);
    rc = rc ? rc : TB_IO(e->pfs, realpath, directory, real);
    if (!rc && st.st_dev != hidden.st_dev)
        rc = -EXDEV;
    if (!rc && !S_ISDIR(st.st_mode))
        rc = -ENOTDIR; /* a file has an identity too, but nothing can get a place below it */
    return rc ? rc : make_noted(e, key, real, &st);
}

/* -EAGAIN: the name cannot be deferred, so the file is made on the PFS itself. */
static int make(tb_engine *e, const char *path, int flags, mode_t mode, char *out)
{
    char directory[PATH_MAX];
    struct stat st;
    const char *name;
    if (!split(path, directory, &name))
        return -EAGAIN;
    int rc = TB_IO(e->pfs, stat, path, &st, AT_SYMLINK_NOFOLLOW);
    if (rc == 0)
        return -EAGAIN; /* the PFS's own */
    rc = tb_io_failed(rc) ? rc : make_key(e, directory, out);
    if (rc)
        return tb_io_failed(rc) ? rc : -EAGAIN;
    size_t n = strlen(out);
    if ((size_t)snprintf(out + n, PATH_MAX - n, "/%s", name) >= TB_PATH_MAX - n)
        return -EAGAIN;
    e->header->shadows.names_waited = true;
    int fd = TB_IO(e->pfs, open, out, flags, mode);
    return fd == -EACCES ? -EAGAIN : fd; /* another user's directory may have other permissions since: it decides */
}

/*
 * If killed after the file was made, it is found by its place: a drain or a recovery gives
 * it its name, with what bytes it has. If killed before, HIDDEN/KEY alone is left, which the
 * next name in that directory uses, and the end of the instance removes.
 */
int tb_waiting_open(tb_engine *e, const char *path, int flags, mode_t mode, char *out)
{
    assert(e->waiting[0] && flags & O_CREAT);
    int lock = tb_lock_take(&e->header->shadows.lock); /* from here on no process can take the name or remove the directory */
    int fd = make(e, path, flags, mode, out);
    if (fd == -EAGAIN)
        fd = TB_IO(e->pfs, open, strcpy(out, path), flags, mode);
    if (lock >= 0)
        tb_lock_drop(&e->header->shadows.lock);
    return fd;
}

/*
 * Checked against the directory that exists now: its text may be old.  -ENOENT: no place in
 * HIDDEN; -ESTALE: the directory is not where the text says, which `out` shows all the same.
 */
static int shown(struct tb_io *io, const char *hidden, const char *place, char *out, size_t size)
{
    char of[PATH_MAX], directory[PATH_MAX], key[PATH_MAX];
    size_t length = strlen(hidden);
    const char *slash = !length || strncmp(place, hidden, length) != 0 || place[length] != '/' ? NULL : strchr(place + length + 1, '/');
    if (!slash || snprintf(of, sizeof(of), "%.*s" OF, (int)(slash - place), place) >= (int)sizeof(of))
        return -ENOENT;
    ssize_t n = TB_IO(io, readlink, of, directory, sizeof(directory) - 1);
    directory[n < 0 ? 0 : n] = 0;
    int rc = n > 0 ? key_of(io, hidden, directory, key) : tb_io_failed(n) ? (int)n : -ESTALE;
    bool same = !rc && strncmp(key, place, (size_t)(slash - place)) == 0 && !key[slash - place];
    if ((size_t)snprintf(out, size, "%s%s", directory, slash) >= size)
        return -ENAMETOOLONG;
    return same ? 0 : tb_io_failed(rc) ? rc : -ESTALE;
}

int tb_waiting_shown(const tb_engine *e, const char *place, char *out, size_t size)
{
    return shown(e->pfs, e->waiting, place, out, size);
}

/* Names that are given without a record of the file. */
struct giving {
    tb_engine *e; /* NULL: no region, so there are no records */
    const char *hidden;
    struct tb_io *io;
    tb_file_reporter *report;
    void *arg;
    int error;                         /* the first */
    char key[TB_PATH_MAX + 256 + 300]; /* directory that is listed */
};

static void tell(struct giving *g, const struct tb_file_report *r)
{
    if (g->report)
        g->report(g->arg, r);
    g->error = g->error ? g->error : r->error;
}

/* A file with a record is given its place by its own flush. */
static int has_record(const struct giving *g, const char *path)
{
    struct tb_identity id;
    int rc = g->e ? tb_identity_of_name(g->io, path, &id) : 0;
    return rc ? rc : g->e && tb_file_find(g->e, &id) != TB_NONE;
}

/* A user who could write the text could send a file into any directory. */
static int is_honest(struct tb_io *io, const char *path, const char *shown_as)
{
    char of[PATH_MAX], key[PATH_MAX], directory[PATH_MAX];
    struct stat text, st;
    const char *name;
    snprintf(key, sizeof(key), "%.*s", (int)(strrchr(path, '/') - path), path);
    if ((size_t)snprintf(of, sizeof(of), "%s" OF, key) >= sizeof(of))
        return 0;
    int rc = TB_IO(io, stat, of, &text, AT_SYMLINK_NOFOLLOW);
    if (rc) {
        rc = tb_io_failed(rc) ? rc : TB_IO(io, stat, key, &st, 0);
        return rc ? yes_or_error(rc) : st.st_uid == getuid();
    }
    if (text.st_uid == getuid() || !split(shown_as, directory, &name))
        return text.st_uid == getuid();
    rc = TB_IO(io, stat, directory, &st, 0);
    return rc ? yes_or_error(rc) : text.st_uid == st.st_uid;
}

/*
 * Where the file system cannot refuse to replace, a link does: it fails if the name is
 * taken. If killed between link and unlink, the file has both names, and the next try finds
 * that both are one file.
 */
int tb_waiting_move(struct tb_io *io, const char *place, const char *path)
{
    struct tb_identity here, there;
    int rc = TB_IO(io, rename, place, path, RENAME_NOREPLACE);
    if (rc != -EINVAL)
        return rc;
    rc = TB_IO(io, link, place, path);
    if (rc == -EEXIST && tb_identity_of_name(io, place, &here) == 0 && tb_identity_of_name(io, path, &there) == 0 &&
        here.inode == there.inode && here.device == there.device)
        rc = 0; /* an earlier one was killed here */
    return rc ? rc : TB_IO(io, unlink, place, 0);
}

/* No record knows the file: only its place in the hidden directory tells which name it should get. */
static void give_place(struct giving *g, const char *path)
{
    struct tb_file_report r = {.error = 0};
    struct stat st;
    int there = shown(g->io, g->hidden, path, r.path, sizeof(r.path));
    if (!r.path[0])
        snprintf(r.path, sizeof(r.path), "%.1000s", path);
    r.bytes = TB_IO(g->io, stat, path, &st, AT_SYMLINK_NOFOLLOW) == 0 ? (uint64_t)st.st_size : 0;
    int honest = is_honest(g->io, path, r.path);
    if (honest == 0)
        snprintf(r.why, sizeof(r.why), "another user made the directory of this name that waits: left alone");
    else
        r.error = honest < 0 ? honest : there ? there : tb_waiting_move(g->io, path, r.path);
    tell(g, &r);
}

static int give_entry(void *arg, const char *name, unsigned char type)
{
    struct giving *g = arg;
    char path[PATH_MAX];
    (void)type;
    snprintf(path, sizeof(path), "%s/%s", g->key, name);
    int known = has_record(g, path);
    if (known < 0 && known != -ENOENT) {
        struct tb_file_report r = {.error = known};
        snprintf(r.path, sizeof(r.path), "%.1000s", path);
        tell(g, &r);
    }
    if (known == 0)
        give_place(g, path);
    return 0; /* one failure does not stop the rest */
}

/* A directory that cannot be listed is reported as a file: nothing says what is in it. */
static int give_key(void *arg, const char *name, unsigned char type)
{
    struct giving *g = arg;
    if (type != DT_DIR || name[0] == '.')
        return 0;
    snprintf(g->key, sizeof(g->key), "%s/%s", g->hidden, name);
    struct tb_file_report r = {.error = tb_io_each_entry(g->io, g->key, give_entry, g)};
    snprintf(r.path, sizeof(r.path), "%.1000s", g->key);
    if (r.error && r.error != -ENOENT)
        tell(g, &r);
    return 0;
}

/* Two levels alone: keys, and the files in them. A hidden directory that is not there holds nothing. */
static int give_places(struct giving *g)
{
    assert(g->hidden[0] && !g->error);
    int rc = tb_io_each_entry(g->io, g->hidden, give_key, g);
    return g->error ? g->error : rc == -ENOENT ? 0 : rc;
}

int tb_waiting_finish(tb_engine *e, tb_file_reporter *report, void *arg)
{
    struct giving g = {.e = e, .hidden = e->waiting, .io = e->pfs, .report = report, .arg = arg};
    return e->waiting[0] ? give_places(&g) : 0;
}

/* Without a region no record can know a name, so all of them are given their places. */
int tb_waiting_recover(const struct tb_config *c, const char *host, const char *name, struct tb_io *io, tb_file_reporter *report, void *arg)
{
    char hidden[TB_PATH_MAX + 256];
    struct giving g = {.hidden = hidden, .io = io, .report = report, .arg = arg};
    tb_waiting_directory(c, host, name, hidden, sizeof(hidden));
    int rc = give_places(&g);
    tb_waiting_remove(c, host, name, io);
    return rc;
}

struct list {
    char *names;
    size_t used;
};

static int add_name(void *arg, const char *name, unsigned char type)
{
    struct list *l = arg;
    size_t n = strlen(name) + 1;
    char *grown = realloc(l->names, l->used + n + 1);
    (void)type;
    if (!grown)
        return -ENOMEM;
    l->names = grown;
    memcpy(l->names + l->used, name, n);
    l->used += n;
    l->names[l->used] = 0;
    return 0;
}

/* Names that were added during the walk may be missing, as in any listing. */
int tb_waiting_list(tb_engine *e, const char *path, char **out)
{
    char key[PATH_MAX];
    struct list l = {NULL, 0};
    *out = NULL;
    if (!e->header->shadows.names_waited)
        return 0;
    int rc = key_of(e->pfs, e->waiting, path, key);
    rc = rc ? rc : tb_io_each_entry(e->pfs, key, add_name, &l);
    assert(!l.names || l.used > 0);
    *out = rc ? NULL : l.names;
    if (rc)
        free(l.names);
    return tb_io_failed(rc) ? rc : 0; /* no key: none waits there */
}

/*
 * Locked by shadows.lock: no new name can be deferred in the directory in between. The key
 * goes first, because it says whether names wait. If killed after it, a new name in the
 * directory makes the key again. A look-up that failed removes nothing.
 */
int tb_waiting_remove_directory(tb_engine *e, struct tb_io *io, const char *path)
{
    char key[PATH_MAX], of[PATH_MAX + sizeof(OF)];
    int lock = tb_lock_take(&e->header->shadows.lock);
    int known = key_of(e->pfs, e->waiting, path, key);
    int rc = known ? known : TB_IO(e->pfs, unlink, key, AT_REMOVEDIR);
    if (!tb_io_failed(rc) && rc != -ENOTEMPTY)
        rc = TB_IO(io, unlink, path, AT_REMOVEDIR); /* what has no key says itself why it can't be removed */
    if (!rc && !known) {
        snprintf(of, sizeof(of), "%s" OF, key);
        TB_IO(e->pfs, unlink, of, 0); /* one that is left is nothing but a name */
    }
    if (lock >= 0)
        tb_lock_drop(&e->header->shadows.lock);
    return rc;
}

/* A directory, by its real names before and after a rename. */
struct moved {
    tb_engine *e;
    char from[PATH_MAX], to[PATH_MAX];
    bool exchanged; /* what was `to` is `from` now */
};

/* The text below one name, as it is below the other; false: it is not below. */
static bool below_other(const char *text, const char *from, const char *to, char *out)
{
    size_t n = strlen(from);
    bool is_below = strncmp(text, from, n) == 0 && (!text[n] || text[n] == '/');
    return is_below && snprintf(out, PATH_MAX, "%s%s", to, text + n) < PATH_MAX;
}

/* KEY.of, and what it says; 0: `name` is no such text, or it is gone. */
static int read_text(const struct moved *m, const char *name, unsigned char type, char *of, char *text)
{
    size_t length = strlen(name);
    if (type != DT_LNK || length <= strlen(OF) || strcmp(name + length - strlen(OF), OF) != 0)
        return 0;
    snprintf(of, PATH_MAX, "%s/%.255s", m->e->waiting, name);
    ssize_t n = TB_IO(m->e->pfs, readlink, of, text, PATH_MAX - 1);
    if (n < 0)
        return tb_io_failed(n) ? (int)n : 0;
    text[n] = 0;
    return 1;
}

static int rename_of(void *arg, const char *name, unsigned char type)
{
    const struct moved *m = arg;
    char of[PATH_MAX], text[PATH_MAX], renamed[PATH_MAX];
    int rc = read_text(m, name, type, of, text);
    if (rc <= 0 || !(below_other(text, m->from, m->to, renamed) || (m->exchanged && below_other(text, m->to, m->from, renamed))))
        return rc < 0 ? rc : 0;
    return note_of(m->e->pfs, of, renamed);
}

/* Is the directory the one of KEY.of? */
static bool leads_to(const tb_engine *e, const char *directory, const char *of)
{
    char key[PATH_MAX];
    size_t n = strlen(e->waiting) + 1;
    return key_of(e->pfs, e->waiting, directory, key) == 0 && strncmp(key + n, of, strlen(key + n)) == 0 &&
           strcmp(of + strlen(key + n), OF) == 0;
}

static int settle_of(void *arg, const char *name, unsigned char type)
{
    const struct moved *m = arg;
    char of[PATH_MAX], text[PATH_MAX], other[PATH_MAX];
    int rc = read_text(m, name, type, of, text);
    if (rc <= 0 || !(below_other(text, m->from, m->to, other) || below_other(text, m->to, m->from, other)))
        return rc < 0 ? rc : 0;
    return !leads_to(m->e, text, name) && leads_to(m->e, other, name) ? note_of(m->e->pfs, of, other) : 0;
}

/* The directory above is there before and after the rename. */
static int real_name(const tb_engine *e, const char *path, char *out)
{
    char above[PATH_MAX], real[PATH_MAX];
    const char *slash = strrchr(path, '/');
    assert(path[0] == '/');
    snprintf(above, sizeof(above), "%.*s", slash == path ? 1 : (int)(slash - path), path);
    int rc = TB_IO(e->pfs, realpath, above, real);
    if (!rc)
        snprintf(out, PATH_MAX, "%.3000s/%.255s", strcmp(real, "/") ? real : "", slash + 1);
    return rc;
}

static int each_text(tb_engine *e, const char *from, const char *to, bool exchanged,
                     int (*act)(void *arg, const char *name, unsigned char type))
{
    struct moved m = {.e = e, .exchanged = exchanged};
    if (!tb_config_of(e)->deferred || !e->header->shadows.names_waited)
        return 0;
    int rc = real_name(e, from, m.from);
    rc = rc ? rc : real_name(e, to, m.to);
    return rc ? rc : tb_io_each_entry(e->pfs, e->waiting, act, &m);
}

/* Only the text of HIDDEN/KEY.of changes: the key is the directory's identity. */
int tb_waiting_rename(tb_engine *e, const char *from, const char *to, bool exchanged)
{
    int rc = each_text(e, from, to, exchanged, rename_of);
    if (rc)
        tb_waiting_settle(e, from, to);
    return rc;
}

int tb_waiting_settle(tb_engine *e, const char *from, const char *to)
{
    return each_text(e, from, to, true, settle_of);
}
