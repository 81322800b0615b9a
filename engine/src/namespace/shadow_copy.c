/*
 * Stubs. The text of a stub is the PFS's path after a mark that means nothing to the
 * kernel, with "/." at the end for a directory, so that it can be told from a program's
 * own symlink without a look at the PFS.
 *
 * What becomes real is made aside, whole, and then replaces the stub in one step under a
 * lock. So no process sees half of it, also if the maker is killed.
 */
#include "namespace/shadow_copy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/scratch.h"
#include "buffer/medium.h"
#include "io/whole.h"
#include "namespace/route.h"
#include "region/directories.h"

#define MARK "/.//."
#define PIECE (1u << 20)

/* By the text alone, so that a listing needs no look at the PFS. */
enum tb_shadow_kind tb_stub_kind(const char *text)
{
    if (strncmp(text, MARK "/", sizeof(MARK)) != 0)
        return TB_SHADOW_LINK;
    size_t n = strlen(text);
    return n > 2 && strcmp(text + n - 2, "/.") == 0 ? TB_SHADOW_STUB_DIRECTORY : TB_SHADOW_STUB_FILE;
}

void tb_stub_lower(const char *text, char *out, size_t size)
{
    size_t n = strlen(text) - (sizeof(MARK) - 1) - (tb_stub_kind(text) == TB_SHADOW_STUB_DIRECTORY ? 2 : 0);
    snprintf(out, size, "%.*s", (int)n, text + sizeof(MARK) - 1);
}

bool tb_shadow_shown(const tb_engine *e, const char *path, char *out, size_t size)
{
    unsigned number;
    int n = 0;
    if (tb_stub_kind(path) != TB_SHADOW_LINK) {
        tb_stub_lower(path, out, size);
        return true;
    }
    if (strncmp(path, e->shadow, e->shadow_length) != 0 || sscanf(path + e->shadow_length, "/%u%n", &number, &n) != 1 ||
        number >= e->n_prefixes || (path[e->shadow_length + (size_t)n] && path[e->shadow_length + (size_t)n] != '/'))
        return false;
    return (size_t)snprintf(out, size, "%s%s", tb_config_of(e)->by_environment ? "" : e->prefixes[number].prefix,
                            path + e->shadow_length + n) < size;
}

void tb_shadow_link_text(const tb_engine *e, const char *text, char *out, size_t size)
{
    const struct tb_route r = tb_route_of(e, text);
    bool whole = tb_config_of(e)->by_environment;
    unsigned number = r.prefix && !whole ? (unsigned)(r.prefix - e->prefixes) : 0;
    if (!r.prefix || r.prefix->mode != TB_MODE_SCRATCH ||
        (size_t)snprintf(out, size, "%s/%u%s", e->shadow, number, text + (whole ? 0 : r.length)) >= size)
        snprintf(out, size, "%s", text);
}

/* A place next to the prefixes that no program can name. */
static void name_aside(tb_engine *e, char *out)
{
    static _Atomic unsigned n;
    snprintf(out, PATH_MAX, "%s/new.%d.%u", e->shadow, (int)getpid(), n++);
}

/* As far as the user may; what is refused is not an error. */
static void set_owner_and_times(const char *path, const struct stat *st)
{
    if (lchown(path, st->st_uid, st->st_gid)) /* a user's copy is his own */
        errno = 0;
    if (!S_ISLNK(st->st_mode) && chmod(path, st->st_mode & 07777))
        errno = 0;
    utimensat(AT_FDCWD, path, (struct timespec[2]){st->st_atim, st->st_mtim}, AT_SYMLINK_NOFOLLOW);
}

static int copy_link(const tb_engine *e, const char *from, const char *to)
{
    char text[PATH_MAX], stored[PATH_MAX];
    ssize_t n = readlink(from, text, sizeof(text) - 1);
    if (n < 0)
        return -errno;
    text[n] = 0;
    tb_shadow_link_text(e, text, stored, sizeof(stored));
    return symlink(stored, to) ? -errno : 0;
}

/* A stub for one entry of the PFS; links and pipes are nothing but their names, and copied. */
static int make_stub(const tb_engine *e, const char *lower, unsigned char type, const char *to)
{
    char text[PATH_MAX];
    struct stat st;
    if (type == DT_UNKNOWN && lstat(lower, &st) == 0)
        type = IFTODT(st.st_mode);
    if (type == DT_LNK)
        return copy_link(e, lower, to);
    if (type == DT_FIFO)
        return mkfifo(to, 0600) ? -errno : 0;
    if ((size_t)snprintf(text, sizeof(text), "%s%s%s", MARK, lower, type == DT_DIR ? "/." : "") >= sizeof(text))
        return -ENAMETOOLONG;
    return symlink(text, to) ? -errno : 0;
}

