/*
 * FILE streams on managed paths: libc's own stdio over our descriptors, by
 * fopencookie, because libc reads and writes its streams past every wrapper.
 * fileno gives the real descriptor, which is managed itself.
 */
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/adapter.h"
#include "core/fork_lock.h"

struct stream {
    FILE *file;
    int fd;
    struct stream *next;
};

static struct stream *streams;
TB_FORK_LOCK(streams)

static ssize_t cookie_read(void *cookie, char *buf, size_t n)
{
    return read(((struct stream *)cookie)->fd, buf, n);
}

/* 0, not -1, is this interface's word for an error. */
static ssize_t cookie_write(void *cookie, const char *buf, size_t n)
{
    ssize_t w = write(((struct stream *)cookie)->fd, buf, n);
    return w < 0 ? 0 : w;
}

/* libc seeks to learn the position, too: the answer is the new offset in any case. */
static int cookie_seek(void *cookie, off64_t *offset, int whence)
{
    off64_t at = lseek(((struct stream *)cookie)->fd, *offset, whence);
    if (at < 0)
        return -1;
    *offset = at;
    return 0;
}

/* Out of the list before the descriptor goes: its number may be a new stream's at once. */
static int cookie_close(void *cookie)
{
    struct stream *s = cookie;
    lock_streams();
    for (struct stream **link = &streams; *link; link = &(*link)->next)
        if (*link == s) {
            *link = s->next;
            break;
        }
    unlock_streams();
    int rc = s->fd >= 0 ? close(s->fd) : 0;
    free(s);
    return rc;
}

/* The descriptor says what may be done; the stream allows both, because freopen may give it another. */
static FILE *make_stream(int fd, const char *mode)
{
    static const cookie_io_functions_t functions = {cookie_read, cookie_write, cookie_seek, cookie_close};
    struct stream *s = calloc(1, sizeof(*s));
    FILE *file = s ? fopencookie(s, mode[0] == 'a' ? "a+" : "r+", functions) : NULL;
    if (!file) {
        free(s);
        return NULL;
    }
    s->fd = fd;
    s->file = file;
    lock_streams();
    s->next = streams;
    streams = s;
    unlock_streams();
    return file;
}

/* As fopen(3): the letters after the first one may come in any order. */
static int flags_of(const char *mode)
{
    int flags = strchr(mode, '+') ? O_RDWR : mode[0] == 'r' ? O_RDONLY : O_WRONLY;
    if (mode[0] == 'w')
        flags |= O_CREAT | O_TRUNC;
    if (mode[0] == 'a')
        flags |= O_CREAT | O_APPEND;
    return flags | (strchr(mode, 'x') ? O_EXCL : 0) | (strchr(mode, 'e') ? O_CLOEXEC : 0);
}

/*
 * libc's own stream on the backing file, coherent for as long as this process
 * lives: for what a cookie can't be (a standard stream, a converted one).
 */
static FILE *real_stream(const struct tb_path *p, const char *mode, FILE *reopened)
{
    int fd = open(p->path, flags_of(mode) | O_CLOEXEC, 0666);
    if (fd < 0 || tb_fd_coherent(fd)) {
        if (reopened)
            fclose(reopened); /* as freopen does where it fails */
        return NULL;
    }
    struct tb_path room;
    const char *name = p->path;
    tb_path_real(&(int){AT_FDCWD}, &name, TB_NAME_LOOK, &room);
    return reopened ? REAL(freopen)(name, mode, reopened) : REAL(fopen)(name, mode);
}

/* The name of a descriptor (/dev/stdin): what open makes of it may be managed. */
static FILE *open_descriptor(const char *path, const char *mode)
{
    int fd = open(path, flags_of(mode), 0666);
    FILE *file = fd < 0 ? NULL : fdopen(fd, mode);
    if (!file && fd >= 0)
        close(fd);
    return file;
}

/*
 * A mode that fopen would refuse is left to libc, which has the error. Wide streams (",ccs=")
 * can't be cookies.
 */
