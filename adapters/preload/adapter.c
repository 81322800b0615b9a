#include "adapter.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Thread_local int tb_inside __attribute__((tls_model("initial-exec")));

_Atomic(struct tb_io *) tb_managed[TB_FD_LIMIT];
static _Atomic int highest_managed = -1;
static _Atomic(tb_engine *) engine;
static _Atomic int state; /* 0 not tried, 1 trying, 2 attached, 3 none */

void *tb_real(const char *name)
{
    void *f = dlsym(RTLD_NEXT, name);
    if (!f)
        abort(); /* a libc without a function we wrap is not the one we were built for */
    return f;
}

/* Inside until the fork is made: a signal handler's own fork would wait for this one. */
static void before_fork(void)
{
    tb_enter();
    tb_engine_atfork_prepare(engine);
}

static void in_parent(void)
{
    tb_engine_atfork_parent(engine);
    tb_leave();
}

static void in_child(void)
{
    tb_engine_atfork_child(engine);
    tb_leave();
}

static void say(const char *format, ...)
{
    char text[PATH_MAX + 256];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (n < 0 || REAL(write)(STDERR_FILENO, text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1) < 0)
        errno = 0; /* nobody listens */
}

static const char *reason(int rc)
{
    switch (rc) {
    case -ENOENT: return "no such instance runs";
    case -ENOTUNIQ: return "several run with this configuration: name one by TIERBENCH_INSTANCE";
    case -EPROTO: return "another version made it";
    case -EPERM: return "it is another user's";
    case -EUSERS: return "as many clients are attached as max_clients allows";
    case -ESTALE: return "it is half made or damaged";
    case -EINVAL: return tb_engine_refusal();
    default: return strerror(-rc);
    }
}

static void attach(void)
{
    char name[64] = "?";
    tb_engine *e = NULL;
    const char *given = getenv("TIERBENCH_INSTANCE"), *config = getenv("TIERBENCH_CONFIG");
    given = given && *given ? given : NULL;
    config = config && *config ? config : getenv("HERMES_CONF");
    if (!given && !(config && *config)) {
        state = 3;
        return;
    }
    int rc = tb_engine_find(name, sizeof(name));
    if (!rc)
        rc = tb_engine_attach(name, tb_base(), &e);
    if (rc)
        say("tierbench: instance %s cannot be used (%s): I/O passes through unbuffered\n", given ? given : config, reason(rc));
    if (e && tb_engine_config_changed(e))
        say("tierbench: the configuration changed after instance %s had started: it goes on with the old one\n", name);
    engine = e;
    if (e)
        pthread_atfork(before_fork, in_parent, in_child);
    state = e ? 2 : 3;
}

tb_engine *tb_adapter_engine(void)
{
    int untried = 0;
    if (state >= 2)
        return engine;
    if (!atomic_compare_exchange_strong(&state, &untried, 1))
        return NULL; /* another thread attaches: its first file is not yet managed */
    int saved = errno;
    tb_enter();
    attach();
    tb_leave();
    errno = saved;
    return engine;
}

/* Attached before main, while there is one thread, so that no open misses it. */
static __attribute__((constructor)) void attach_early(void)
{
    tb_adapter_engine();
}

void tb_fd_set(int fd, struct tb_io *io)
{
    if ((unsigned)fd >= TB_FD_LIMIT)
        return;
    tb_managed[fd] = io;
    int high = highest_managed;
    while (io && fd > high && !atomic_compare_exchange_weak(&highest_managed, &high, fd))
        ;
}

int tb_fd_adopt(int fd, struct tb_io *io)
{
    tb_fd_set(fd, io);
    return fd <= STDERR_FILENO || tb_has_ring ? tb_fd_coherent(fd) : 0;
}

/* What the engine keeps open for itself is all it copies; some 65 at most. */
static _Atomic int own[128];
static _Atomic int n_own, lowest_own = INT_MAX;

void tb_fd_own(int fd)
{
    int i = n_own++;
    if (i >= (int)(sizeof(own) / sizeof(own[0])))
        return;
    own[i] = fd;
    if (fd < lowest_own)
        lowest_own = fd;
}

bool tb_fd_is_own(int fd)
{
    for (int i = 0; fd >= lowest_own && i < n_own && i < (int)(sizeof(own) / sizeof(own[0])); i++)
        if (own[i] == fd)
            return !tb_inside;
    return false;
}