/* The directory of the PFS as it is now; later changes there are not seen (shadow.h). */
static int fill_directory(const tb_engine *e, const char *lower, const char *to)
{
    char from[PATH_MAX], name[PATH_MAX];
    int rc = 0;
    DIR *directory = opendir(lower);
    if (!directory)
        return -errno;
    for (struct dirent *d; !rc && (d = readdir(directory));) {
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
            continue;
        if ((size_t)snprintf(from, sizeof(from), "%s/%s", lower, d->d_name) >= sizeof(from) ||
            (size_t)snprintf(name, sizeof(name), "%s/%s", to, d->d_name) >= sizeof(name))
            rc = -ENAMETOOLONG;
        else
            rc = make_stub(e, from, d->d_type, name);
    }
    closedir(directory);
    return rc;
}

/* Still the same stub? Another process may have replaced it. */
static bool is_stub(const char *path, const char *lower)
{
    char text[PATH_MAX], stands_for[PATH_MAX];
    ssize_t n = readlink(path, text, sizeof(text) - 1);
    text[n < 0 ? 0 : n] = 0;
    if (n < 0 || tb_stub_kind(text) == TB_SHADOW_LINK)
        return false;
    tb_stub_lower(text, stands_for, sizeof(stands_for));
    return strcmp(stands_for, lower) == 0;
}

/* In one step where the file system can. */
static int exchange_names(const char *aside, const char *path)
{
    int rc = renameat2(AT_FDCWD, aside, AT_FDCWD, path, RENAME_EXCHANGE) ? -errno : 0;
    return rc != -EINVAL ? rc : unlink(path) || rename(aside, path) ? -errno : 0;
}

/* A directory that was copied read-only is the user's own all the same. */
static int exchange(const char *aside, const char *path)
{
    char directory[PATH_MAX];
    struct stat st;
    int rc = exchange_names(aside, path);
    snprintf(directory, sizeof(directory), "%s", path);
    *strrchr(directory, '/') = 0;
    if (rc != -EACCES || stat(directory, &st) || st.st_uid != geteuid() || st.st_mode & S_IWUSR)
        return rc;
    chmod(directory, st.st_mode | S_IRWXU);
    rc = exchange_names(aside, path);
    chmod(directory, st.st_mode & 07777);
    utimensat(AT_FDCWD, directory, (struct timespec[2]){st.st_atim, st.st_mtim}, 0);
    return rc;
}

/* Put `aside` in the stub's place, unless the stub was changed in between: then what was made is thrown away. */
static int take_place(tb_engine *e, const char *aside, const char *path, const char *lower)
{
    int lock = tb_lock_take(&e->header->shadows.lock);
    int rc = is_stub(path, lower) ? exchange(aside, path) : 0;
    if (lock >= 0)
        tb_lock_drop(&e->header->shadows.lock);
    return rc;
}

/* What is aside is a file, a stub, or a directory without subdirectories: no tree has to be walked. */
static void remove_aside(const char *aside)
{
    char name[PATH_MAX];
    if (unlink(aside) == 0)
        return;
    DIR *directory = opendir(aside);
    for (struct dirent *d; directory && (d = readdir(directory));)
        if (snprintf(name, sizeof(name), "%s/%s", aside, d->d_name) < (int)sizeof(name) && d->d_name[0] && strcmp(d->d_name, ".") &&
            strcmp(d->d_name, ".."))
            unlink(name);
    if (directory)
        closedir(directory);
    rmdir(aside);
}

/* Complete before it is seen, so that no process meets a directory with entries missing. */
int tb_shadow_make_directory(tb_engine *e, const char *path, const char *text)
{
    char aside[PATH_MAX], lower[PATH_MAX];
    struct stat st;
    tb_stub_lower(text, lower, sizeof(lower));
    name_aside(e, aside);
    if (stat(lower, &st) || mkdir(aside, 0700))
        return -errno;
    int rc = fill_directory(e, lower, aside);
    set_owner_and_times(aside, &st);
    if (!rc)
        rc = take_place(e, aside, path, lower);
    remove_aside(aside); /* the stub, or what was made for nothing */
    return rc;
}

/* What the PFS would refuse is refused; that it may be mounted read-only is no matter. */
static int may_change(const char *lower, const struct stat *st, unsigned use)
{
    bool writable = faccessat(AT_FDCWD, lower, W_OK, AT_EACCESS) == 0 || errno == EROFS;
    if ((use & TB_NAME_USE) == TB_NAME_CHANGE)
        return writable || st->st_uid == geteuid() ? 0 : -EPERM;
    return writable ? 0 : -EACCES;
}

