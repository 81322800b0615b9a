/*
 * Stubs. The text of a stub is the PFS's path after a mark that means nothing to the
 * kernel, with "/." at the end for a directory, so that it can be told from a program's
 * own symlink without a look at the PFS.
 *
 * What becomes real is made aside, whole, and then replaces the stub in one step under a
 * lock. So no process sees half of it, also if the maker is killed.
 */
#include "namespace/shadow_copy.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/scratch.h"
#include "buffer/medium.h"
#include "io/answer.h"
#include "io/directory.h"
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
    assert(tb_stub_kind(text) != TB_SHADOW_LINK);
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

/* As far as the user may, since the copy belongs to this user: a refusal is no error, a failing file system is. */
static int set_owner_and_times(const tb_engine *e, const char *path, const struct stat *st)
{
    const struct timespec times[2] = {st->st_atim, st->st_mtim};
    int rc[] = {
        TB_IO(e->shadow_io, chown, path, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW),
        TB_IO(e->shadow_io, chmod, path, st->st_mode & 07777, 0),
        TB_IO(e->shadow_io, utimens, path, times, AT_SYMLINK_NOFOLLOW),
    };
    for (size_t i = 0; i < sizeof(rc) / sizeof(rc[0]); i++)
        if (tb_io_failed(rc[i]))
            return rc[i];
    return 0;
}

static int copy_link(const tb_engine *e, const char *from, const char *to)
{
    char text[PATH_MAX], stored[PATH_MAX];
    ssize_t n = TB_IO(e->pfs, readlink, from, text, sizeof(text) - 1);
    if (n < 0)
        return (int)n;
    text[n] = 0;
    tb_shadow_link_text(e, text, stored, sizeof(stored));
    return TB_IO(e->shadow_io, symlink, stored, to);
}

/* A stub for one entry of the PFS; links and pipes are nothing but their names, and copied. */
static int make_stub(const tb_engine *e, const char *lower, unsigned char type, const char *to)
{
    char text[PATH_MAX];
    if (type == DT_LNK)
        return copy_link(e, lower, to);
    if (type == DT_FIFO)
        return TB_IO(e->shadow_io, mknod, to, S_IFIFO | 0600, 0);
    if ((size_t)snprintf(text, sizeof(text), "%s%s%s", MARK, lower, type == DT_DIR ? "/." : "") >= sizeof(text))
        return -ENAMETOOLONG;
    return TB_IO(e->shadow_io, symlink, text, to);
}

struct filling {
    const tb_engine *e;
    const char *lower, *to;
};

/* The first entry that fails ends it: a directory with an entry missing would hide a file of the PFS for good. */
static int fill_entry(void *arg, const char *name, unsigned char type)
{
    const struct filling *f = arg;
    char from[PATH_MAX], stub[PATH_MAX];
    if ((size_t)snprintf(from, sizeof(from), "%s/%s", f->lower, name) >= sizeof(from) ||
        (size_t)snprintf(stub, sizeof(stub), "%s/%s", f->to, name) >= sizeof(stub))
        return -ENAMETOOLONG;
    return make_stub(f->e, from, type, stub);
}

/* The directory of the PFS as it is now; later changes there are not seen (shadow.h). */
static int fill_directory(const tb_engine *e, const char *lower, const char *to)
{
    return tb_io_each_entry(e->pfs, lower, fill_entry, &(struct filling){e, lower, to});
}

/* Still the same stub? Another process may have replaced it: -EEXIST. */
static int check_stub(const tb_engine *e, const char *path, const char *lower)
{
    char text[PATH_MAX], stands_for[PATH_MAX];
    ssize_t n = TB_IO(e->shadow_io, readlink, path, text, sizeof(text) - 1);
    text[n < 0 ? 0 : n] = 0;
    if (n < 0 || tb_stub_kind(text) == TB_SHADOW_LINK)
        return tb_io_failed(n) ? (int)n : -EEXIST;
    tb_stub_lower(text, stands_for, sizeof(stands_for));
    return strcmp(stands_for, lower) == 0 ? 0 : -EEXIST;
}

