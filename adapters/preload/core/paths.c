/*
 * From the path of a call to a managed path: absolute, without "..", with the links
 * resolved that only the kernel may follow. The name is resolved once for each call.
 */
#include "core/paths.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/adapter.h"
#include "core/arrivals.h"
#include "core/cwd.h"

/* "." or "..", or nothing between two slashes. */
static bool is_dots_or_empty(const char *part)
{
    size_t dots = part[0] != '.' ? 0 : part[1] != '.' ? 1 : 2;
    return part[dots] == '/' || part[dots] == 0;
}

typedef char sixteen __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint64_t two __attribute__((vector_size(16)));

/* -1 in the bytes where a slash comes before a slash, a dot or the end. */
static sixteen odd_at(const char *path)
{
    const sixteen here = *(const sixteen *)path, next = *(const sixteen *)(path + 1);
    return (here == '/') & ((next == '/') | (next == '.') | (next == 0));
}

/* False: look closer. Many bytes at a time, because each call with a path asks this. `n` is at least 16. */
static bool is_surely_plain(const char *path, size_t n)
{
    sixteen odd = odd_at(path + n - sizeof(odd));
    for (size_t at = 0; at + sizeof(odd) < n; at += sizeof(odd))
        odd |= odd_at(path + at);
    return (((two)odd)[0] | ((two)odd)[1]) == 0;
}

/* No "." or "..", no double slash and none at the end: then the name needs no normalising, which most don't. */
static bool is_plain(const char *path)
{
    size_t n = strlen(path);
    if (n >= sizeof(sixteen) && is_surely_plain(path, n))
        return true;
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/'))
        if (is_dots_or_empty(slash + 1))
            return false;
    return true;
}

/* Without ".", ".." and double slashes, as the name says. */
static bool normalise(const char *base, const char *path, char *out)
{
    size_t n = 0;
    for (int part = 0; part < 2; part++)
        for (const char *p = part ? path : base; *p;) {
            size_t length = strcspn(p, "/");
            if (length == 2 && p[0] == '.' && p[1] == '.')
                while (n && out[--n] != '/')
                    ;
            else if (length && !(length == 1 && p[0] == '.')) {
                if (n + length + 2 > PATH_MAX)
                    return false;
                out[n++] = '/';
                memcpy(out + n, p, length);
                n += length;
            }
            p += length + (p[length] == '/');
        }
    if (n == 0)
        out[n++] = '/';
    out[n] = 0;
    return true;
}

/* The path after its last "..", or itself. */
static const char *after_parents(const char *path)
{
    const char *after = path;
    for (const char *p = path; *p;) {
        size_t length = strcspn(p, "/");
        bool parent = length == 2 && p[0] == '.' && p[1] == '.';
        p += length + (p[length] == '/');
        if (parent)
            after = p;
    }
    return after;
}

/* There is one: the caller has looked. */
static const char *first_parent(const char *path)
{
    while (strncmp(path, "..", 2) != 0 || (path[2] && path[2] != '/')) {
        path += strcspn(path, "/");
        path += strspn(path, "/");
    }
    return path;
}

static bool is_scratch(tb_engine *e, const char *name)
{
    enum tb_mode mode;
    return tb_engine_route(e, name, &mode) && mode == TB_MODE_SCRATCH;
}

/* A path that turns back inside a scratch prefix: the engine walks it as it is. */
static bool is_walked(tb_engine *e, const char *base, const char *path, char *out)
{
    char head[PATH_MAX];
    const char *turn = first_parent(path);
    if ((size_t)(turn - path) >= sizeof(head))
        return false;
    memcpy(head, path, (size_t)(turn - path));
    head[turn - path] = 0;
    if (!normalise(base, head, out) || !is_scratch(e, out))
        return false;
    size_t n = strlen(out);
    return (size_t)snprintf(out + n, PATH_MAX - n, "/%s", turn) < PATH_MAX - n;
}

/* Of a plain name, which most are. */
static bool join(const char *base, const char *path, char *out)
{
    size_t n = strlen(base), length = strlen(path) + 1, slash = base[n - 1] != '/';
    if (n + slash + length > PATH_MAX)
        return false;
    memcpy(out, base, n);
    out[n] = '/';
    memcpy(out + n + slash, path, length);
    return true;
}

/*
 * What comes before the last ".." is no directory that can be found, so the kernel has an error for the name, which keeps its "..". It
 * goes through the chain, as other names do: if the directory comes at this moment, its file is served.
 */
static const char *as_asked(const char *base, const char *path, char *out)
{
    size_t n = path[0] == '/' || strcmp(base, "/") == 0 ? 0 : strlen(base);
    memcpy(out, base, n);
    return (size_t)snprintf(out + n, PATH_MAX - n, "/%s", path + strspn(path, "/")) < PATH_MAX - n ? out : NULL;
}

