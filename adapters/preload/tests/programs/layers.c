/*
 * The calls by name of a program, an operation of the chain at a time: each must be seen by its layers. Prints a line a call
 * that did not answer what the operation was made to answer.
 *   layers OPERATION ERROR     in the current folder; ERROR: what its calls must fail with, 0: they must succeed; "all": all operations
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

static const struct timespec times[2] = {{.tv_sec = 1}, {.tv_sec = 2}};
static const struct timeval micros[2] = {{.tv_sec = 3}, {.tv_sec = 4}};
static char text[4096];

static int open_it(void)
{
    int fd = open("f", O_RDWR);
    return fd < 0 ? -1 : close(fd);
}

static int stat_x(void)
{
    struct statx x;
    return statx(AT_FDCWD, "f", 0, STATX_BASIC_STATS, &x);
}

static int list(void)
{
    DIR *directory = opendir(".");
    return directory ? closedir(directory) : -1;
}

static int real_path(void)
{
    return realpath("link", text) ? 0 : -1;
}

static int watch(void)
{
    int fd = inotify_init1(IN_CLOEXEC);
    int number = inotify_add_watch(fd, "f", IN_DELETE_SELF), error = errno;
    close(fd);
    errno = error;
    return number < 0 ? -1 : 0;
}

/* -1 without an error. */
static int no_limit(void)
{
    long limit = pathconf("f", _PC_SYMLINK_MAX);
    return limit != -1 ? errno = ERANGE, -1 : -1;
}

/* Not every file system has them. */
static int of_attributes(ssize_t rc)
{
    return rc < 0 && errno != ENOTSUP ? -1 : 0;
}

static struct stat st;
static struct statfs system_of_files;
static struct statvfs the_same;
/* In an order in which each finds what it needs, and leaves the folder as it was. */
#define CALLS(DO)                                                       \
    DO("open", open_it())                                               \
    DO("stat", stat("f", &st))                                          \
    DO("stat", lstat("f", &st))                                         \
    DO("statx", stat_x())                                               \
    DO("access", access("f", R_OK))                                     \
    DO("access", eaccess("f", R_OK))                                    \
    DO("access", faccessat(AT_FDCWD, "f", R_OK, AT_EACCESS))            \
    DO("truncate", truncate("f", 3))                                    \
    DO("chmod", chmod("f", 0640))                                       \
    DO("chmod", fchmodat(AT_FDCWD, "f", 0640, 0))                       \
    DO("chown", chown("f", getuid(), getgid()))                         \
    DO("chown", lchown("f", getuid(), getgid()))                        \
    DO("chown", fchownat(AT_FDCWD, "f", getuid(), getgid(), 0))         \
    DO("utimens", utimensat(AT_FDCWD, "f", times, 0))                   \
    DO("utimens", utimes("f", micros))                                  \
    DO("utimens", lutimes("f", micros))                                 \
    DO("utimens", futimesat(AT_FDCWD, "f", micros))                     \
    DO("utimens", utime("f", &(struct utimbuf){5, 6}))                  \
    DO("statfs", statfs("f", &system_of_files))                         \
    DO("statvfs", statvfs("f", &the_same))                              \
    DO("pathconf", pathconf("f", _PC_NAME_MAX) < 1 ? -1 : 0)            \
    DO("pathconf", no_limit())                                          \
    DO("setxattr", of_attributes(setxattr("f", "user.a", "1", 1, 0)))   \
    DO("setxattr", of_attributes(lsetxattr("f", "user.b", "2", 1, 0)))  \
    DO("getxattr", of_attributes(getxattr("f", "user.a", text, 1)))     \
    DO("getxattr", of_attributes(lgetxattr("f", "user.b", text, 1)))    \
    DO("listxattr", of_attributes(listxattr("f", text, sizeof(text))))  \
    DO("listxattr", of_attributes(llistxattr("f", text, sizeof(text)))) \
    DO("removexattr", of_attributes(removexattr("f", "user.a")))        \
    DO("removexattr", of_attributes(lremovexattr("f", "user.b")))       \
    DO("watch", watch())                                                \
    DO("symlink", symlink("f", "link"))                                 \
    DO("readlink", readlink("link", text, sizeof(text)) == 1 ? 0 : -1)  \
    DO("realpath", real_path())                                         \
    DO("link", link("f", "second"))                                     \
    DO("rename", rename("second", "third"))                             \
    DO("mkdir", mkdir("d", 0700))                                       \
    DO("opendir", list())                                               \
    DO("mknod", mkfifo("pipe", 0600))                                   \
    DO("mknod", mknod("other", S_IFIFO | 0600, 0))                      \
    DO("unlink", unlink("third"))                                       \
    DO("unlink", rmdir("d"))                                            \
    DO("unlink", unlink("pipe") | unlink("other") | unlink("link"))

int main(int argc, char **argv)
{
    if (argc != 3)
        return fprintf(stderr, "usage: %s OPERATION ERROR\n", argv[0]), 2;
    const char *operation = argv[1];
    int error = atoi(argv[2]), calls = 0, wrong = 0;
#define RUN(name, call)                                                                                                     \
    if (strcmp(operation, "all") == 0 || strcmp(operation, name) == 0) {                                                    \
        errno = 0;                                                                                                          \
        int rc = (call) ? errno : 0;                                                                                        \
        calls++;                                                                                                            \
        if (rc != error && ++wrong)                                                                                         \
            printf("%s: %s: %s, expected %s\n", name, #call, rc ? strerror(rc) : "done", error ? strerror(error) : "done"); \
    }
    CALLS(RUN)
    printf("%s: %d calls, %d wrong\n", operation, calls, wrong);
    return wrong || !calls;
}