/*
 * In one step where the file system can. Where it cannot, a file still replaces a stub in
 * one; a directory cannot, so for a moment the stub is elsewhere. If killed then, the name
 * is missing in the shadow; the PFS has what it showed.
 */
static int exchange_names(struct tb_io *io, const char *aside, const char *path)
{
    char old[PATH_MAX];
    int rc = TB_IO(io, rename, aside, path, RENAME_EXCHANGE);
    if (rc != -EINVAL)
        return rc;
    rc = TB_IO(io, rename, aside, path, 0);
    if (rc != -ENOTDIR)
        return rc;
    if ((size_t)snprintf(old, sizeof(old), "%s.old", aside) >= sizeof(old))
        return -ENAMETOOLONG;
    rc = TB_IO(io, rename, path, old, 0);
    if (rc)
        return rc;
    rc = TB_IO(io, rename, aside, path, 0);
    if (rc)
        TB_IO(io, rename, old, path, 0);
    else
        TB_IO(io, unlink, old, 0);
    return rc;
}

/* A directory that was copied read-only is the user's own all the same. */
static int exchange(struct tb_io *io, const char *aside, const char *path)
{
    char directory[PATH_MAX];
    struct stat st;
    int rc = exchange_names(io, aside, path);
    snprintf(directory, sizeof(directory), "%s", path);
    *strrchr(directory, '/') = 0;
    if (rc != -EACCES || TB_IO(io, stat, directory, &st, 0) || st.st_uid != geteuid() || st.st_mode & S_IWUSR)
        return rc;
    rc = TB_IO(io, chmod, directory, st.st_mode | S_IRWXU, 0);
    rc = rc ? rc : exchange_names(io, aside, path);
    TB_IO(io, chmod, directory, st.st_mode & 07777, 0); /* what is in it is right, whatever its mode and times are */
    TB_IO(io, utimens, directory, (const struct timespec[2]){st.st_atim, st.st_mtim}, AT_SYMLINK_NOFOLLOW);
    return rc;
}

/* Put `aside` in the stub's place, unless the stub was changed in between: then what was made is thrown away. */
static int take_place(tb_engine *e, const char *aside, const char *path, const char *lower)
{
    int lock = tb_lock_take(&e->header->shadows.lock);
    int rc = check_stub(e, path, lower);
    rc = rc ? rc : exchange(e->shadow_io, aside, path);
    if (lock >= 0)
        tb_lock_drop(&e->header->shadows.lock);
    return rc == -EEXIST ? 0 : rc;
}

static int unlink_in(void *arg, const char *name, unsigned char type)
{
    const struct filling *f = arg;
    char path[PATH_MAX];
    (void)type;
    if (snprintf(path, sizeof(path), "%s/%s", f->to, name) < (int)sizeof(path))
        TB_IO(f->e->shadow_io, unlink, path, 0);
    return 0;
}

/*
 * What is aside is a file, a stub, or a directory without subdirectories: no tree has to be
 * walked. A stub must never be listed: the kernel follows it to the PFS, and the files that
 * were removed then would be those of the PFS.
 */
static void remove_aside(const tb_engine *e, const char *aside)
{
    struct stat st;
    if (TB_IO(e->shadow_io, unlink, aside, 0) == 0 || TB_IO(e->shadow_io, stat, aside, &st, AT_SYMLINK_NOFOLLOW) || !S_ISDIR(st.st_mode))
        return;
    tb_io_each_entry(e->shadow_io, aside, unlink_in, &(struct filling){.e = e, .to = aside});
    TB_IO(e->shadow_io, unlink, aside, AT_REMOVEDIR); /* what is left goes with the instance */
}

/*
 * Complete before it is seen, so that no process meets a directory with entries missing. If
 * killed before take_place, the unfinished copy is left; it goes with the instance.
 */
int tb_shadow_make_directory(tb_engine *e, const char *path, const char *text)
{
    char aside[PATH_MAX], lower[PATH_MAX];
    struct stat st;
    assert(tb_stub_kind(text) == TB_SHADOW_STUB_DIRECTORY);
    tb_stub_lower(text, lower, sizeof(lower));
    name_aside(e, aside);
    int rc = TB_IO(e->pfs, stat, lower, &st, 0);
    rc = rc ? rc : TB_IO(e->shadow_io, mkdir, aside, 0700);
    if (rc)
        return rc;
    rc = fill_directory(e, lower, aside);
    rc = rc ? rc : set_owner_and_times(e, aside, &st);
    rc = rc ? rc : take_place(e, aside, path, lower);
    remove_aside(e, aside); /* the stub, or what was made for nothing */
    return rc;
}