TB_WRAPPER FILE *fopen(const char *path, const char *mode)
{
    struct tb_path p;
    bool managed = tb_path_find(AT_FDCWD, path, &p);
    if (!mode || !*mode || !strchr("rwa", mode[0]) || (!managed && tb_path_descriptor(path) < 0))
        return REAL(fopen)(path, mode);
    if (!managed)
        return open_descriptor(path, mode);
    if (strstr(mode, ",ccs="))
        return real_stream(&p, mode, NULL);
    int fd = open(path, flags_of(mode), 0666);
    FILE *file = fd < 0 ? NULL : make_stream(fd, mode);
    if (!file && fd >= 0)
        close(fd);
    return file;
}

TB_WRAPPER FILE *fopen64(const char *path, const char *mode)
{
    return fopen(path, mode);
}

/* A stream of libc's own on a managed number would read past the buffers. */
TB_WRAPPER FILE *fdopen(int fd, const char *mode)
{
    return tb_fd_io(fd) ? make_stream(fd, mode) : REAL(fdopen)(fd, mode);
}

/* libc knows the descriptors of its own streams; ours have none in its eyes. */
static struct stream *find(FILE *file)
{
    lock_streams();
    struct stream *s = streams;
    while (s && s->file != file)
        s = s->next;
    unlock_streams();
    return s;
}

static int descriptor_of(FILE *file, int (*real)(FILE *))
{
    int saved = errno, fd = real(file);
    struct stream *s = fd < 0 ? find(file) : NULL;
    if (s)
        errno = saved;
    return s ? s->fd : fd;
}

TB_WRAPPER int fileno(FILE *file)
{
    return descriptor_of(file, REAL(fileno));
}
TB_WRAPPER int fileno_unlocked(FILE *file)
{
    return descriptor_of(file, REAL(fileno_unlocked));
}

/* A cookie stays and gets another descriptor: libc can't make a stream of its own of it. */
static FILE *reopen_own(struct stream *s, const char *path, const char *mode)
{
    FILE *file = s->file;
    fflush(file);
    int fd = open(path, flags_of(mode), 0666);
    if (fd < 0) {
        fclose(file);
        return NULL;
    }
    close(s->fd);
    s->fd = fd;
    __fpurge(file);
    rewind(file);
    return file;
}

/* libc keeps its own streams: stdin, stdout and stderr must stay what they are. */
TB_WRAPPER FILE *freopen(const char *path, const char *mode, FILE *file)
{
    struct tb_path p;
    struct stream *s = find(file);
    if (s && path)
        return reopen_own(s, path, mode);
    if (s)
        return errno = EBADF, NULL; /* the mode of an open descriptor can't change */
    if (path && tb_path_find(AT_FDCWD, path, &p))
        return real_stream(&p, mode, file);
    return REAL(freopen)(path, mode, file);
}

/* The same on this architecture. */
TB_WRAPPER FILE *freopen64(const char *path, const char *mode, FILE *file)
{
    return freopen(path, mode, file);
}

/* libc writes these to the descriptor past every wrapper. */
TB_WRAPPER int vdprintf(int fd, const char *format, va_list args)
{
    if (!tb_fd_io(fd))
        return REAL(vdprintf)(fd, format, args);
    char *text;
    int n = vasprintf(&text, format, args), done = 0;
    while (n >= 0 && done < n) {
        ssize_t w = write(fd, text + done, (size_t)(n - done));
        if (w < 0 && errno != EINTR)
            break;
        done += w > 0 ? (int)w : 0;
    }
    if (n >= 0)
        free(text);
    return n < 0 || done < n ? -1 : n;
}

/* Formatted first and written in a loop: libc would write from its own buffer. */
TB_WRAPPER int dprintf(int fd, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vdprintf(fd, format, args);
    va_end(args);
    return n;
}

int __vdprintf_chk(int fd, int flag, const char *format, va_list args);
TB_WRAPPER int __vdprintf_chk(int fd, int flag, const char *format, va_list args)
{
    return tb_fd_io(fd) ? vdprintf(fd, format, args) : REAL(__vdprintf_chk)(fd, flag, format, args);
}

int __dprintf_chk(int fd, int flag, const char *format, ...);
TB_WRAPPER int __dprintf_chk(int fd, int flag, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = __vdprintf_chk(fd, flag, format, args);
    va_end(args);
    return n;
}
