/*
 * FILE streams on managed paths: libc's own stdio over our descriptors, by
 * fopencookie, because libc reads and writes its streams past every wrapper.
 * fileno gives the real descriptor, which is managed itself.
 */
#include "wrap/stdio.h"

#include <fcntl.h>
#include <stdarg.h>
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

/* All of it, as libc's own: errno tells why not. Less than `n`, and not -1, is this interface's word for an error. */
static ssize_t cookie_write(void *cookie, const char *buf, size_t n)
{
    size_t done = 0;
    ssize_t w = 1;
    while (done < n && w > 0) {
        w = write(((struct stream *)cookie)->fd, buf + done, n - done);
        done += w > 0 ? (size_t)w : 0;
    }
    return (ssize_t)done;
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

static void forget(struct stream *s)
{
    lock_streams();
    for (struct stream **link = &streams; *link; link = &(*link)->next)
        if (*link == s) {
            *link = s->next;
            break;
        }
    unlock_streams();
}

/* Out of the list before the descriptor goes: its number may be a new stream's at once. */
static int cookie_close(void *cookie)
{
    struct stream *s = cookie;
    forget(s);
    int rc = s->fd >= 0 ? close(s->fd) : 0;
    free(s);
    return rc;
}

static bool is_mode(const char *mode)
{
    return mode && *mode && strchr("rwa", *mode);
}

static bool has_both(const char *mode)
{
    return strchr(mode, '+') != NULL;
}

/* As libc: a stream that only appends begins at the end, which ftell tells. */
static void go_to_end(int fd, const char *mode)
{
    int saved = errno;
    if (*mode == 'a' && !has_both(mode))
        lseek(fd, 0, SEEK_END);
    errno = saved;
}

/* libc's function knows a '+' only in the second place. */
static FILE *make_stream(int fd, const char *mode)
{
    static const cookie_io_functions_t functions = {cookie_read, cookie_write, cookie_seek, cookie_close};
    struct stream *s = calloc(1, sizeof(*s));
    FILE *file = s ? fopencookie(s, (char[]){*mode, has_both(mode) ? '+' : 0, 0}, functions) : NULL;
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
    int flags = has_both(mode) ? O_RDWR : mode[0] == 'r' ? O_RDONLY : O_WRONLY;
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

/* The name of a descriptor (/dev/stdin) may lead to what is not managed. */
static FILE *open_stream(const char *path, const char *mode)
{
    int fd = open(path, flags_of(mode), 0666);
    FILE *file = fd < 0 ? NULL : tb_fd_io(fd) ? make_stream(fd, mode) : REAL(fdopen)(fd, mode);
    if (file)
        go_to_end(fd, mode);
    else if (fd >= 0)
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
    if (!is_mode(mode) || (!managed && tb_path_descriptor(path) < 0))
        return REAL(fopen)(path, mode);
    return managed && strstr(mode, ",ccs=") ? real_stream(&p, mode, NULL) : open_stream(path, mode);
}

TB_WRAPPER FILE *fopen64(const char *path, const char *mode)
{
    return fopen(path, mode);
}

/* May a stream of that mode use a descriptor with these flags? */
static bool allows(int flags, const char *mode)
{
    int access = flags & O_ACCMODE;
    bool reads = *mode == 'r' || has_both(mode), writes = *mode != 'r' || has_both(mode);
    return !(reads && access == O_WRONLY) && !(writes && access == O_RDONLY);
}

/*
 * A stream of libc's own on a managed number would read past the buffers. One that is not open for appending becomes so
 * for a stream that appends.
 */
TB_WRAPPER FILE *fdopen(int fd, const char *mode)
{
    if (!tb_fd_io(fd))
        return REAL(fdopen)(fd, mode);
    int flags = fcntl(fd, F_GETFL);
    bool appends = is_mode(mode) && *mode == 'a' && !(flags & O_APPEND);
    if (!is_mode(mode) || !allows(flags, mode))
        return errno = EINVAL, NULL;
    if (appends && fcntl(fd, F_SETFL, flags | O_APPEND))
        return NULL;
    FILE *file = make_stream(fd, mode);
    if (file && appends)
        go_to_end(fd, mode);
    return file;
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

/* What libc notes in a stream of its mode. The numbers are the same in all its versions: gnulib uses them, too. */
#define NO_READS 4
#define NO_WRITES 8
#define APPENDS 0x1000

static void allow(FILE *file, const char *mode)
{
    bool both = has_both(mode);
    file->_flags &= ~(NO_READS | NO_WRITES | APPENDS);
    file->_flags |= both ? 0 : *mode == 'r' ? NO_WRITES : NO_READS;
    file->_flags |= *mode == 'a' ? APPENDS : 0;
}

/* A cookie stays and gets another descriptor: libc can't make a stream of its own of it. */
static FILE *reopen_own(struct stream *s, const char *path, const char *mode)
{
    FILE *file = s->file;
    fflush(file);
    int fd = is_mode(mode) ? open(path, flags_of(mode), 0666) : (int)tb_result(-EINVAL);
    if (fd < 0) {
        int saved = errno;
        fclose(file);
        errno = saved;
        return NULL;
    }
    close(s->fd);
    s->fd = fd;
    __fpurge(file);
    rewind(file);
    allow(file, mode);
    go_to_end(fd, mode);
    return file;
}

/* Without a name: the same file in another mode. libc keeps its own streams: stdin, stdout and stderr must stay what they are. */
TB_WRAPPER FILE *freopen(const char *path, const char *mode, FILE *file)
{
    char own[32];
    struct tb_path p;
    struct stream *s = find(file);
    snprintf(own, sizeof(own), "/proc/self/fd/%d", s ? s->fd : -1);
    if (s)
        return reopen_own(s, path ? path : own, mode);
    if (path && tb_path_find(AT_FDCWD, path, &p))
        return real_stream(&p, mode, file);
    return REAL(freopen)(path, mode, file);
}

/* The same on this architecture. */
TB_WRAPPER FILE *freopen64(const char *path, const char *mode, FILE *file)
{
    return freopen(path, mode, file);
}

/* So that nothing is emptied. */
static const char *mode_of(const FILE *file)
{
    if (file->_flags & APPENDS)
        return file->_flags & NO_READS ? "a" : "a+";
    return file->_flags & NO_WRITES ? "r" : "r+";
}

/*
 * libc opens the file once more, at the same place. The room for wide characters is another stream's, which no one uses; it stays, as does
 * the descriptor, by which the file stays coherent. What fails leaves a stream that takes none.
 */
static void become_real(struct stream *s)
{
    char own[32];
    FILE *file = s->file, *lender = REAL(fopen)("/dev/null", "re");
    if (!lender)
        return;
    REAL(close)(lender->_fileno);
    lender->_fileno = -1;
    file->_wide_data = lender->_wide_data;
    fflush(file);
    off_t at = lseek(s->fd, 0, SEEK_CUR);
    if (tb_fd_coherent(s->fd))
        return;
    file->_fileno = -1; /* no number that libc would keep for it */
    snprintf(own, sizeof(own), "/proc/self/fd/%d", s->fd);
    if (REAL(freopen)(own, mode_of(file), file) && at > 0)
        fseeko(file, at, SEEK_SET);
    forget(s);
    free(s);
}

/* What is libc's own by then, or wide, needs nothing. */
void tb_stream_widen(FILE *file)
{
    int saved = errno;
    struct stream *s = file->_mode > 0 ? NULL : find(file);
    if (s)
        become_real(s);
    errno = saved;
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
