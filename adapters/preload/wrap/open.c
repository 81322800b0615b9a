/*
 * Descriptors: made, copied, closed. What is opened under a prefix is noted in a table by
 * number (core/fds.h), and every other wrapper asks that table. A number may be given out
 * again as soon as it is closed, so the order of noting and closing counts.
 */
#include "wrap/open.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/adapter.h"
#include "core/record_locks.h"
#include "wrap/locks.h"

/* An own descriptor of this name, opened anew: by the name that its file has, or from a file whose bytes are all in the kernel. */
static int open_again(const char *path, int flags, mode_t mode)
{
    int again = tb_open_place(REAL(open)(path, O_PATH | O_CLOEXEC), flags), from = tb_path_descriptor(path);
    if (again != TB_NOT_MANAGED)
        return again;
    return tb_fd_io(from) && tb_fd_coherent(from) ? -1 : REAL(open)(path, flags, mode);
}

/* Outside every prefix; only the name of a descriptor may lead into one. */
static int open_elsewhere(int dirfd, const char *path, int flags, mode_t mode)
{
    bool stays = flags & (O_PATH | O_NOFOLLOW | O_DIRECTORY) || (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL);
    if (stays || tb_inside || tb_path_descriptor(path) < 0)
        return REAL(openat)(dirfd, path, flags, mode);
    return open_again(path, flags, mode);
}

/*
 * A file without a name is this process's alone, and a directory has no bytes: those are
 * libc's. What can't be made coherent when it must be is closed again: half-managed, it would
 * read old bytes.
 */
static int open_at(int dirfd, const char *path, int flags, mode_t mode)
{
    struct tb_path p;
    if ((flags & O_TMPFILE) == O_TMPFILE)
        return tb_path_real(&dirfd, &path, TB_NAME_ENTER, &p) ? REAL(openat)(dirfd, path, flags, mode) : -1;
    const char *name = tb_path_look(dirfd, path, &p);
    if (!name)
        return open_elsewhere(dirfd, path, flags, mode);
    tb_may_end();
    int fd = (int)TB_CALL(p.io, open, name, flags, mode);
    if (fd >= 0 && flags & O_PATH)
        tb_has_place = true;
    if (fd < 0 || flags & (O_DIRECTORY | O_PATH) || tb_fd_adopt(fd, p.io) == 0)
        return fd;
    int saved = errno;
    tb_fd_drop(fd);
    errno = saved;
    return -1;
}

TB_WRAPPER int open(const char *path, int flags, ...)
{
    MODE_OF(flags, flags)
    return open_at(AT_FDCWD, path, flags, mode);
}

TB_WRAPPER int open64(const char *path, int flags, ...)
{
    MODE_OF(flags, flags)
    return open_at(AT_FDCWD, path, flags, mode);
}

TB_WRAPPER int openat(int dirfd, const char *path, int flags, ...)
{
    MODE_OF(flags, flags)
    return open_at(dirfd, path, flags, mode);
}

TB_WRAPPER int openat64(int dirfd, const char *path, int flags, ...)
{
    MODE_OF(flags, flags)
    return open_at(dirfd, path, flags, mode);
}

/* What fortified programs call. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dirfd, const char *path, int flags);
int __openat64_2(int dirfd, const char *path, int flags);
/* clang-format off: one line each */
TB_WRAPPER int __open_2(const char *path, int flags)
{
    return open_at(AT_FDCWD, path, flags, 0);
}
TB_WRAPPER int __open64_2(const char *path, int flags)
{
    return open_at(AT_FDCWD, path, flags, 0);
}
TB_WRAPPER int __openat_2(int dirfd, const char *path, int flags)
{
    return open_at(dirfd, path, flags, 0);
}
TB_WRAPPER int __openat64_2(int dirfd, const char *path, int flags)
{
    return open_at(dirfd, path, flags, 0);
}
/* clang-format on */

/*
 * `place` only names a place (O_PATH): a real descriptor, once closed, would take record locks along.  It is closed
 * first, so that the new one has its number.  In scratch mode a file of the PFS is what its name is in the shadow.
 */