/* What ".." means after a symlink is for the file system to say. Cold: most calls should not make room for these texts. */
__attribute__((cold)) static const char *turned(const char *base, const char *path, const char *after, char *out)
{
    char joined[2 * PATH_MAX], real[PATH_MAX];
    snprintf(joined, sizeof(joined), "%s/%.*s", base, (int)(after - path), path);
    if (!REAL(realpath)(joined, real))
        return as_asked(base, path, out);
    return normalise(real, after, out) ? out : NULL;
}

/* NULL: it cannot be said. */
static const char *absolute(tb_engine *e, int dirfd, const char *path, char *out)
{
    char base[PATH_MAX];
    base[0] = 0;
    if (path[0] != '/' && !tb_directory_name(e, dirfd, base))
        return NULL;
    if (path[0] != '/' && !is_dots_or_empty(path) && is_plain(path))
        return join(base, path, out) ? out : NULL;
    const char *after = after_parents(path);
    if (after != path && is_walked(e, base, path, out))
        return out;
    if (after != path)
        return turned(base, path, after, out);
    return normalise(base, path, out) ? out : NULL;
}

/* Some pointers can't be to a string, and are the kernel's to refuse: those near zero, and in its own half. */
static bool is_string(const char *path)
{
    return (intptr_t)path >= 4096 && *path;
}

/* Digits alone, or -1. */
static int number_in(const char *text)
{
    char *end;
    long n = *text >= '0' && *text <= '9' ? strtol(text, &end, 10) : -1;
    return n < 0 || *end || n > INT_MAX ? -1 : (int)n;
}

/* What follows `folder` in the path; NULL: it begins with something else. */
static const char *below(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    return strncmp(path, folder, n) == 0 ? path + n : NULL;
}

/* In /proc, where the names of this process are many. */
static int number_in_proc(const char *path)
{
    char own[32];
    const char *after = below(path, "/proc/self/fd/");
    snprintf(own, sizeof(own), "/proc/%d/fd/", (int)getpid());
    after = after ? after : below(path, "/proc/thread-self/fd/");
    after = after ? after : below(path, own);
    return after ? number_in(after) : -1;
}

int tb_path_descriptor(const char *path)
{
    static const char *const standard[] = {"/dev/stdin", "/dev/stdout", "/dev/stderr"};
    if (!is_string(path) || path[0] != '/')
        return -1;
    if (below(path, "/proc/"))
        return number_in_proc(path);
    for (int i = 0; i < 3 && below(path, "/dev/std"); i++)
        if (strcmp(path, standard[i]) == 0)
            return i;
    return below(path, "/dev/fd/") ? number_in(path + strlen("/dev/fd/")) : -1;
}

/* Of a directory alone: what "name/", "name/." and "name/./" say. */
static const char *tail_of(const char *path)
{
    size_t length = strlen(path), n = length;
    while (n > 1 && path[n - 1] == '/')
        n--;
    return n > 1 && path[n - 1] == '.' && path[n - 2] == '/' ? "/." : n < length ? "/" : "";
}

bool tb_path_is_directory(const char *path)
{
    return is_string(path) && *tail_of(path) != 0;
}

/*
 * What the kernel answers to "name/" where that is no directory is for it to say: false. The name of what is not there keeps its
 * tail, for nothing but a directory may be made of it. A directory is called by its name alone.
 */
static bool is_directory_or_new(const char *tail, struct tb_path *out, size_t n)
{
    struct stat st;
    if (REAL(lstat)(out->path, &st) == 0)
        return S_ISDIR(st.st_mode);
    strcpy(out->path + n, tail);
    return n + strlen(tail) < TB_PATH_MAX;
}

bool tb_path_name(int dirfd, const char *path, char *out)
{
    tb_engine *e = tb_adapter_engine();
    return e && is_string(path) && absolute(e, dirfd, path, out);
}

/* In scratch mode the engine hears all of what was asked; else of a directory the name alone. */
static bool is_served(const char *asked, const char *name, struct tb_path *out)
{
    size_t n = strlen(name);
    bool scratch = out->mode == TB_MODE_SCRATCH;
    if (name == asked)
        return scratch || n < TB_PATH_MAX; /* longer: passes through */
    if (n + 3 > (scratch ? PATH_MAX : TB_PATH_MAX + 2))
        return false;
    const char *tail = tail_of(asked);
    if (!*tail)
        return true;
    if (!scratch)
        return is_directory_or_new(tail, out, n);
    strcpy(out->path + n, tail);
    return true;
}

/* The absolute name, in the program's words, in out->path or as it was given. NULL: there is none, as below a closed directory. */
static const char *name_of(tb_engine *e, int dirfd, const char *path, struct tb_path *out)
{
    const char *name = path[0] == '/' && is_plain(path) ? path : absolute(e, dirfd, path, out->path);
    bool shown = name && tb_engine_shown(e, name, out->path, PATH_MAX); /* the program was told of the shadow, by the kernel */
    return shown ? out->path : name;
}