/* What the PFS would refuse is refused; that it may be mounted read-only is no matter. */
static int may_change(const tb_engine *e, const char *lower, const struct stat *st, unsigned use)
{
    int rc = TB_IO(e->pfs, access, lower, W_OK, AT_EACCESS);
    bool writable = rc == 0 || rc == -EROFS;
    if (tb_io_failed(rc))
        return rc;
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
    return rc ? rc : TB_IO(e->shadow_io, ftruncate, out, (off_t)size);
}

static int copy_aside(tb_engine *e, const char *lower, const char *aside, uint64_t size)
{
    int in = TB_IO(e->pfs, open, lower, O_RDONLY | O_CLOEXEC | TB_IO_OWN, 0);
    int out = in < 0 ? in : TB_IO(e->shadow_io, open, aside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int rc = out < 0 ? out : copy_bytes(e, in, out, size), closed = 0;
    if (in >= 0)
        TB_IO(e->pfs, close, in);
    if (out >= 0)
        closed = TB_IO(e->shadow_io, close, out); /* some file systems write only now */
    return rc ? rc : closed;
}

/* If killed before take_place, only the copy aside is left; it goes with the instance. */
int tb_shadow_copy_file(tb_engine *e, const char *path, const char *lower, unsigned use)
{
    assert((use & TB_NAME_USE) >= TB_NAME_CHANGE && lower[0] == '/');
    char aside[PATH_MAX];
    struct stat st;
    int rc = TB_IO(e->pfs, stat, lower, &st, 0);
    rc = rc ? rc : may_change(e, lower, &st, use);
    if (rc)
        return rc;
    name_aside(e, aside);
    rc = copy_aside(e, lower, aside, (use & TB_NAME_USE) == TB_NAME_EMPTY ? 0 : (uint64_t)st.st_size);
    rc = rc ? rc : set_owner_and_times(e, aside, &st);
    rc = rc ? rc : take_place(e, aside, path, lower);
    TB_IO(e->shadow_io, unlink, aside, 0);
    return rc;
}

/* A program that acts as another user may pass the instance's directory if it may pass all directories above the prefix. */
static bool is_open_to_all(const tb_engine *e, const char *path)
{
    char above[TB_PATH_MAX];
    struct stat st;
    snprintf(above, sizeof(above), "%s", path);
    for (char *slash; (slash = strrchr(above, '/')) && slash != above;) {
        *slash = 0;
        if (TB_IO(e->pfs, stat, above, &st, 0) || !(st.st_mode & S_IXOTH))
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
    int rc = TB_IO(e->shadow_io, mkdir, path, 0700);
    if (rc || tb_config_of(e)->by_environment)
        return rc;
    rc = TB_IO(e->pfs, stat, lower, &st, 0);
    if (rc)
        return rc == -ENOENT ? 0 : rc;
    rc = fill_directory(e, lower, path);
    return rc ? rc : set_owner_and_times(e, path, &st);
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
            open_to_all &= is_open_to_all(e, c->prefixes[i].prefix);
        }
    if (scratch)
        rc = TB_IO(e->shadow_io, mkdir, e->shadow, 0700);
    for (uint32_t i = 0; i < c->n_prefixes && !rc; i++)
        if (c->prefixes[i].mode == TB_MODE_SCRATCH || c->by_environment)
            rc = create(e, i);
    if (rc || !scratch || !open_to_all)
        return rc;
    snprintf(above, sizeof(above), "%s", e->shadow);
    rc = TB_IO(e->shadow_io, chmod, above, 01733, 0);
    *strrchr(above, '/') = 0; /* the slabs in it are the user's alone, each by its mode */
    return rc || tb_journal_tier(c) == TB_NONE ? rc : TB_IO(e->shadow_io, chmod, above, 0711, 0);
}