int tb_open_place(int place, int flags)
{
    struct tb_path p;
    struct stat found, again;
    bool managed = place >= 0 && tb_path_of_file(place, &found, &p) && S_ISREG(found.st_mode);
    if (place >= 0)
        REAL(close)(place);
    int own = managed ? open(p.path, flags & ~(O_CREAT | O_EXCL | O_NOFOLLOW)) : TB_NOT_MANAGED;
    if (own < 0 || p.mode == TB_MODE_SCRATCH ||
        (REAL(fstat)(own, &again) == 0 && found.st_ino == again.st_ino && found.st_dev == again.st_dev))
        return own;
    tb_fd_drop(own); /* another file has taken the name */
    return TB_NOT_MANAGED;
}

/* The kernel finds the file; the engine then opens it by the name that it has now. */
TB_WRAPPER int open_by_handle_at(int mount, struct file_handle *handle, int flags)
{
    int place = flags & O_PATH ? -1 : REAL(open_by_handle_at)(mount, handle, O_PATH | O_CLOEXEC);
    int fd = tb_open_place(place, flags);
    return fd == TB_NOT_MANAGED ? REAL(open_by_handle_at)(mount, handle, flags) : fd;
}

/* Of the file that the name has now, wherever it is. */
TB_WRAPPER int name_to_handle_at(int dirfd, const char *path, struct file_handle *handle, int *mount, int flags)
{
    struct tb_path p;
    unsigned use = TB_NAME_LOOK | (flags & AT_SYMLINK_FOLLOW ? 0 : TB_NAME_NOFOLLOW);
    return tb_path_real(&dirfd, &path, use, &p) ? REAL(name_to_handle_at)(dirfd, path, handle, mount, flags) : -1;
}

