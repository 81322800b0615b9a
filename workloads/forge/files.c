/*
 * Files that are open: a name once, for all clients that opened it, so that a shared file is one description. Each has a
 * buffered descriptor, and one with O_DIRECT where that was asked for; what is no multiple of a block, as the remainder
 * of a pattern, goes through the buffered one. Transfers are whole or an error: what was not written is never told to be.
 */
#include "message.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

struct open_file {
    char *path;                  /* NULL: the handle is free */
    int users, buffered, direct; /* descriptors; -1: none */
};

struct tb_files {
    pthread_mutex_t lock; /* of the table; a transfer copies the descriptors out and runs without it */
    struct open_file *file;
    int count;
};

struct tb_files *tb_files_new(void)
{
    struct tb_files *f = calloc(1, sizeof(*f));
    if (f)
        pthread_mutex_init(&f->lock, NULL);
    return f;
}

/* Both are closed in any case; the error of the later one is told. */
static int close_both(struct open_file *file)
{
    int error = 0;
    if (file->direct >= 0 && close(file->direct))
        error = -errno;
    if (file->buffered >= 0 && close(file->buffered))
        error = -errno;
    free(file->path);
    file->path = NULL;
    return error;
}

void tb_files_free(struct tb_files *f)
{
    for (int i = 0; i < f->count; i++)
        if (f->file[i].path)
            close_both(&f->file[i]);
    free(f->file);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

/* Of that name, else a free one, else one more; -ENOMEM. The lock is held. */
static int handle_for(struct tb_files *f, const char *path)
{
    int empty = f->count;
    for (int i = 0; i < f->count; i++) {
        if (f->file[i].path && !strcmp(f->file[i].path, path))
            return i;
        if (!f->file[i].path && empty == f->count)
            empty = i;
    }
    if (empty < f->count)
        return empty;
    struct open_file *more = realloc(f->file, ((size_t)f->count + 1) * sizeof(*more));
    if (!more)
        return -ENOMEM;
    f->file = more;
    f->file[f->count] = (struct open_file){.path = NULL};
    return f->count++;
}

/*
 * A new file, or one that another client opened; O_DIRECT is added where the first did not ask for it. The caller holds
 * the lock, so the first open of a name is waited for by all others of that name.
 */
static int open_into(struct open_file *file, const char *path, bool direct)
{
    bool is_new = !file->path;
    if (is_new) {
        *file = (struct open_file){.path = strdup(path), .direct = -1};
        file->buffered = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    }
    if (file->path && file->buffered >= 0 && direct && file->direct < 0)
        file->direct = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
    if (file->path && file->buffered >= 0 && (!direct || file->direct >= 0)) {
        file->users++;
        return 0;
    }
    int error = file->path ? -errno : -ENOMEM;
    if (is_new)
        close_both(file);
    return error;
}

int tb_files_open(struct tb_files *f, const char *path, bool direct)
{
    pthread_mutex_lock(&f->lock);
    int handle = handle_for(f, path);
    int error = handle < 0 ? handle : open_into(&f->file[handle], path, direct);
    pthread_mutex_unlock(&f->lock);
    return error ? error : handle;
}

/* The last user's close says what the file system says. */
int tb_files_close(struct tb_files *f, int handle)
{
    int error = -EBADF;
    pthread_mutex_lock(&f->lock);
    if (handle >= 0 && handle < f->count && f->file[handle].path)
        error = --f->file[handle].users ? 0 : close_both(&f->file[handle]);
    pthread_mutex_unlock(&f->lock);
    return error;
}

/* Blocks of 4 KiB do on every file system; the bytes of a request always begin on a page. */
static bool is_aligned(const struct iovec *pieces, int count, int64_t offset)
{
    bool aligned = offset % TB_PAGE == 0;
    for (int i = 0; i < count; i++)
        aligned &= pieces[i].iov_len % TB_PAGE == 0;
    return aligned;
}

/*
 * The file stays open during the transfer: a client closes only after its answers have come, and a file is closed with its
 * last user.
 */
static int descriptor_for(struct tb_files *f, int handle, bool direct)
{
    int fd = -EBADF;
    pthread_mutex_lock(&f->lock);
    if (handle >= 0 && handle < f->count && f->file[handle].path)
        fd = direct && f->file[handle].direct >= 0 ? f->file[handle].direct : f->file[handle].buffered;
    pthread_mutex_unlock(&f->lock);
    return fd;
}

/*
 * One piece from where a short call left it. A write of 0 bytes without an error means a full device; a read of 0 is the
 * end of the file.
 */
static int finish(int fd, bool write, struct iovec piece, int64_t offset)
{
    while (piece.iov_len) {
        ssize_t n = write ? pwrite(fd, piece.iov_base, piece.iov_len, offset) : pread(fd, piece.iov_base, piece.iov_len, offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : write ? -ENOSPC : -ENODATA;
        piece.iov_base = (char *)piece.iov_base + n;
        piece.iov_len -= (size_t)n;
        offset += n;
    }
    return 0;
}

/* One call; where it was short, the rest piece after piece. */
static int transfer(int fd, bool write, const struct iovec *pieces, int count, int64_t offset)
{
    ssize_t n = count == 1 ? 0 : write ? pwritev(fd, pieces, count, offset) : preadv(fd, pieces, count, offset);
    size_t done = n > 0 ? (size_t)n : 0;
    for (int i = 0; i < count; i++) {
        size_t skip = done < pieces[i].iov_len ? done : pieces[i].iov_len;
        struct iovec rest = {(char *)pieces[i].iov_base + skip, pieces[i].iov_len - skip};
        int error = finish(fd, write, rest, offset + (int64_t)skip);
        if (error)
            return error;
        done -= skip;
        offset += (int64_t)pieces[i].iov_len;
    }
    return 0;
}

int tb_files_write(struct tb_files *f, int handle, bool direct, const struct iovec *pieces, int count, int64_t offset)
{
    int fd = descriptor_for(f, handle, direct && is_aligned(pieces, count, offset));
    return fd < 0 ? fd : transfer(fd, true, pieces, count, offset);
}

int tb_files_read(struct tb_files *f, int handle, bool direct, const struct iovec *pieces, int count, int64_t offset)
{
    int fd = descriptor_for(f, handle, direct && is_aligned(pieces, count, offset));
    return fd < 0 ? fd : transfer(fd, false, pieces, count, offset);
}
