#include "adapter.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FD_LIMIT 65536 /* descriptors above are not managed */

_Thread_local int tb_inside __attribute__((tls_model("initial-exec")));

static _Atomic(struct tb_io *) managed[FD_LIMIT];
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

static void in_child(void)
{
    tb_engine *e = engine;
    tb_enter();
    if (e)
        tb_engine_atfork_child(e);
    tb_leave();
}

static void say(const char *instance, int rc)
{
    char text[256];
    int n = snprintf(text, sizeof(text), "tierbench: instance %s cannot be used (%s): I/O passes through unbuffered\n", instance,
                     strerror(-rc));
    if (REAL(write)(2, text, (size_t)n) < 0)
        return;
}

static void attach(void)
{
    char name[64] = "?";
    tb_engine *e = NULL;
    const char *given = getenv("TIERBENCH_INSTANCE"), *config = getenv("TIERBENCH_CONFIG");
    if (!(given && *given) && !(config && *config)) {
        state = 3;
        return;
    }
    int rc = tb_engine_find(name, sizeof(name));
    if (!rc)
        rc = tb_engine_attach(name, tb_io_libc(), &e);
    if (rc)
        say(given ? given : config, rc);
    else
        pthread_atfork(NULL, NULL, in_child);
    engine = e;
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

struct tb_io *tb_fd_io(int fd)
{
    return tb_inside || fd < 0 || fd >= FD_LIMIT ? NULL : atomic_load_explicit(&managed[fd], memory_order_acquire);
}

void tb_fd_set(int fd, struct tb_io *io)
{
    if (fd < 0 || fd >= FD_LIMIT)
        return;
    managed[fd] = io;
    int high = highest_managed;
    while (io && fd > high && !atomic_compare_exchange_weak(&highest_managed, &high, fd))
        ;
}

int tb_fd_coherent(int fd)
{
    if (!tb_fd_io(fd))
        return 0;
    tb_enter();
    int rc = tb_engine_make_coherent(engine, fd);
    tb_leave();
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

/* Without ".", ".." and double slashes; symlinks stay: ".." behind one is taken as the name says. */
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

static bool absolute(int dirfd, const char *path, char *out)
{
    char base[PATH_MAX] = "";
    if (path[0] == '/' && is_plain(path))
        return strlen(path) < PATH_MAX && strcpy(out, path);
    if (path[0] != '/' && !directory_of(dirfd, base))
        return false;
    return normalise(base, path, out);
}

bool tb_path_find(int dirfd, const char *path, struct tb_path *out)
{
    if (tb_inside || !path || !*path)
        return false;
    tb_engine *e = tb_adapter_engine();
    if (!e)
        return false;
    int saved = errno;
    tb_enter();
    bool found = absolute(dirfd, path, out->path) && (out->io = tb_engine_route(e, out->path, NULL)) &&
                 tb_engine_translate(e, out->path, out->real, sizeof(out->real)) >= 0;
    tb_leave();
    errno = saved;
    return found;
}
