/*
 * Deferred names: making a file in the hidden directory, finding it by the name that it
 * will have, giving it that name, and doing the same after a crash (namespace/deferred.h).
 * A name is made and given its place under shadows.lock, so the two never cross.
 */
#include "namespace/deferred.h"

#include <dirent.h>
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

/* Directories without files, and their names; a file that is left keeps all of it. */
void tb_waiting_remove(const struct tb_config *c, const char *host, const char *name)
{
    char hidden[TB_PATH_MAX + 256], path[PATH_MAX];
    tb_waiting_directory(c, host, name, hidden, sizeof(hidden));
    DIR *directory = c->deferred ? opendir(hidden) : NULL;
    bool left = false;
    for (struct dirent *d; directory && (d = readdir(directory));)
        if (d->d_name[0] != '.' && d->d_type == DT_DIR) {
            snprintf(path, sizeof(path), "%s/%s", hidden, d->d_name);
            left |= rmdir(path) != 0;
        }
    if (directory)
        closedir(directory);
    if (directory && !left)
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
static int key_of(const char *hidden, const char *directory, char *out)
{
    struct tb_identity id;
    int rc = tb_identity_of_path(directory, &id);
    if (rc)
        return rc;
    return snprintf(out, PATH_MAX, "%s/%llx-%llx", hidden, (unsigned long long)id.inode, (unsigned long long)id.birth_ns) < TB_PATH_MAX
             ? 0
             : -ENAMETOOLONG;
}

/* False also for names that are too long to be deferred: they are made on the PFS. */
static bool place_of(const tb_engine *e, const char *path, char *out)
{
    char directory[PATH_MAX];
    const char *name;
    if (!split(path, directory, &name) || key_of(e->waiting, directory, out))
        return false;
    size_t n = strlen(out);
    return (size_t)snprintf(out + n, PATH_MAX - n, "/%s", name) < TB_PATH_MAX - n;
}

/* A symlink that leads nowhere on the PFS may lead to a name that waits. */
static bool follow_link(char *path)
{
    char text[PATH_MAX], directory[PATH_MAX];
    struct stat st;
    const char *name;
    ssize_t n = readlink(path, text, sizeof(text) - 1);
    if (n <= 0 || stat(path, &st) == 0 || !split(path, directory, &name))
        return false;
    text[n] = 0;
    return (text[0] == '/' ? snprintf(path, PATH_MAX, "%s", text) : snprintf(path, PATH_MAX, "%s/%s", directory, text)) < PATH_MAX;
}

/* A name below a file that waits: what the kernel says of that file is what it is to say. */
static bool below_waiting(tb_engine *e, const char *path, char *out)
{
    char directory[PATH_MAX];
    const char *name;
    if (!split(path, directory, &name) || access(directory, F_OK) == 0 || !tb_waiting_find(e, directory, true, out))
        return false;
    size_t n = strlen(out);
    return (size_t)snprintf(out + n, PATH_MAX - n, "/%s", name) < TB_PATH_MAX - n;
}

/* names_waited is false until the first deferred name: then nothing costs a look. */
bool tb_waiting_find(tb_engine *e, const char *path, bool follow, char *out)
{
    char at[PATH_MAX];
    struct stat st;
    if (!e->header->shadows.names_waited || (size_t)snprintf(at, sizeof(at), "%s", path) >= sizeof(at))
        return false;
    for (int links = 0; links < MAX_LINKS; links++) {
        if (place_of(e, at, out) && lstat(out, &st) == 0)
            return true;
        if (!follow || !follow_link(at))
            return below_waiting(e, at, out);
    }
    return false;
}

/* In one step: others look at it without the lock. */
static int note_of(const char *of, const char *directory)
{
    char before[PATH_MAX], aside[PATH_MAX + 2 * sizeof(OF)];
    ssize_t n = readlink(of, before, sizeof(before) - 1);
    before[n < 0 ? 0 : n] = 0;
    if (strcmp(before, directory) == 0)
        return 0;
    snprintf(aside, sizeof(aside), "%s.new", of);
    unlink(aside);
    return symlink(directory, aside) || rename(aside, of) ? -errno : 0;
}

/*
 * Where root's programs run as other users, others can make names in HIDDEN.  The text that says what a directory is
 * called is believed where the instance's user made it, or the directory's owner.
 */
static bool is_made_for(const char *of, const struct stat *directory, uid_t instance)
{
    struct stat st;
    return lstat(of, &st) == 0 && (st.st_uid == instance || st.st_uid == directory->st_uid);
}

/* The directory's place in HIDDEN, with its permissions, so that the kernel keeps them. */
static int make_key(const tb_engine *e, const char *directory, char *key)
{
    char of[PATH_MAX + sizeof(OF)], real[PATH_MAX];
    struct stat st, hidden;
    int rc = key_of(e->waiting, directory, key);
    if (rc || stat(directory, &st) || stat(e->waiting, &hidden) || !realpath(directory, real))
        return rc ? rc : -errno;
    if (st.st_dev != hidden.st_dev)
        return -EXDEV;
    snprintf(of, sizeof(of), "%s" OF, key);
    if (mkdir(key, 0700) && (errno != EEXIST || !is_made_for(of, &st, e->header->uid)))
        return -errno;
    rc = note_of(of, real); /* after the directory: one without a text may be anybody's, and is not used */
    if (rc)
        return rc;
    if (chown(key, st.st_uid, st.st_gid))
        errno = 0; /* as far as the user may */
    chmod(key, st.st_mode & 07777);
    return 0;
}

/* -EAGAIN: the name cannot be deferred, so the file is made on the PFS itself. */
static int make(tb_engine *e, const char *path, int flags, mode_t mode, char *out)
{
    char directory[PATH_MAX];
    struct stat st;
    const char *name;
    if (!split(path, directory, &name) || lstat(path, &st) == 0 || make_key(e, directory, out))
        return -EAGAIN; /* the PFS's own */
    size_t n = strlen(out);
    if ((size_t)snprintf(out + n, PATH_MAX - n, "/%s", name) >= TB_PATH_MAX - n)
        return -EAGAIN;
    e->header->shadows.names_waited = true;
    int fd = e->pfs->ops->open(e->pfs, out, flags, mode);
    return fd == -EACCES ? -EAGAIN : fd; /* another user's directory may have other permissions since: it decides */
}

int tb_waiting_open(tb_engine *e, const char *path, int flags, mode_t mode, char *out)
{
    int lock = tb_lock_take(&e->header->shadows.lock); /* from here on no process can take the name or remove the directory */
    int fd = make(e, path, flags, mode, out);
    if (fd == -EAGAIN)
        fd = e->pfs->ops->open(e->pfs, strcpy(out, path), flags, mode);
    if (lock >= 0)
        tb_lock_drop(&e->header->shadows.lock);
    return fd;
}

/* Checked against the directory that exists now: its text may be old. */
static bool shown(const char *hidden, const char *place, char *out, size_t size)
{
    char of[PATH_MAX], directory[PATH_MAX], key[PATH_MAX];
    size_t length = strlen(hidden);
    const char *slash = !length || strncmp(place, hidden, length) != 0 || place[length] != '/' ? NULL : strchr(place + length + 1, '/');
    if (!slash || snprintf(of, sizeof(of), "%.*s" OF, (int)(slash - place), place) >= (int)sizeof(of))
        return false;
    ssize_t n = readlink(of, directory, sizeof(directory) - 1);
    directory[n < 0 ? 0 : n] = 0;
    bool there = n > 0 && key_of(hidden, directory, key) == 0 && strncmp(key, place, (size_t)(slash - place)) == 0 && !key[slash - place];
    return (size_t)snprintf(out, size, "%s%s", directory, slash) < size && there;
}

bool tb_waiting_shown(const tb_engine *e, const char *place, char *out, size_t size)
{
    return shown(e->waiting, place, out, size);
}

/* A file with a record is given its place by its own flush. */
static bool has_record(tb_engine *e, const char *path)
{
    struct tb_identity id;
    return e && tb_identity_of_name(path, &id) == 0 && tb_file_find(e, &id) != TB_NONE;
}

/* Whoever could write the text could send a file into any directory. */
static bool is_honest(const char *path, const char *shown_as)
{
    char of[PATH_MAX], key[PATH_MAX], directory[PATH_MAX];
    struct stat text, st;
    const char *name;
    snprintf(key, sizeof(key), "%.*s", (int)(strrchr(path, '/') - path), path);
    if ((size_t)snprintf(of, sizeof(of), "%s" OF, key) >= sizeof(of) || lstat(of, &text))
        return stat(key, &st) == 0 && st.st_uid == getuid();
    return text.st_uid == getuid() || (split(shown_as, directory, &name) && stat(directory, &st) == 0 && text.st_uid == st.st_uid);
}

/* No record remembers it: only its place in the hidden directory says which name it should get. */
static int give_place(const char *hidden, const char *path, struct tb_io *io, tb_file_reporter *report, void *arg)
{
    struct tb_file_report r = {.error = 0};
    struct stat st;
    bool there = shown(hidden, path, r.path, sizeof(r.path));
    if (!r.path[0])
        snprintf(r.path, sizeof(r.path), "%.1000s", path);
    r.bytes = lstat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
    if (!is_honest(path, r.path))
        snprintf(r.why, sizeof(r.why), "another user made the directory of this name that waits: left alone");
    else
        r.error = there ? io->ops->rename(io, path, r.path, RENAME_NOREPLACE) : -ESTALE;
    if (report)
        report(arg, &r);
    return r.error;
}

/* One failure does not stop the rest; the first error is returned. */
static int give_places_below(tb_engine *e, const char *hidden, const char *key, struct tb_io *io, tb_file_reporter *report, void *arg)
{
    char path[PATH_MAX];
    int error = 0;
    snprintf(path, sizeof(path), "%s/%s", hidden, key);
    size_t n = strlen(path);
    DIR *directory = opendir(path);
    for (struct dirent *d; directory && (d = readdir(directory));) {
        snprintf(path + n, sizeof(path) - n, "/%s", d->d_name);
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0 || has_record(e, path))
            continue;
        int rc = give_place(hidden, path, io, report, arg);
        error = error ? error : rc;
    }
    if (directory)
        closedir(directory);
    return error;
}