/*
 * Without the engine: calls from inside it, and pointers that are no strings. errno stays as it
 * was, for a name that is not managed goes to libc as if this had not been asked.
 */
const char *tb_path_look(int dirfd, const char *path, struct tb_path *out)
{
    if (tb_inside || !is_string(path))
        return NULL;
    tb_engine *foreign = tb_adapter_foreign(), *e = foreign ? foreign : tb_adapter_engine_for(path);
    if (!e)
        return NULL;
    int saved = errno;
    tb_enter();
    const char *name = name_of(e, dirfd, path, out);
    if (name)
        tb_arrival_await(name);
    bool found = name && (out->io = tb_engine_route(e, name, &out->mode)) && is_served(path, name, out);
    if (found && foreign && out->mode != TB_MODE_BYPASS)
        tb_end_program(path, "its instance runs in another PID namespace or time namespace, or clone made this process");
    tb_leave();
    errno = saved;
    return found && !foreign ? name : NULL;
}

bool tb_path_find(int dirfd, const char *path, struct tb_path *out)
{
    const char *name = tb_path_look(dirfd, path, out);
    if (name && name != out->path)
        strcpy(out->path, name);
    return name != NULL;
}

bool tb_path_real_of(int *at, const char **path, unsigned use, struct tb_path *p)
{
    if (p->mode == TB_MODE_BYPASS)
        return true;
    int saved = errno;
    tb_enter();
    ssize_t n = tb_engine_translate(p->io, p->path, use, p->real, PATH_MAX);
    tb_leave();
    errno = n < 0 ? (int)-n : saved;
    if (n >= 0 && (p->mode == TB_MODE_SCRATCH || strcmp(p->real, p->path) != 0)) {
        *at = AT_FDCWD;
        *path = p->real;
    }
    return n >= 0;
}

bool tb_path_real(int *at, const char **path, unsigned use, struct tb_path *p)
{
    return !tb_path_find(*at, *path, p) || tb_path_real_of(at, path, use, p);
}

/*
 * Opened for a moment, as the engine's own: the close of any other descriptor of the file would
 * drop the program's record locks (core/record_locks.c). Only a regular file: to open a fifo would wait for its other side.
 */
static void with_file(const struct tb_path *p, int (*act)(tb_engine *, int))
{
    int saved = errno;
    struct stat st;
    int fd = TB_CALL(p->io, stat, p->path, &st, 0) == 0 && S_ISREG(st.st_mode)
               ? (int)TB_CALL(p->io, open, p->path, O_RDONLY | O_CLOEXEC | TB_IO_OWN, 0)
               : -1;
    if (fd >= 0) {
        tb_enter();
        act(tb_adapter_engine(), fd);
        tb_leave();
        TB_CALL(p->io, close, fd);
    }
    errno = saved;
}

void tb_path_flush(const struct tb_path *p)
{
    with_file(p, tb_engine_flush);
}

void tb_path_coherent(const struct tb_path *p)
{
    with_file(p, tb_engine_make_coherent);
}

int tb_path_meant(int dirfd, const char *path, int flags)
{
    bool none = !path || ((intptr_t)path >= 4096 && !*path); /* since Linux 6.11 the name may be missing, too */
    if (flags & AT_EMPTY_PATH && none)
        return dirfd;
    return flags & AT_SYMLINK_NOFOLLOW ? -1 : tb_path_descriptor(path);
}

/* The kernel's name of the file; PATH_MAX bytes. */
static bool link_of(int fd, char *text)
{
    char link[64];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t n = fd < 0 ? -1 : REAL(readlink)(link, text, PATH_MAX - 1);
    text[n > 0 ? n : 0] = 0;
    return n > 0;
}

bool tb_path_of_file(int fd, struct stat *st, struct tb_path *out)
{
    char text[PATH_MAX];
    int saved = errno;
    bool found = link_of(fd, text) && REAL(fstat)(fd, st) == 0 && st->st_nlink && tb_path_find(AT_FDCWD, text, out);
    errno = saved;
    return found;
}

bool tb_path_of_place(int fd, struct tb_path *out)
{
    struct stat st;
    int saved = errno, flags = tb_has_place && fd >= 0 ? REAL(fcntl)(fd, F_GETFL) : -1;
    errno = saved;
    return flags >= 0 && flags & O_PATH && tb_path_of_file(fd, &st, out) && S_ISREG(st.st_mode);
}

/* What is in the shadow has a name there. */
bool tb_path_of_pfs(int fd, struct tb_path *out)
{
    struct stat st;
    char text[PATH_MAX];
    tb_engine *e = tb_inside ? NULL : tb_adapter_engine();
    return e && *tb_engine_shadow(e) && tb_path_of_file(fd, &st, out) && out->mode == TB_MODE_SCRATCH && link_of(fd, text) &&
           !tb_engine_shown(e, text, out->real, PATH_MAX);
}