int tb_fd_next_own(int fd)
{
    int next = INT_MAX;
    for (int i = 0; i < n_own && i < (int)(sizeof(own) / sizeof(own[0])); i++)
        if (own[i] >= fd && own[i] < next)
            next = own[i];
    return next;
}

int tb_fd_highest(void)
{
    return highest_managed;
}

int tb_fd_coherent(int fd)
{
    if (!tb_fd_io(fd))
        return 0;
    int saved = errno;
    tb_enter();
    int rc = tb_engine_make_coherent(engine, fd);
    tb_leave();
    errno = saved;
    return (int)tb_result(rc);
}

void tb_coherent_for_exec(void)
{
    int saved = errno;
    for (int fd = 0; fd <= highest_managed; fd++)
        if (tb_fd_io(fd) && !(REAL(fcntl)(fd, F_GETFD) & FD_CLOEXEC))
            tb_fd_coherent(fd);
    errno = saved;
}

static bool is_plain(const char *path)
{
    for (const char *p = path; (p = strchr(p, '/')); p++)
        if (p[1] == '/' || p[1] == '.' || p[1] == 0)
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

static bool directory_of(int dirfd, char *out)
{
    char link[64];
    if (dirfd == AT_FDCWD)
        return REAL(getcwd)(out, PATH_MAX) != NULL;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", dirfd);
    ssize_t n = REAL(readlink)(link, out, PATH_MAX - 1);
    out[n > 0 ? n : 0] = 0;
    return n > 0;
}

/* The path behind its last "..", or itself. */
static const char *behind_parents(const char *path)
{
    const char *behind = path;
    for (const char *p = path; *p;) {
        size_t length = strcspn(p, "/");
        bool parent = length == 2 && p[0] == '.' && p[1] == '.';
        p += length + (p[length] == '/');
        if (parent)
            behind = p;
    }
    return behind;
}

/* NULL: it cannot be said.  What ".." means behind a symlink is the file system's to say, where it has the directory. */
static const char *absolute(int dirfd, const char *path, char *out)
{
    char base[PATH_MAX] = "", joined[2 * PATH_MAX];
    if (path[0] != '/' && !directory_of(dirfd, base))
        return NULL;
    const char *behind = behind_parents(path);
    if (behind != path) {
        snprintf(joined, sizeof(joined), "%s/%.*s", base, (int)(behind - path), path);
        if (REAL(realpath)(joined, base))
            path = behind;
    }
    return normalise(base, path, out) ? out : NULL;
}

/* "name/" and "name/." are of directories alone: what the kernel answers to other ones is for it to say. */
static bool is_left_to_kernel(const char *asked, const char *name)
{
    struct stat st;
    size_t n = strlen(asked);
    bool of_directory = n > 1 && (asked[n - 1] == '/' || (asked[n - 1] == '.' && asked[n - 2] == '/'));
    return of_directory && REAL(lstat)(name, &st) == 0 && !S_ISDIR(st.st_mode);
}

/* Some pointers can't be to a string, and are the kernel's to refuse: those near zero, and in its own half. */
static bool is_string(const char *path)
{
    return (intptr_t)path >= 4096 && *path;
}

bool tb_path_name(int dirfd, const char *path, char *out)
{
    return is_string(path) && absolute(dirfd, path, out);
}

bool tb_path_find(int dirfd, const char *path, struct tb_path *out)
{
    if (tb_inside || !is_string(path))
        return false;
    tb_engine *e = tb_adapter_engine();
    if (!e)
        return false;
    int saved = errno;
    tb_enter();
    const char *name = path[0] == '/' && is_plain(path) ? path : absolute(dirfd, path, out->path);
    bool found = name && (out->io = tb_engine_route(e, name, &out->mode)) && tb_engine_translate(e, name, out->real, PATH_MAX) >= 0;
    found = found && (out->mode == TB_MODE_SCRATCH || strlen(name) < TB_PATH_MAX); /* longer: passes through */
    found = found && (name == path || !is_left_to_kernel(path, out->real));
    if (found && name == path)
        strcpy(out->path, path);
    tb_leave();
    errno = saved;
    return found;
}

static void with_file(const struct tb_path *p, int (*act)(tb_engine *, int))
{
    int saved = errno;
    struct stat st;
    int fd = TB_CALL(p->io, stat, p->path, &st, 0) == 0 && S_ISREG(st.st_mode) ? (int)TB_CALL(p->io, open, p->path, O_RDONLY, 0) : -1;
    if (fd >= 0) {
        tb_enter();
        act(engine, fd);
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
