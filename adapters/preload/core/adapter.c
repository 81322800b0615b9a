#include "core/adapter.h"
#include "core/record_locks.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define RECOVERY_LOOKS 1500 /* half a minute: */
#define RECOVERY_LOOK_NS 20000000

_Thread_local int tb_inside __attribute__((tls_model("initial-exec")));
_Thread_local int tb_program_closes __attribute__((tls_model("initial-exec"))) = -1;

_Atomic(struct tb_io *) tb_managed[TB_FD_LIMIT];
static _Atomic int highest_managed = -1;
static _Atomic(tb_engine *) engine;
static tb_engine *foreign; /* what this process may not use, and who its parent could: adapter.h */
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
    if (engine)
        tb_engine_atfork_prepare(engine);
    tb_locks_before_fork();
}

static void in_parent(void)
{
    tb_locks_in_parent();
    if (engine)
        tb_engine_atfork_parent(engine);
    tb_leave();
}

/* A child in another PID namespace: what it inherited is coherent and the kernel's alone, and it has no engine from here on. */
static void become_foreign(void)
{
    foreign = engine;
    engine = NULL;
    state = 3;
    for (int fd = 0; fd <= highest_managed; fd++)
        tb_fd_set(fd, NULL);
    for (int fd = 0; (fd = tb_fd_next_own(fd)) < INT_MAX;)
        tb_fd_disown(fd);
}

