/*
 * Files by a descriptor and no name, in the current folder: what is set by it stays after the bytes are flushed, and what is
 * asked by it is the buffered file. The same is right without the tiers.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/xattr.h>

#include "processes/checks.h"

static const struct timespec times[2] = {{1000, 0}, {2000, 0}};
static const struct timeval seconds[2] = {{1000, 0}, {2000, 0}};
static char name[64]; /* of the descriptor */

static int dirty(void)
{
    int fd = open("file", O_RDWR | O_CREAT | O_TRUNC, 0644);
    CHECK(fd >= 0 && write(fd, "bytes", 5) == 5);
    snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    return fd;
}

/* Flushed, all of it is as it was set. */
static void end(int fd, time_t mtime, mode_t mode, uid_t owner)
{
    struct stat st;
    CHECK(syncfs(fd) == 0 && fstat(fd, &st) == 0 && st.st_size == 5);
    CHECK(!mtime || st.st_mtime == mtime);
    CHECK((st.st_mode & 07777) == mode && st.st_uid == owner);
    CHECK(close(fd) == 0 && holds("file", "bytes") && stat("file", &st) == 0 && (!mtime || st.st_mtime == mtime));
}

static void set_times(void)
{
    uid_t me = geteuid();
    int fd = dirty(), place = open("file", O_PATH);
    CHECK(utimensat(fd, "", times, AT_EMPTY_PATH) == 0);
    end(fd, 2000, 0644, me);
    fd = dirty();
    CHECK(syscall(SYS_utimensat, fd, "", times, AT_EMPTY_PATH) == 0);
    end(fd, 2000, 0644, me);
    fd = dirty();
    CHECK(utimensat(place, "", times, AT_EMPTY_PATH) == 0);
    end(fd, 2000, 0644, me);
    fd = dirty();
    CHECK(utimensat(AT_FDCWD, name, times, 0) == 0);
    end(fd, 2000, 0644, me);
    fd = dirty();
    CHECK(futimesat(fd, NULL, seconds) == 0);
    end(fd, 2000, 0644, me);
    close(place);
}

static void set_rights(void)
{
    uid_t me = geteuid(), other = me ? me : 12;
    int fd = dirty();
    CHECK(fchownat(fd, "", other, (gid_t)-1, AT_EMPTY_PATH) == 0 && chmod(name, 04755) == 0);
    end(fd, 0, 04755, other);
    fd = dirty();
    CHECK(fchown(fd, me, (gid_t)-1) == 0 && lchmod("file", 0600) == 0);
    end(fd, 0, 0600, me);
    CHECK(chmod("file", 0644) == 0);
}

/* The kernel takes it away when bytes are written: only root may set it. */
static void set_capability(void)
{
    static const unsigned char bind_service[20] = {1, 0, 0, 2, 0, 4};
    char got[20];
    for (int by_name = 0; by_name < 2; by_name++) {
        int fd = dirty();
        int rc = by_name ? setxattr("file", "security.capability", bind_service, sizeof(bind_service), 0)
                         : fsetxattr(fd, "security.capability", bind_service, sizeof(bind_service), 0);
        end(fd, 0, 0644, geteuid());
        CHECK(rc || getxattr("file", "security.capability", got, sizeof(got)) == sizeof(got));
    }
}

/* A descriptor that only names the file, and one for reading. */
static void look_and_cut(void)
{
    struct stat st;
    struct statx x;
    int fd = dirty(), place = open("file", O_PATH);
    CHECK(fstat(place, &st) == 0 && st.st_size == 5);
    CHECK(fstatat(place, "", &st, AT_EMPTY_PATH) == 0 && st.st_size == 5);
    CHECK(statx(place, "", AT_EMPTY_PATH, STATX_SIZE, &x) == 0 && x.stx_size == 5);
    const char *volatile none = NULL; /* older kernels want an empty name */
    CHECK(statx(fd, none, AT_EMPTY_PATH, STATX_SIZE, &x) ? errno == EFAULT : x.stx_size == 5);
    CHECK(fstat(-100, &st) == -1 && errno == EBADF);
    snprintf(name, sizeof(name), "/proc/self/fd/%d", place);
    CHECK(stat(name, &st) == 0 && st.st_size == 5);
    CHECK(truncate(name, 3) == 0 && fstat(fd, &st) == 0 && st.st_size == 3 && holds("file", "byt"));
    CHECK(rename("file", "moved") == 0 && pwrite(fd, "12345678", 8, 3) == 8);
    CHECK(fstat(place, &st) == 0 && st.st_size == 11);
    close(place);
    place = open(".", O_PATH);
    CHECK(fstat(place, &st) == 0 && S_ISDIR(st.st_mode));
    close(place);
    close(fd);
}

/* Who gets it knows nothing of the tiers: by this number the bytes are the file's own. */
static int passed(int fd)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {.header = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
    struct iovec byte = {"x", 1}, got = {&(char){0}, 1};
    struct msghdr in = {.msg_iov = &got, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    struct mmsghdr out = {.msg_hdr = in};
    int pair[2], there = -1;
    out.msg_hdr.msg_iov = &byte;
    memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && sendmmsg(pair[0], &out, 1, 0) == 1 && recvmsg(pair[1], &in, 0) == 1);
    memcpy(&there, CMSG_DATA(&control.header), sizeof(there));
    close(pair[0]);
    close(pair[1]);
    return there;
}

static void pass(void)
{
    char got[8] = "";
    int fd = dirty(), there = passed(fd);
    CHECK(pread(there, got, sizeof(got), 0) == 5 && !strcmp(got, "bytes"));
    close(there);
    close(fd);
}

/* What is refused closes none. */
static void close_none(void)
{
    int fd = dirty();
    CHECK(close_range((unsigned)fd, (unsigned)fd - 1, 0) == -1 && errno == EINVAL);
    CHECK(close_range((unsigned)fd, (unsigned)fd, 1 << 20) == -1 && errno == EINVAL);
    CHECK(write(fd, "more", 4) == 4 && close(fd) == 0);
}

/* libc's own looks at the name, past the working directory's place. */
static void key(void)
{
    char path[PATH_MAX];
    struct stat st;
    int fd = dirty();
    CHECK(realpath("file", path) && fstat(fd, &st) == 0 &&
          ftok(path, 7) == (key_t)((st.st_ino & 0xffff) | (st.st_dev & 0xff) << 16 | 7u << 24));
    CHECK(close(fd) == 0 && ftok("none", 7) == -1);
}

int main(void)
{
    key();
    pass();
    close_none();
    set_times();
    set_rights();
    set_capability();
    look_and_cut();
    return failures != 0;
}
