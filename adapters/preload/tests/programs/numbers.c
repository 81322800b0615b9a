/*
 * Calls on names by their number, in the current folder: each finds what libc's function made, and
 * makes what libc's function finds. The same is right without the tiers. With the name of a file that
 * was there before: it is changed by number, too, and no byte or name of the PFS may change in scratch mode.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>
#include <utime.h>

#define NUMBER_FCHMODAT2 452
#define NUMBER_SETXATTRAT 463

static int failures;
#define CHECK(ok) ((ok) ? (void)0 : (void)(failures++, printf("%d: %s (%s)\n", __LINE__, #ok, strerror(errno))))
/* A kernel or file system may lack it; that it finds the file is what counts. */
#define CHECK_IF_ABLE(call) CHECK((call) >= 0 || errno == EOPNOTSUPP || errno == ENOSYS)

static struct stat st;

static int looks(const char *path)
{
    return lstat(path, &st) == 0;
}

static int refuses(long rc, int error)
{
    return rc == -1 && errno == error;
}

static void made(void)
{
    long fd = syscall(SYS_creat, "creat", 0644);
    CHECK(fd >= 0 && syscall(SYS_write, fd, "abc", 3) == 3 && looks("creat") && st.st_size == 3 && close((int)fd) == 0);
    CHECK(syscall(SYS_mknod, "mknod", S_IFREG | 0600, 0) == 0 && looks("mknod") && S_ISREG(st.st_mode));
    CHECK(syscall(SYS_mknodat, AT_FDCWD, "fifo", S_IFIFO | 0600, 0) == 0 && looks("fifo") && S_ISFIFO(st.st_mode));
    CHECK(refuses(syscall(SYS_mknod, "mknod", S_IFREG | 0600, 0), EEXIST) && refuses(syscall(SYS_creat, NULL, 0644), EFAULT));
}

static void permitted(const char *path)
{
    int fd = open(path, O_RDWR);
    CHECK(syscall(SYS_chmod, path, 0640) == 0 && looks(path) && (st.st_mode & 07777) == 0640);
    CHECK(syscall(SYS_fchmodat, AT_FDCWD, path, 0604, -1) == 0 && looks(path) && (st.st_mode & 07777) == 0604);
    CHECK(syscall(SYS_fchmod, fd, 0644) == 0 && looks(path) && (st.st_mode & 07777) == 0644);
    CHECK_IF_ABLE(syscall(NUMBER_FCHMODAT2, AT_FDCWD, path, 0644, 0));
    CHECK_IF_ABLE(syscall(NUMBER_FCHMODAT2, fd, "", 0644, AT_EMPTY_PATH));
    CHECK(syscall(SYS_chown, path, geteuid(), getegid()) == 0 && syscall(SYS_lchown, path, -1, getegid()) == 0);
    CHECK(syscall(SYS_fchownat, AT_FDCWD, path, geteuid(), -1, 0) == 0 && refuses(syscall(SYS_chmod, "absent", 0600), ENOENT));
    CHECK(syscall(SYS_access, path, R_OK) == 0 && syscall(SYS_faccessat, AT_FDCWD, path, R_OK, -1) == 0);
    close(fd);
}

static int has_time(const char *path, time_t seconds)
{
    return stat(path, &st) == 0 && st.st_mtime == seconds;
}

/* After a write, whose time would come later with its flush. */
static void timed(const char *path)
{
    struct timespec exact[2] = {{1, 2}, {14, 4}};
    struct timeval micros[2] = {{1, 2}, {12, 4}}, others[2] = {{1, 2}, {13, 4}};
    struct utimbuf seconds = {1, 11};
    int fd = open(path, O_RDWR);
    CHECK(write(fd, "new", 3) == 3);
    CHECK(syscall(SYS_utime, path, &seconds) == 0 && has_time(path, 11) && syscall(SYS_utimes, path, micros) == 0 && has_time(path, 12));
    CHECK(syscall(SYS_futimesat, AT_FDCWD, path, others) == 0 && has_time(path, 13));
    CHECK(syscall(SYS_utimensat, AT_FDCWD, path, exact, 0) == 0 && has_time(path, 14));
    CHECK(write(fd, "new", 3) == 3 && syscall(SYS_utimensat, fd, NULL, exact, 0) == 0 && fsync(fd) == 0 && has_time(path, 14));
    CHECK(write(fd, "new", 3) == 3 && syscall(SYS_futimesat, fd, NULL, others) == 0 && fsync(fd) == 0 && has_time(path, 13));
    CHECK(refuses(syscall(SYS_utimes, NULL, micros), EFAULT) && refuses(syscall(SYS_utime, "", &seconds), ENOENT));
    CHECK(has_time(path, 13) && close(fd) == 0);
}