static int give_places(tb_engine *e, const char *hidden, struct tb_io *io, tb_file_reporter *report, void *arg)
{
    int error = 0;
    DIR *directory = opendir(hidden);
    for (struct dirent *d; directory && (d = readdir(directory));) {
        int rc = d->d_type == DT_DIR && d->d_name[0] != '.' ? give_places_below(e, hidden, d->d_name, io, report, arg) : 0;
        error = error ? error : rc;
    }
    if (directory)
        closedir(directory);
    return error;
}

int tb_waiting_finish(tb_engine *e, tb_file_reporter *report, void *arg)
{
    return e->waiting[0] ? give_places(e, e->waiting, e->pfs, report, arg) : 0;
}

/* Without a region no record can know a name, so all of them are given their places. */
int tb_waiting_recover(const struct tb_config *c, const char *host, const char *name, struct tb_io *io, tb_file_reporter *report, void *arg)
{
    char hidden[TB_PATH_MAX + 256];
    tb_waiting_directory(c, host, name, hidden, sizeof(hidden));
    int rc = give_places(NULL, hidden, io, report, arg);
    tb_waiting_remove(c, host, name);
    return rc;
}

/* Names that were added during the walk may be missing, as in any listing. */
char *tb_waiting_list(tb_engine *e, const char *path)
{
    char key[PATH_MAX], *list = NULL;
    size_t used = 0;
    DIR *directory = e->header->shadows.names_waited && key_of(e->waiting, path, key) == 0 ? opendir(key) : NULL;
    for (struct dirent *d; directory && (d = readdir(directory));) {
        size_t n = strlen(d->d_name) + 1;
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
            continue;
        char *grown = realloc(list, used + n + 1);
        if (!grown)
            break;
        list = grown;
        memcpy(list + used, d->d_name, n);
        used += n;
        list[used] = 0;
    }
    if (directory)
        closedir(directory);
    return list;
}