TB_WRAPPER int creat(const char *path, mode_t mode)
{
    return open_at(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

TB_WRAPPER int creat64(const char *path, mode_t mode)
{
    return creat(path, mode);
}

#define NAME_ATTEMPTS 1000

/* Six characters of a name that no other process is likely to try. */
static void fill_name(char *six)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    unsigned char bytes[6];
    if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
        memset(bytes, (int)clock(), sizeof(bytes));
    for (int i = 0; i < 6; i++)
        six[i] = letters[bytes[i] % (sizeof(letters) - 1)];
}

/* The X's of "...XXXXXX<suffix>"; NULL with EINVAL where there are none. */
static char *place_of_name(char *template, int suffix)
{
    size_t n = strlen(template);
    char *six = suffix >= 0 && n >= 6 + (size_t)suffix ? template + n - 6 - suffix : NULL;
    if (six && memcmp(six, "XXXXXX", 6) == 0)
        return six;
    errno = EINVAL;
    return NULL;
}

/*
 * mkstemp and the like. libc's own versions open the file without any wrapper. If no file
 * could be made, the name is put back as it was, as libc does.
 */
static int make_file(char *template, int suffix, int flags)
{
    struct tb_path p;
    if (!tb_path_find(AT_FDCWD, template, &p))
        return REAL(mkostemps)(template, suffix, flags);
    char *six = place_of_name(template, suffix);
    int fd = -1;
    for (int i = 0; six && fd < 0 && i < NAME_ATTEMPTS; i++) {
        fill_name(six);
        fd = open_at(AT_FDCWD, template, (flags & ~O_ACCMODE) | O_RDWR | O_CREAT | O_EXCL, 0600);
        if (fd < 0 && errno != EEXIST)
            break;
    }
    if (six && fd < 0)
        memcpy(six, "XXXXXX", 6);
    return fd;
}

/* clang-format off: one line each */
TB_WRAPPER int mkstemp(char *template)
{
    return make_file(template, 0, 0);
}
TB_WRAPPER int mkstemp64(char *template)
{
    return make_file(template, 0, 0);
}
TB_WRAPPER int mkostemp(char *template, int flags)
{
    return make_file(template, 0, flags);
}
TB_WRAPPER int mkostemp64(char *template, int flags)
{
    return make_file(template, 0, flags);
}
TB_WRAPPER int mkstemps(char *template, int suffix)
{
    return make_file(template, suffix, 0);
}
TB_WRAPPER int mkstemps64(char *template, int suffix)
{
    return make_file(template, suffix, 0);
}
TB_WRAPPER int mkostemps(char *template, int suffix, int flags)
{
    return make_file(template, suffix, flags);
}
TB_WRAPPER int mkostemps64(char *template, int suffix, int flags)
{
    return make_file(template, suffix, flags);
}
/* clang-format on */

/* As make_file; libc's own would call mkdir past the wrapper. */
TB_WRAPPER char *mkdtemp(char *template)
{
    struct tb_path p;
    if (!tb_path_find(AT_FDCWD, template, &p))
        return REAL(mkdtemp)(template);
    char *six = place_of_name(template, 0);
    for (int i = 0; six && i < NAME_ATTEMPTS; i++) {
        fill_name(six);
        if (mkdir(template, 0700) == 0)
            return template;
        if (errno != EEXIST)
            break;
    }
    return NULL;
}

/*
 * Also of files that are not managed here: a marked one may hold record locks, which go with
 * any close of it.
 */
static int close_unmanaged(int fd)
{
    struct tb_lock_mark *mark = tb_locks_go_begin(fd);
    int rc = REAL(close)(fd);
    tb_locks_go_end(mark, true);
    return rc;
}

/*
 * The engine's own descriptors do not exist for the program, so EBADF. The mark in the table
 * goes before the kernel closes: the number may be another thread's new file the moment after.
 */
TB_WRAPPER int close(int fd)
{
    struct tb_io *io = tb_fd_io(fd);
    if (tb_fd_is_own(fd))
        return (int)tb_result(-EBADF);
    if (!io && tb_inside)
        return (int)tb_result(tb_own_close(fd)); /* the engine's, of a file that it opened past its chain */
    if (!io)
        return close_unmanaged(fd);
    tb_may_end();
    int before = tb_program_closes;
    tb_program_closes = fd;
    tb_fd_set(fd, NULL); /* before the number can be given out again */
    int rc = (int)TB_CALL(io, close, fd);
    tb_program_closes = before;
    return rc;
}

/*
 * Managed ones one by one, so that the engine hears of each; then the rest in ranges around
 * the engine's own descriptors. What the kernel refuses closes none.
 */
TB_WRAPPER int close_range(unsigned first, unsigned last, int flags)
{
    int high = last < INT_MAX && (int)last < tb_fd_highest() ? (int)last : tb_fd_highest();
    if (first > last || flags & ~(int)(CLOSE_RANGE_UNSHARE | CLOSE_RANGE_CLOEXEC))
        return (int)tb_result(-EINVAL);
    if (!(flags & CLOSE_RANGE_CLOEXEC))
        for (int fd = (int)first; first < TB_FD_LIMIT && fd <= high; fd++)
            if (tb_fd_io(fd) || tb_locks_are_marked(fd))
                close(fd);
    /* Around the engine's own: a daemon that closes all it may have inherited goes on with its tiers. */
    for (int own; first <= last && first < INT_MAX && (own = tb_fd_next_own((int)first)) < INT_MAX && (unsigned)own <= last;
         first = (unsigned)own + 1)
        if ((unsigned)own > first && REAL(close_range)(first, (unsigned)own - 1, flags))
            return -1;
    return first <= last ? REAL(close_range)(first, last, flags) : 0;
}

TB_WRAPPER void closefrom(int first)
{
    close_range(first < 0 ? 0 : (unsigned)first, UINT_MAX, 0);
}

/* A number that libc's own streams or a ring use past every wrapper gets only what is coherent: -1 and errno where the flush failed. */
static int ready_for(int oldfd, int newfd)
{
    return newfd <= STDERR_FILENO || tb_has_ring ? tb_fd_coherent(oldfd) : 0;
}

/*
 * The kernel has made the copy already. What `newfd` was before is told to its own chain
 * first: both may be managed, by different ones.
 */
static void note_dup(struct tb_io *io, int oldfd, int newfd)
{
    struct tb_io *replaced = tb_fd_io(newfd);
    int saved = errno;
    if (replaced && !tb_fd_io_is_like(replaced, io))
        TB_CALL(replaced, dup, oldfd, newfd);
    if (io)
        TB_CALL(io, dup, oldfd, newfd);
    tb_fd_set(newfd, io);
    errno = saved;
}

/* A new number, which nothing had before: the copy, or -1 and errno. */
static int note_copy(int oldfd, int newfd)
{
    struct tb_io *io = newfd < 0 ? NULL : tb_fd_io(oldfd);
    if (!io)
        return newfd;
    note_dup(io, oldfd, newfd);
    if (!ready_for(oldfd, newfd))
        return newfd;
    int saved = errno;
    tb_fd_drop(newfd);
    errno = saved;
    return -1;
}

TB_WRAPPER int dup(int oldfd)
{
    return note_copy(oldfd, REAL(dup)(oldfd));
}

/* A late open of what has the number asks which file it is while the number is its own. */
static void know_replaced(int fd)
{
    if (!tb_fd_io(fd))
        return;
    tb_enter();
    tb_engine_know(tb_adapter_engine(), fd);
    tb_leave();
}

/* dup2 of a number onto itself changes nothing, and must not be noted as a close. */
TB_WRAPPER int dup2(int oldfd, int newfd)
{
    if (tb_fd_is_own(newfd))
        return (int)tb_result(-EBADF);
    if (oldfd != newfd && ready_for(oldfd, newfd))
        return -1;
    if (oldfd != newfd)
        know_replaced(newfd);
    struct tb_lock_mark *mark = oldfd != newfd ? tb_locks_go_begin(newfd) : NULL;
    int fd = REAL(dup2)(oldfd, newfd);
    tb_locks_go_end(mark, fd >= 0);
    if (fd >= 0 && oldfd != newfd)
        note_dup(tb_fd_io(oldfd), oldfd, newfd);
    return fd;
}

TB_WRAPPER int dup3(int oldfd, int newfd, int flags)
{
    if (tb_fd_is_own(newfd))
        return (int)tb_result(-EBADF);
    if (oldfd != newfd && ready_for(oldfd, newfd))
        return -1;
    know_replaced(newfd);
    struct tb_lock_mark *mark = tb_locks_go_begin(newfd);
    int fd = REAL(dup3)(oldfd, newfd, flags);
    tb_locks_go_end(mark, fd >= 0);
    if (fd >= 0)
        note_dup(tb_fd_io(oldfd), oldfd, newfd);
    return fd;
}

/* How it appends from now on is the kernel's to know, and a flush by it would have to be aligned. */
static bool changes_transfers(int before, int flags)
{
    return (before ^ flags) & O_APPEND || (flags & ~before) & O_DIRECT;
}

/*
 * Locks first, for they have their own rules (wrap/locks.c). A copy is noted after the kernel
 * made it; a failed one needs nothing.
 */
static int fcntl_with(int fd, int command, void *arg)
{
    if (tb_is_lock_command(command))
        return tb_fcntl_lock(fd, command, arg);
    if (command == F_SETFL && tb_fd_io(fd) && changes_transfers(REAL(fcntl)(fd, F_GETFL), (int)(long)arg) && tb_fd_coherent(fd))
        return -1;
    int rc = REAL(fcntl)(fd, command, arg);
    if (command == F_GETFL && rc >= 0 && tb_fd_io(fd))
        rc &= ~O_NOFOLLOW; /* the engine's: it knows where a link leads, or asks first whether there is one */
    if (rc >= 0 && tb_inside && command == F_DUPFD_CLOEXEC)
        tb_fd_own(rc);
    return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? note_copy(fd, rc) : rc;
}

TB_WRAPPER int fcntl(int fd, int command, ...)
{
    va_list args;
    va_start(args, command);
    void *arg = va_arg(args, void *);
    va_end(args);
    return fcntl_with(fd, command, arg);
}

TB_WRAPPER int fcntl64(int fd, int command, ...)
{
    va_list args;
    va_start(args, command);
    void *arg = va_arg(args, void *);
    va_end(args);
    return fcntl_with(fd, command, arg);
}
