/*
 * FILE streams on managed paths: libc's own stdio over our descriptors, by
 * fopencookie, because libc reads and writes its streams past every wrapper.
 * fileno gives the real descriptor, which is managed itself.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "adapter.h"

struct stream {
    FILE *file;
    int fd;
    struct stream *next;
};

static struct stream *streams;
static pthread_mutex_t streams_lock = PTHREAD_MUTEX_INITIALIZER;

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

static int cookie_seek(void *cookie, off64_t *offset, int whence)
{
    off64_t at = lseek(((struct stream *)cookie)->fd, *offset, whence);
    if (at < 0)
        return -1;
    *offset = at;
    return 0;
}

static int cookie_close(void *cookie)
{
    struct stream *s = cookie;
    pthread_mutex_lock(&streams_lock);
    for (struct stream **link = &streams; *link; link = &(*link)->next)
        if (*link == s) {
            *link = s->next;
            break;
        }
    pthread_mutex_unlock(&streams_lock);
    int rc = s->fd >= 0 ? close(s->fd) : 0;
    free(s);
    return rc;
}

static FILE *make_stream(int fd, const char *mode)
{
    static const cookie_io_functions_t functions = {cookie_read, cookie_write, cookie_seek, cookie_close};
    struct stream *s = calloc(1, sizeof(*s));
    FILE *file = s ? fopencookie(s, mode, functions) : NULL;
    if (!file) {
        free(s);
        return NULL;
    }
    s->fd = fd;
    s->file = file;
    pthread_mutex_lock(&streams_lock);
    s->next = streams;
    streams = s;
    pthread_mutex_unlock(&streams_lock);
    return file;
}

static int flags_of(const char *mode)
{
    int flags = strchr(mode, '+') ? O_RDWR : mode[0] == 'r' ? O_RDONLY : O_WRONLY;
    if (mode[0] == 'w')
        flags |= O_CREAT | O_TRUNC;
    if (mode[0] == 'a')
        flags |= O_CREAT | O_APPEND;
    return flags | (strchr(mode, 'x') ? O_EXCL : 0) | (strchr(mode, 'e') ? O_CLOEXEC : 0);
}

TB_WRAPPER FILE *fopen(const char *path, const char *mode)
{
    struct tb_path p;
    if (!mode || !strchr("rwa", mode[0]) || !tb_path_find(AT_FDCWD, path, &p))
        return REAL(fopen)(path, mode);
    int fd = open(path, flags_of(mode), 0666);
    FILE *file = fd < 0 ? NULL : make_stream(fd, mode);
    if (!file && fd >= 0)
        close(fd);
    return file;
}

TB_WRAPPER FILE *fopen64(const char *path, const char *mode) { return fopen(path, mode); }

TB_WRAPPER FILE *fdopen(int fd, const char *mode)
{
    return tb_fd_io(fd) ? make_stream(fd, mode) : REAL(fdopen)(fd, mode);
}

static struct stream *find(FILE *file)
{
    pthread_mutex_lock(&streams_lock);
    struct stream *s = streams;
    while (s && s->file != file)
        s = s->next;
    pthread_mutex_unlock(&streams_lock);
    return s;
}

TB_WRAPPER int fileno(FILE *file)
{
    struct stream *s = find(file);
    return s ? s->fd : REAL(fileno)(file);
}

TB_WRAPPER int fileno_unlocked(FILE *file)
{
    struct stream *s = find(file);
    return s ? s->fd : REAL(fileno_unlocked)(file);
}

/*
 * Where a stream of libc is reopened on a managed path, the file is made
 * coherent and libc keeps the stream: stdin, stdout and stderr must stay what they are.
 */
TB_WRAPPER FILE *freopen(const char *path, const char *mode, FILE *file)
{
    struct tb_path p;
    struct stream *s = find(file);
    if (s && path) {
        int fd = open(path, flags_of(mode), 0666);
        fflush(file);
        if (fd < 0)
            return NULL;
        close(s->fd);
        s->fd = fd;
        clearerr(file);
        return file;
    }
    if (path && tb_path_find(AT_FDCWD, path, &p)) {
        int fd = open(path, flags_of(mode), 0666);
        if (fd < 0 || tb_fd_coherent(fd))
            return NULL;
        FILE *same = REAL(freopen)(p.real, mode, file);
        close(fd);
        return same;
    }
    return REAL(freopen)(path, mode, file);
}

TB_WRAPPER FILE *freopen64(const char *path, const char *mode, FILE *file) { return freopen(path, mode, file); }