static bool is_zero(const char *bytes, size_t n)
{
    return n == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, n - 1) == 0);
}

/* Pieces of zeros stay holes in the copy. */
static int copy_bytes(tb_engine *e, int in, int out, uint64_t size)
{
    char *bytes = tb_scratch_bytes(PIECE);
    int rc = bytes ? 0 : -ENOMEM;
    for (uint64_t at = 0; !rc && at < size; at += PIECE) {
        ssize_t n = tb_io_read_all(e->pfs, in, bytes, PIECE, at);
        if (n > 0 && !is_zero(bytes, (size_t)n))
            rc = tb_io_write_all(e->shadow_io, out, bytes, (size_t)n, at);
        rc = n < 0 ? (int)n : rc;
    }
    return rc ? rc : ftruncate(out, (off_t)size) ? -errno : 0;
}

static int copy_aside(tb_engine *e, const char *lower, const char *aside, uint64_t size)
{
    int in = e->pfs->ops->open(e->pfs, lower, O_RDONLY | O_CLOEXEC | TB_IO_OWN, 0);
    int out = in < 0 ? in : e->shadow_io->ops->open(e->shadow_io, aside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int rc = out < 0 ? out : copy_bytes(e, in, out, size);
    if (in >= 0)
        e->pfs->ops->close(e->pfs, in);
    if (out >= 0)
        e->shadow_io->ops->close(e->shadow_io, out);
    return rc;
}

/* If killed before take_place, only the copy aside is left; it goes with the instance. */
int tb_shadow_copy_file(tb_engine *e, const char *path, const char *lower, unsigned use)
{
    char aside[PATH_MAX];
    struct stat st;
    int rc = stat(lower, &st) ? -errno : may_change(lower, &st, use);
    if (rc)
        return rc;
    name_aside(e, aside);
    rc = copy_aside(e, lower, aside, (use & TB_NAME_USE) == TB_NAME_EMPTY ? 0 : (uint64_t)st.st_size);
    set_owner_and_times(aside, &st);
    if (!rc)
        rc = take_place(e, aside, path, lower);
    unlink(aside);
    return rc;
}

/* The instance's directory may be passed by whoever may pass all those above the prefix: a program that acts as another user. */
static bool is_open_to_all(const char *path)
{
    char above[TB_PATH_MAX];
    struct stat st;
    snprintf(above, sizeof(above), "%s", path);
    for (char *slash; (slash = strrchr(above, '/')) && slash != above;) {
        *slash = 0;
        if (stat(above, &st) || !(st.st_mode & S_IXOTH))
            return false;
    }
    return true;
}

static int create(tb_engine *e, uint32_t prefix)
{
    const char *lower = tb_config_of(e)->prefixes[prefix].prefix;
    char path[PATH_MAX];
    struct stat st;
    snprintf(path, sizeof(path), "%s/%u", e->shadow, prefix);
    if (mkdir(path, 0700))
        return -errno;
    if (tb_config_of(e)->by_environment)
        return 0;
    if (stat(lower, &st))
        return errno == ENOENT ? 0 : -errno;
    int rc = fill_directory(e, lower, path);
    set_owner_and_times(path, &st);
    return rc;
}

/* Closed to other users, unless all of them may pass the prefix itself. */
int tb_shadow_create(tb_engine *e)
{
    const struct tb_config *c = tb_config_of(e);
    char above[TB_PATH_MAX];
    bool scratch = c->by_environment, open_to_all = !c->by_environment;
    int rc = 0;
    for (uint32_t i = 0; i < c->n_prefixes; i++)
        if (c->prefixes[i].mode == TB_MODE_SCRATCH) {
            scratch = true;
            open_to_all &= is_open_to_all(c->prefixes[i].prefix);
        }
    if (scratch && mkdir(e->shadow, 0700))
        return -errno;
    for (uint32_t i = 0; i < c->n_prefixes && !rc; i++)
        if (c->prefixes[i].mode == TB_MODE_SCRATCH || c->by_environment)
            rc = create(e, i);
    if (rc || !scratch || !open_to_all)
        return rc;
    snprintf(above, sizeof(above), "%s", e->shadow);
    rc = chmod(above, 01733);
    *strrchr(above, '/') = 0; /* the slabs in it are the user's alone, each by its mode */
    return rc || (tb_journal_tier(c) != TB_NONE && chmod(above, 0711)) ? -errno : 0;
}