static void in_child(void)
{
    tb_locks_in_child();
    if (engine)
        tb_engine_atfork_child(engine);
    if (engine && tb_engine_is_foreign(engine))
        become_foreign();
    tb_cwd_reset();
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

/* Of the instance that was named, or of none that was found. */
static const char *reason(int rc, bool found)
{
    if (found)
        return tb_engine_refusal();
    return rc == -ENOTUNIQ ? "several run with this configuration: name one by TIERBENCH_INSTANCE"
         : rc == -ENOENT   ? "no such instance runs"
                           : strerror(-rc);
}

/* Past the buffers of an instance that lives the program would read old bytes, and write what is written over. */
static void end_program(const char *what, const char *why)
{
    say("tierbench: %s cannot be used (%s): this program ends, for without the buffers it would read old bytes\n", what, why);
    _exit(2);
}

/* A recovery takes a moment; then the instance is gone, or can be used again. */
static int attach_to(const char *name, tb_engine **e)
{
    char what[80];
    int rc = tb_engine_attach(name, tb_base(), e);
    for (int look = 0; rc == -EBUSY && look < RECOVERY_LOOKS; look++) {
        nanosleep(&(struct timespec){0, RECOVERY_LOOK_NS}, NULL);
        rc = tb_engine_attach(name, tb_base(), e);
    }
    snprintf(what, sizeof(what), "instance %s", name);
    if (rc == -EBUSY || rc == -EXDEV || rc == -EREMOTE || rc == -EOWNERDEAD || rc == -ENODEV)
        end_program(what, tb_engine_refusal());
    return rc;
}

static void attach(void)
{
    char name[64] = "?";
    tb_engine *e = NULL;
    /* A program that gained rights takes no instance from whom it gained them. */
    const char *given = secure_getenv("TIERBENCH_INSTANCE"), *config = secure_getenv("TIERBENCH_CONFIG");
    given = given && *given ? given : NULL;
    config = config && *config ? config : secure_getenv("HERMES_CONF");
    if (!given && !(config && *config)) {
        state = 3;
        return;
    }
    int rc = tb_engine_find(name, sizeof(name));
    bool found = !rc;
    if (found)
        rc = attach_to(name, &e);
    if (rc)
        say("tierbench: instance %s cannot be used (%s): I/O passes through unbuffered\n", given ? given : config, reason(rc, found));
    if (e && tb_engine_config_changed(e))
        say("tierbench: the configuration changed after instance %s had started: it goes on with the old one\n", name);
    engine = e;
    if (e)
        tb_locks_adopt();
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

int tb_fd_own_from(void)
{
    struct rlimit allowed;
    rlim_t half = REAL(getrlimit)(RLIMIT_NOFILE, &allowed) ? 0 : allowed.rlim_cur / 2;
    return half < TB_OWN_FD_FROM ? (int)half : TB_OWN_FD_FROM;
}

/* A bit for each number. */
static _Atomic uint64_t own[TB_FD_LIMIT / 64];
static _Atomic int highest_own = -1;

void tb_fd_own(int fd)
{
    if ((unsigned)fd >= TB_FD_LIMIT)
        return;
    own[fd / 64] |= 1ull << (fd % 64);
    int high = highest_own;
    while (fd > high && !atomic_compare_exchange_weak(&highest_own, &high, fd))
        ;
}

void tb_fd_disown(int fd)
{
    if ((unsigned)fd < TB_FD_LIMIT && own[fd / 64] & 1ull << (fd % 64))
        own[fd / 64] &= ~(1ull << (fd % 64));
}

static bool is_owned(int fd)
{
    return (unsigned)fd < TB_FD_LIMIT && atomic_load_explicit(&own[fd / 64], memory_order_relaxed) & 1ull << (fd % 64);
}

bool tb_fd_is_own(int fd)
{
    return is_owned(fd) && !tb_inside;
}

int tb_fd_next_own(int fd)
{
    for (int high = highest_own; fd <= high; fd = own[fd / 64] ? fd + 1 : (fd / 64 + 1) * 64)
        if (is_owned(fd))
            return fd;
    return INT_MAX;
}

void tb_fd_drop(int fd)
{
    struct tb_io *io = tb_fd_io(fd);
    tb_fd_set(fd, NULL); /* before the number can be given out again */
    if (io)
        TB_CALL(io, close, fd);
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

int tb_coherent_for_exec(void)
{
    int saved = errno, rc = 0;
    for (int fd = 0; fd <= highest_managed && !rc; fd++)
        if (tb_fd_io(fd) && !(REAL(fcntl)(fd, F_GETFD) & FD_CLOEXEC))
            rc = tb_fd_coherent(fd);
    errno = rc ? errno : saved;
    return rc;
}

/* "." or "..", or nothing between two slashes. */
static bool is_dots_or_empty(const char *part)
{
    size_t dots = part[0] != '.' ? 0 : part[1] != '.' ? 1 : 2;
    return part[dots] == '/' || part[dots] == 0;
}

static bool is_plain(const char *path)
{
    for (const char *p = path; (p = strchr(p, '/')); p++)
        if (is_dots_or_empty(p + 1))
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

/* NULL: it cannot be said.  What ".." means behind a symlink is the file system's to say, where it has the directory. */
static const char *absolute(tb_engine *e, int dirfd, const char *path, char *out)
{
    char base[PATH_MAX], joined[2 * PATH_MAX];
    base[0] = 0;
    if (path[0] != '/' && !tb_directory_name(e, dirfd, base))
        return NULL;
    if (path[0] != '/' && !is_dots_or_empty(path) && is_plain(path))
        return join(base, path, out) ? out : NULL;
    const char *behind = behind_parents(path);
    if (behind != path && is_walked(e, base, path, out))
        return out;
    if (behind != path) {
        snprintf(joined, sizeof(joined), "%s/%.*s", base, (int)(behind - path), path);
        if (REAL(realpath)(joined, base))
            path = behind;
    }
    return normalise(base, path, out) ? out : NULL;
}

/* Of a directory alone: what "name/" and "name/." say. */
static const char *tail_of(const char *path)
{
    size_t n = strlen(path);
    return n > 1 && path[n - 1] == '/' ? "/" : n > 1 && path[n - 1] == '.' && path[n - 2] == '/' ? "/." : "";
}

/* What the kernel answers to "name/" where it is no directory is for it to say. */
static bool is_left_to_kernel(const char *asked, const char *name)
{
    struct stat st;
    return *tail_of(asked) && REAL(lstat)(name, &st) == 0 && !S_ISDIR(st.st_mode);
}

/* Some pointers can't be to a string, and are the kernel's to refuse: those near zero, and in its own half. */
static bool is_string(const char *path)
{
    return (intptr_t)path >= 4096 && *path;
}

bool tb_path_name(int dirfd, const char *path, char *out)
{
    tb_engine *e = tb_adapter_engine();
    return e && is_string(path) && absolute(e, dirfd, path, out);
}

/* In scratch mode the engine hears all of what was asked; else the name alone, where the kernel has nothing to say. */
static bool is_served(const char *asked, const char *name, struct tb_path *out)
{
    size_t n = strlen(name);
    if (out->mode != TB_MODE_SCRATCH)
        return n < TB_PATH_MAX && (name == asked || !is_left_to_kernel(asked, name)); /* longer: passes through */
    if (name == asked || n + 3 > PATH_MAX)
        return name == asked;
    strcpy(out->path + n, tail_of(asked));
    return true;
}

bool tb_path_find(int dirfd, const char *path, struct tb_path *out)
{
    if (tb_inside || !is_string(path))
        return false;
    tb_engine *e = foreign ? foreign : tb_adapter_engine();
    if (!e)
        return false;
    int saved = errno;
    tb_enter();
    const char *name = path[0] == '/' && is_plain(path) ? path : absolute(e, dirfd, path, out->path);
    if (name && tb_engine_shown(e, name, out->path, PATH_MAX))
        name = out->path; /* somebody was told of the shadow */
    bool found = name && (out->io = tb_engine_route(e, name, &out->mode)) && is_served(path, name, out);
    if (found && name == path)
        strcpy(out->path, path);
    if (found && foreign && out->mode != TB_MODE_BYPASS)
        end_program(path, "its instance runs in another PID namespace");
    tb_leave();
    errno = saved;
    return found && !foreign;
}

bool tb_path_real(int *at, const char **path, unsigned use, struct tb_path *p)
{
    if (!tb_path_find(*at, *path, p) || p->mode == TB_MODE_BYPASS)
        return true;
    int saved = errno;
    tb_enter();
    ssize_t n = tb_engine_translate(engine, p->path, use, p->real, PATH_MAX);
    tb_leave();
    errno = n < 0 ? (int)-n : saved;
    if (n >= 0 && (p->mode == TB_MODE_SCRATCH || strcmp(p->real, p->path) != 0)) {
        *at = AT_FDCWD;
        *path = p->real;
    }
    return n >= 0;
}

static void with_file(const struct tb_path *p, int (*act)(tb_engine *, int))
{
    int saved = errno;
    struct stat st;
    int fd = TB_CALL(p->io, stat, p->path, &st, 0) == 0 && S_ISREG(st.st_mode) ? (int)TB_CALL(p->io, open, p->path, O_RDONLY | O_CLOEXEC | TB_IO_OWN, 0) : -1;
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