/* Locked by shadows.lock: no new name can be deferred in the directory in between. */
int tb_waiting_remove_directory(tb_engine *e, struct tb_io *io, const char *path)
{
    char key[PATH_MAX], of[PATH_MAX + sizeof(OF)];
    int lock = tb_lock_take(&e->header->shadows.lock);
    int rc = key_of(e->waiting, path, key);
    if (!rc && rmdir(key) && errno == ENOTEMPTY)
        rc = -ENOTEMPTY;
    if (rc != -ENOTEMPTY)
        rc = io->ops->unlink(io, path, AT_REMOVEDIR);
    snprintf(of, sizeof(of), "%s" OF, key);
    if (!rc)
        unlink(of);
    if (lock >= 0)
        tb_lock_drop(&e->header->shadows.lock);
    return rc;
}

static void rename_of(const char *of, const char *from, const char *to)
{
    char text[PATH_MAX], renamed[PATH_MAX];
    size_t length = strlen(from);
    ssize_t n = readlink(of, text, sizeof(text) - 1);
    text[n < 0 ? 0 : n] = 0;
    if (strncmp(text, from, length) == 0 && (!text[length] || text[length] == '/') &&
        snprintf(renamed, sizeof(renamed), "%s%s", to, text + length) < (int)sizeof(renamed))
        note_of(of, renamed);
}

/* Only the text of HIDDEN/KEY.of changes: the key is the directory's identity. */
void tb_waiting_renamed(tb_engine *e, const char *from, const char *to)
{
    char of[PATH_MAX], real_to[PATH_MAX], real_from[PATH_MAX];
    const char *slash = strrchr(from, '/');
    DIR *directory = tb_config_of(e)->deferred ? opendir(e->waiting) : NULL;
    snprintf(real_from, sizeof(real_from), "%.*s", slash == from ? 1 : (int)(slash - from), from);
    if (directory && realpath(real_from, of) && realpath(to, real_to)) {
        snprintf(real_from, sizeof(real_from), "%.3000s/%.255s", strcmp(of, "/") ? of : "", slash + 1);
        for (struct dirent *d; (d = readdir(directory));)
            if (strlen(d->d_name) > 3 && strcmp(d->d_name + strlen(d->d_name) - 3, OF) == 0) {
                snprintf(of, sizeof(of), "%s/%.255s", e->waiting, d->d_name);
                rename_of(of, real_from, real_to);
            }
    }
    if (directory)
        closedir(directory);
}