static void attributed(const char *path)
{
    struct {
        const void *value;
        unsigned size, flags;
    } at = {"3", 1, 0};
    char got[64];
    struct statfs fs;
    int able = syscall(SYS_setxattr, path, "user.a", "1", 1, 0) == 0;
    CHECK(able || errno == EOPNOTSUPP);
    CHECK(!able || (syscall(SYS_getxattr, path, "user.a", got, 9) == 1 && *got == '1' && syscall(SYS_listxattr, path, got, 64) >= 7));
    CHECK(!able || (syscall(SYS_lsetxattr, path, "user.b", "2", 1, 0) == 0 && syscall(SYS_lgetxattr, path, "user.b", got, 9) == 1));
    CHECK(!able || (syscall(SYS_llistxattr, path, got, 64) >= 14 && syscall(SYS_removexattr, path, "user.a") == 0));
    CHECK(!able || (syscall(SYS_lremovexattr, path, "user.b") == 0 && refuses(syscall(SYS_getxattr, path, "user.a", got, 9), ENODATA)));
    CHECK_IF_ABLE(syscall(NUMBER_SETXATTRAT, AT_FDCWD, path, 0, "user.c", &at, sizeof(at)));
    CHECK(syscall(SYS_statfs, path, &fs) == 0 && fs.f_bsize > 0);
    int watch = inotify_init1(IN_CLOEXEC);
    CHECK(syscall(SYS_inotify_add_watch, watch, path, IN_MODIFY) >= 0 && close(watch) == 0);
}

static void handled(const char *path)
{
    union {
        struct file_handle handle;
        char room[sizeof(struct file_handle) + MAX_HANDLE_SZ];
    } h = {.handle.handle_bytes = MAX_HANDLE_SZ};
    int mount;
    CHECK_IF_ABLE(syscall(SYS_name_to_handle_at, AT_FDCWD, path, &h, &mount, 0));
    CHECK_IF_ABLE(name_to_handle_at(AT_FDCWD, path, &h.handle, &mount, 0));
}

static void otherwise(void)
{
    char here[4096], got[16] = "";
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket"};
    int fd = open("bytes", O_RDWR | O_CREAT, 0644), rest = 0, server = socket(AF_UNIX, SOCK_STREAM, 0),
        client = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(write(fd, "0123456789", 10) == 10 && lseek(fd, 4, SEEK_SET) == 4 && syscall(SYS_ioctl, fd, FIONREAD, &rest) == 0 && rest == 6);
    char *m = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0), *moved = (char *)syscall(SYS_mremap, m, 4096, 8192, MREMAP_MAYMOVE);
    CHECK(moved != MAP_FAILED && !memcmp(moved, "0123456789", 10) && syscall(SYS_munmap, moved, 8192) == 0);
    CHECK(syscall(SYS_fadvise64, fd, 0, 0, POSIX_FADV_SEQUENTIAL) == 0 && refuses(syscall(SYS_fadvise64, fd, 0, 0, 4711), EINVAL));
    CHECK(syscall(SYS_sync_file_range, fd, 0, 0, SYNC_FILE_RANGE_WRITE) == 0 && syscall(SYS_syncfs, fd) == 0 &&
          pread(fd, got, 10, 0) == 10);
    CHECK(syscall(SYS_bind, server, &address, sizeof(address)) == 0 && looks("socket") && listen(server, 1) == 0);
    CHECK(syscall(SYS_connect, client, &address, sizeof(address)) == 0);
    CHECK(syscall(SYS_getcwd, here, sizeof(here)) == (long)strlen(here) + 1 && here[0] == '/');
    CHECK(syscall(SYS_getcwd, NULL, 0) == -1 && refuses(syscall(SYS_getcwd, here, 1), ERANGE));
    close(fd);
    close(server);
    close(client);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    made();
    for (int i = 0; i < argc; i++) {
        const char *path = i ? argv[i] : "creat";
        permitted(path);
        timed(path);
        attributed(path);
        handled(path);
    }
    otherwise();
    printf("%d failures\n", failures);
    return failures != 0;
}
