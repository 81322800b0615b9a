/*
 * Every wrapped call by its own name, in the current folder, which is managed
 * and flushed by hand only.  What was written must be read back by each call,
 * and a raw system call must not find it: so a call that slips past the adapter
 * shows, on either side of the pair.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/aio_abi.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/io_uring.h>
#include <linux/openat2.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static int failures;
#define CHECK(condition)                                                     \
    do {                                                                     \
        if (!(condition)) {                                                  \
            printf("line %d: %s (errno %d)\n", __LINE__, #condition, errno); \
            failures++;                                                      \
        }                                                                    \
    } while (0)

#define TEXT "0123456789"
#define N 10

/* libc's function by name: what old or fortified programs call has no declaration. */
#define CALL(type, name, parameters) ((type(*) parameters)dlsym(RTLD_DEFAULT, name))

/* A system call that no library sees. */
static long raw(long number, long a, long b, long c, long d)
{
    register long fourth __asm__("r10") = d;
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth) : "rcx", "r11", "memory");
    return result;
}

/* Is the text on the PFS? */
static int is_raw(const char *path)
{
    char got[N] = "";
    long fd = raw(SYS_openat, AT_FDCWD, (long)path, O_RDONLY, 0);
    if (fd < 0)
        return 0;
    long n = raw(SYS_pread64, fd, (long)got, N, 0);
    raw(SYS_close, fd, 0, 0, 0);
    return n == N && memcmp(got, TEXT, N) == 0;
}

static int holds(const char *path, const char *text)
{
    char got[256] = "";
    int fd = open(path, O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, got, sizeof(got) - 1);
    if (fd >= 0)
        close(fd);
    return n == (ssize_t)strlen(text) && strcmp(got, text) == 0;
}

static void put(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

static void check_opened(int fd, const char *path)
{
    CHECK(fd >= 0);
    CHECK(write(fd, TEXT, N) == N);
    CHECK(!is_raw(path));
    CHECK(close(fd) == 0);
    CHECK(holds(path, TEXT));
}

/* The whole name of o1, with more in front of it that says nothing. */
static void open_roundabout(const char *front)
{
    char *whole = realpath("o1", NULL), name[4096];
    CHECK(whole && snprintf(name, sizeof(name), "%s%s", front, whole) < (int)sizeof(name));
    check_opened(open(name, O_RDWR | O_TRUNC), "o1");
    free(whole);
}

/* A name that leads out of the managed folder, wherever in it that is said: the file is the kernel's. */
static void open_beside(void)
{
    const char sixteen[] = "dddddddddddddddd";
    char *here = realpath(".", NULL), *root = realpath("../..", NULL), plain[4096], odd[4096], directory[32];
    CHECK(here && root && snprintf(plain, sizeof(plain), "%s/f", root) < (int)sizeof(plain));
    for (int n = 1; here && root && n <= 16; n++) {
        snprintf(directory, sizeof(directory), "%.*s", n, sixteen);
        CHECK(snprintf(odd, sizeof(odd), "%s/%s/../../../f", here, directory) < (int)sizeof(odd));
        CHECK(mkdir(directory, 0755) == 0);
        put(odd, TEXT);
        CHECK(is_raw(plain));
        CHECK(unlink(plain) == 0 && rmdir(directory) == 0);
    }
    free(here);
    free(root);
}

static void opens(void)
{
    int here = open(".", O_RDONLY | O_DIRECTORY), create = O_RDWR | O_CREAT | O_TRUNC;
    char name[64], suffixed[64];
    check_opened(open("o1", create, 0644), "o1");
    check_opened(open64("o2", create, 0644), "o2");
    check_opened(openat(here, "o3", create, 0644), "o3");
    check_opened(openat64(here, "o4", create, 0644), "o4");
    check_opened(creat("o5", 0644), "o5");
    check_opened(creat64("o6", 0644), "o6");
    check_opened(CALL(int, "__open_2", (const char *, int))("o1", O_RDWR | O_TRUNC), "o1");
    check_opened(CALL(int, "__open64_2", (const char *, int))("o2", O_RDWR | O_TRUNC), "o2");
    check_opened(CALL(int, "__openat_2", (int, const char *, int))(here, "o3", O_RDWR | O_TRUNC), "o3");
    check_opened(CALL(int, "__openat64_2", (int, const char *, int))(here, "o4", O_RDWR | O_TRUNC), "o4");
    check_opened(open("./x/..//o7", create, 0644), "o7");
    open_roundabout("/");
    open_roundabout("/.");
    open_beside();
    check_opened(mkstemp(strcpy(name, "oXXXXXX")), name);
    check_opened(mkostemp(strcpy(name, "oXXXXXX"), O_APPEND), name);
    check_opened(mkstemps(strcpy(suffixed, "oXXXXXX.txt"), 4), suffixed);
    CHECK(strcmp(suffixed + 7, ".txt") == 0);
    CHECK(mkstemp(strcpy(name, "no-pattern")) < 0 && errno == EINVAL);
    CHECK(mkdtemp(strcpy(name, "dXXXXXX")) && rmdir(name) == 0);
    CHECK(open("o1", create | O_EXCL, 0644) < 0 && errno == EEXIST);
    CHECK(open("absent", O_RDONLY) < 0 && errno == ENOENT);
    close(here);
}

static void data(void)
{
    char a[4], b[20], *got = b;
    struct iovec v[2] = {{a, 4}, {b, 6}}, w[2] = {{"01234", 5}, {"56789", 5}};
    int fd = open("data", O_RDWR | O_CREAT, 0644);
    CHECK(writev(fd, w, 2) == N && !is_raw("data"));
    CHECK(lseek(fd, 2, SEEK_SET) == 2 && read(fd, got, 3) == 3 && !memcmp(got, "234", 3));
    CHECK(lseek64(fd, -1, SEEK_CUR) == 4 && CALL(ssize_t, "__read_chk", (int, void *, size_t, size_t))(fd, got, 2, 20) == 2);
    CHECK(pread(fd, got, 20, 5) == 5 && !memcmp(got, "56789", 5) && pread64(fd, got, 20, N) == 0);
    CHECK(CALL(ssize_t, "__pread_chk", (int, void *, size_t, off_t, size_t))(fd, got, 3, 1, 20) == 3 && *got == '1');
    CHECK(CALL(ssize_t, "__pread64_chk", (int, void *, size_t, off_t, size_t))(fd, got, 3, 2, 20) == 3 && *got == '2');
    CHECK(pwrite(fd, "AB", 2, 0) == 2 && pwrite64(fd, "YZ", 2, 8) == 2);
    CHECK(lseek(fd, 0, SEEK_SET) == 0 && readv(fd, v, 2) == N && !memcmp(a, "AB23", 4) && !memcmp(b, "4567YZ", 6));
    CHECK(preadv(fd, v, 2, 1) == 9 && *a == 'B' && preadv64(fd, v, 1, 2) == 4 && *a == '2');
    CHECK(preadv2(fd, v, 1, 0, 0) == 4 && *a == 'A' && preadv2(fd, v, 2, -1, 0) == 0 && preadv64v2(fd, v, 1, 1, RWF_HIPRI) == 4);
    CHECK(pwritev(fd, w, 2, 0) == N && pwritev64(fd, w, 1, 5) == 5 && pwritev2(fd, w, 2, 0, 0) == N && pwritev64v2(fd, w, 2, 0, 0) == N);
    CHECK(!is_raw("data"));
    CHECK(pread(fd, got, 1, -1) == -1 && errno == EINVAL && preadv(fd, v, 1, -1) == -1 && errno == EINVAL);
    CHECK(ftruncate(fd, 5) == 0 && lseek(fd, 0, SEEK_END) == 5 && ftruncate64(fd, 7) == 0);
    CHECK(pread(fd, got, 20, 0) == 7 && !memcmp(got, "01234\0", 7));
    CHECK(truncate("data", 3) == 0 && truncate64("data", 2) == 0 && lseek(fd, 0, SEEK_END) == 2);
    for (int advice = POSIX_FADV_NORMAL; advice <= POSIX_FADV_NOREUSE; advice++)
        CHECK(posix_fadvise(fd, 0, 0, advice) == 0 && posix_fadvise64(fd, 10, 10, advice) == 0);
    CHECK(posix_fadvise(fd, 0, 0, 4711) == EINVAL);
    CHECK(posix_fallocate(fd, 0, 100) == 0 && lseek(fd, 0, SEEK_END) == 100 && posix_fallocate64(fd, 0, 50) == 0);
    CHECK(pread(fd, got, 3, 0) == 3 && !memcmp(got, "01\0", 3));
    CHECK(ftruncate(fd, 0) == 0 && pwrite(fd, TEXT, N, 0) == N && !is_raw("data"));
    CHECK(pwritev2(fd, w, 1, 0, RWF_APPEND) == 5 && lseek(fd, 0, SEEK_END) == 15 && pread(fd, got, 20, 8) == 7 &&
          !memcmp(got, "8901234", 7));
    CHECK(ftruncate(fd, 100) == 0);
    close(fd);
    fd = open("data", O_WRONLY | O_APPEND);
    CHECK(write(fd, "end", 3) == 3 && lseek(fd, 0, SEEK_CUR) == 103 && read(fd, got, 1) == -1 && errno == EBADF);
    close(fd);
}

/* The same by names that only libraries and old programs know. */
static void by_other_names(void)
{
    char got[20] = "";
    int fd = CALL(int, "__open64", (const char *, int, ...))("old", O_RDWR | O_CREAT, 0644), rest = 0;
    CHECK(fd >= 0 && CALL(ssize_t, "__write", (int, const void *, size_t))(fd, "01234", 5) == 5);
    CHECK(CALL(off_t, "__lseek", (int, off_t, int))(fd, 0, SEEK_CUR) == 5 &&
          CALL(ssize_t, "__pwrite64", (int, const void *, size_t, off64_t))(fd, "56", 2, 5) == 2);
    CHECK(lseek(fd, 0, SEEK_END) == 7 && dprintf(fd, "%d", 7) == 1 &&
          CALL(int, "__dprintf_chk", (int, int, const char *, ...))(fd, 1, "%s", "89") == 2);
    CHECK(!is_raw("old") && holds("old", TEXT) && lseek(fd, 4, SEEK_SET) == 4 && ioctl(fd, FIONREAD, &rest) == 0 && rest == 6);
    CHECK(CALL(ssize_t, "__pread64", (int, void *, size_t, off64_t))(fd, got, 3, 7) == 3 && !memcmp(got, "789", 3));
    CHECK(CALL(ssize_t, "__read", (int, void *, size_t))(fd, got, 20) == 6 && CALL(int, "__fcntl", (int, int, ...))(fd, F_GETFD) == 0);
    CHECK(!is_raw("old") && CALL(int, "__close", (int))(fd) == 0);
    fd = CALL(int, "__open", (const char *, int, ...))("old", O_RDONLY);
    struct fiemap map = {.fm_length = N};
    CHECK(ioctl(fd, FS_IOC_FIEMAP, &map) == 0 || errno == EOPNOTSUPP);
    CHECK(is_raw("old")); /* a call that asks for the file's extents finds its bytes in the file */
    close(fd);
}

static void syncs(void)
{
    put("s1", TEXT);
    CHECK(!is_raw("s1"));
    int fd = open("s1", O_RDWR);
    CHECK(fsync(fd) == 0 && fdatasync(fd) == 0 && sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE) == 0 && syncfs(fd) == 0);
    close(fd);
}

/* By syncfs or sync the bytes are on the PFS, except where scratch promises that they never are. */
static void synced(int scratch)
{
    put("s2", TEXT);
    CHECK(!is_raw("s2"));
    sync();
    CHECK(is_raw("s2") == !scratch);
}

static void stats(void)
{
    struct stat st;
    struct stat64 st64;
    struct statx x;
    put("t", TEXT);
    int fd = open("t", O_RDONLY), here = open(".", O_RDONLY | O_DIRECTORY);
#define SIZED(call, size) CHECK((call) == 0 && (size) == N)
    SIZED(stat("t", &st), st.st_size);
    SIZED(lstat("t", &st), st.st_size);
    SIZED(fstat(fd, &st), st.st_size);
    SIZED(fstatat(here, "t", &st, 0), st.st_size);
    SIZED(fstatat(fd, "", &st, AT_EMPTY_PATH), st.st_size);
    SIZED(stat64("t", &st64), st64.st_size);
    SIZED(lstat64("t", &st64), st64.st_size);
    SIZED(fstat64(fd, &st64), st64.st_size);
    SIZED(fstatat64(here, "t", &st64, 0), st64.st_size);
    SIZED(CALL(int, "__xstat", (int, const char *, struct stat *))(1, "t", &st), st.st_size);
    SIZED(CALL(int, "__lxstat64", (int, const char *, struct stat64 *))(1, "t", &st64), st64.st_size);
    SIZED(CALL(int, "__fxstat", (int, int, struct stat *))(1, fd, &st), st.st_size);
    SIZED(CALL(int, "__fxstatat64", (int, int, const char *, struct stat64 *, int))(1, here, "t", &st64, 0), st64.st_size);
    CHECK(statx(here, "t", 0, STATX_SIZE, &x) == 0 && x.stx_size == N);
    CHECK(statx(fd, "", AT_EMPTY_PATH, STATX_SIZE, &x) == 0 && x.stx_size == N);
    CHECK(access("t", R_OK) == 0 && euidaccess("t", R_OK) == 0 && eaccess("t", R_OK) == 0 && faccessat(here, "t", R_OK, 0) == 0);
    CHECK(access("absent", F_OK) == -1 && errno == ENOENT);
    close(fd);
    close(here);
}

static void names(void)
{
    char text[300];
    struct dirent **list;
    int here = open(".", O_RDONLY | O_DIRECTORY);
    put("n1", TEXT);
    CHECK(rename("n1", "n2") == 0 && holds("n2", TEXT) && access("n1", F_OK) == -1);
    CHECK(renameat(here, "n2", here, "n3") == 0 && renameat2(here, "n3", here, "n4", RENAME_NOREPLACE) == 0 && holds("n4", TEXT));
    put("n5", "other");
    CHECK(renameat2(here, "n4", here, "n5", RENAME_EXCHANGE) == 0 && holds("n5", TEXT) && holds("n4", "other"));
    CHECK(rename("n5", "n4") == 0 && holds("n4", TEXT));
    CHECK(link("n4", "l1") == 0 && linkat(here, "l1", here, "l2", 0) == 0 && unlink("n4") == 0 && holds("l2", TEXT));
    CHECK(symlink("l2", "sy") == 0 && holds("sy", TEXT) && readlink("sy", text, sizeof(text)) == 2 && readlinkat(here, "sy", text, 9) == 2);
    CHECK(unlinkat(here, "sy", 0) == 0 && holds("l2", TEXT) && remove("l1") == 0);
    CHECK(mkdir("dir", 0755) == 0 && mkdirat(here, "dir/sub", 0755) == 0);
    put("dir/sub/f", TEXT);
    CHECK(rename("dir", "moved") == 0 && holds("moved/sub/f", TEXT) && !is_raw("moved/sub/f"));
    CHECK(scandir("moved", &list, NULL, alphasort) == 3 && strcmp(list[2]->d_name, "sub") == 0);
    DIR *d = opendir("moved/sub");
    int found = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        found += strcmp(e->d_name, "f") == 0;
    CHECK(found == 1 && closedir(d) == 0);
    CHECK(rmdir("moved") == -1 && errno == ENOTEMPTY && unlink("moved/sub/f") == 0 && remove("moved/sub") == 0 && rmdir("moved") == 0);
    CHECK(chmod("l2", 0400) == 0 && holds("l2", TEXT) && chmod("l2", 0644) == 0);
    put("utime", TEXT);
    struct timespec times[2] = {{11, 0}, {12, 0}};
    struct stat st;
    CHECK(utimensat(here, "utime", times, 0) == 0);
    sync();
    CHECK(stat("utime", &st) == 0 && st.st_mtime == 12);
    close(here);
}

/* What a name leads to is not what loses it: the target of a symlink that is replaced, renamed or removed keeps its bytes. */
static void links(void)
{
    put("target", TEXT);
    put("other", "other");
    CHECK(symlink("target", "link") == 0 && rename("other", "link") == 0);
    CHECK(!is_raw("target") && holds("target", TEXT) && holds("link", "other"));
    CHECK(unlink("link") == 0 && symlink("target", "link") == 0 && rename("link", "moved-link") == 0);
    CHECK(unlink("moved-link") == 0 && holds("target", TEXT) && unlink("target") == 0 && access("target", F_OK) < 0);
}

/* A relative name starts at the directory that is the working one now. */
static void relative(void)
{
    char before[PATH_MAX], now[PATH_MAX];
    CHECK(getcwd(before, sizeof(before)) != NULL && mkdir("one", 0755) == 0 && mkdir("two", 0755) == 0);
    put("one/f", "one");
    put("two/f", "two");
    CHECK(chdir("one") == 0 && holds("f", "one") && chdir("../two") == 0 && holds("f", "two"));
    CHECK(rename("../two", "../three") == 0 && holds("f", "two") && holds("../three/f", "two"));
    put("g", TEXT);
    snprintf(now, sizeof(now), "%.4000s/three/g", before);
    CHECK(holds(now, TEXT) && chdir(before) == 0 && holds("one/f", "one"));
}

static void descriptors(void)
{
    char got[20];
    int fd = open("d", O_RDWR | O_CREAT, 0644), a = dup(fd), b = fcntl(fd, F_DUPFD, 50),
        c = CALL(int, "fcntl64", (int, int, ...))(fd, F_DUPFD_CLOEXEC, 60);
    CHECK(b >= 50 && c >= 60 && dup2(fd, 70) == 70 && dup3(fd, 71, O_CLOEXEC) == 71);
    close(fd);
    CHECK(write(a, "01", 2) == 2 && write(b, "23", 2) == 2 && write(c, "45", 2) == 2 && write(70, "67", 2) == 2 && write(71, "89", 2) == 2);
    CHECK(!is_raw("d") && pread(a, got, 20, 0) == N && !memcmp(got, TEXT, N));
    CHECK(fcntl(a, F_SETFL, O_APPEND) == 0 && lseek(a, 0, SEEK_SET) == 0 && write(a, "+", 1) == 1 && holds("d", TEXT "+"));
    int other = open("other", O_RDWR | O_CREAT, 0644);
    CHECK(dup2(other, a) == a && write(a, "x", 1) == 1 && holds("d", TEXT "+") && holds("other", "x"));
    close(other);
    CHECK(close_range(50, 71, 0) == 0 && write(b, "x", 1) == -1 && errno == EBADF);
    close(a);
}

/* The program that gets it knows nothing of the engine. */
static void send_descriptor(int fd)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {.header = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
    struct iovec byte = {"x", 1};
    struct msghdr message = {.msg_iov = &byte, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    int pair[2];
    memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && sendmsg(pair[0], &message, 0) == 1);
    close(pair[0]);
    close(pair[1]);
    close(fd);
}

static void kernel(void)
{
    char got[40] = "";
    int p[2], in, out;
    put("k", TEXT);
    in = open("k", O_RDWR), out = open("k2", O_RDWR | O_CREAT, 0644);
    off_t from = 2;
    CHECK(sendfile(out, in, &from, 4) == 4 && from == 6 && sendfile(out, in, NULL, 3) == 3 && holds("k2", "2345012"));
    CHECK(syscall(SYS_copy_file_range, in, NULL, out, NULL, 3, 0) == 3 && copy_file_range(in, NULL, out, NULL, 100, 0) == 4 &&
          holds("k2", "23450123456789"));
    CHECK(pipe(p) == 0 && splice(in, &(off64_t){4}, p[1], NULL, 3, 0) == 3 && read(p[0], got, 3) == 3 && !memcmp(got, "456", 3));
    put("m", TEXT);
    int fd = open("m", O_RDWR);
    char *m = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    CHECK(m != MAP_FAILED && !memcmp(m, TEXT, N));
    m[0] = '#';
    CHECK(holds("m", "#123456789"));
    fd = open("m", O_WRONLY);
    CHECK(pwrite(fd, "@", 1, 1) == 1 && m[1] == '@'); /* the mapping keeps the file coherent after its descriptor is closed */
    close(fd);
    CHECK(munmap(m, 4096) == 0 && holds("m", "#@23456789"));
    for (int i = 0; i < 2; i++)
        close(p[i]);
    close(in);
    close(out);
    put("sent", TEXT);
    CHECK(!is_raw("sent"));
    send_descriptor(open("sent", O_RDONLY));
    CHECK(is_raw("sent"));
}

static void run(const char *name)
{
    char *argv[] = {"sh", "-c", "cat; echo child", NULL};
    extern char **environ;
    posix_spawn_file_actions_t actions;
    pid_t pid;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "spawned", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    CHECK(posix_spawnp(&pid, "sh", &actions, NULL, argv, environ) == 0 && waitpid(pid, NULL, 0) == pid);
    posix_spawn_file_actions_destroy(&actions);
}

static void processes(void)
{
    char got[40] = "";
    put("spawned", TEXT "\n");
    run("by-spawn");
    CHECK(holds("by-spawn", TEXT "\nchild\n"));
    int fd = open("inherited", O_RDWR | O_CREAT, 0644);
    CHECK(write(fd, "parent ", 7) == 7);
    pid_t pid = vfork();
    if (pid == 0) {
        dup2(fd, 1);
        close(fd);
        execlp("sh", "sh", "-c", "printf child", (char *)NULL);
        _exit(1);
    }
    waitpid(pid, NULL, 0);
    CHECK(write(fd, " parent", 7) == 7);
    close(fd);
    CHECK(holds("inherited", "parent child parent"));
    char *argv[] = {"sh", "-c", "printf child", NULL};
    extern char **environ;
    posix_spawn_file_actions_t actions;
    fd = open("handed", O_RDWR | O_CREAT | O_CLOEXEC, 0644); /* close-on-exec: the child has the copy alone */
    CHECK(write(fd, "parent ", 7) == 7);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fd, 1);
    CHECK(posix_spawnp(&pid, "sh", &actions, NULL, argv, environ) == 0 && waitpid(pid, NULL, 0) == pid);
    posix_spawn_file_actions_destroy(&actions);
    CHECK(write(fd, " parent", 7) == 7);
    close(fd);
    CHECK(holds("handed", "parent child parent"));
    int ready[2], go[2]; /* a child keeps an inherited descriptor for longer: another open of the file does not disturb it */
    char *slow[] = {"sh", "-c", "printf . >&4; read word <&3; printf child", NULL};
    CHECK(pipe(ready) == 0 && pipe(go) == 0);
    fd = open("log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    CHECK(write(fd, "parent ", 7) == 7);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fd, 1);
    posix_spawn_file_actions_adddup2(&actions, ready[1], 20);
    posix_spawn_file_actions_adddup2(&actions, go[0], 3);
    posix_spawn_file_actions_adddup2(&actions, 20, 4);
    CHECK(posix_spawnp(&pid, "sh", &actions, NULL, slow, environ) == 0);
    posix_spawn_file_actions_destroy(&actions);
    close(fd);
    CHECK(read(ready[0], got, 1) == 1);
    fd = open("log", O_WRONLY | O_APPEND);
    CHECK(write(fd, "again ", 6) == 6 && write(go[1], "\n", 1) == 1 && waitpid(pid, NULL, 0) == pid);
    close(fd);
    CHECK(holds("log", "parent again child"));
    for (int i = 0; i < 2; i++) {
        close(ready[i]);
        close(go[i]);
    }
    put("script", "#!/bin/sh\necho \"$1\"\n");
    CHECK(chmod("script", 0755) == 0);
    FILE *f = popen("./script word", "r");
    CHECK(fgets(got, sizeof(got), f) && !strcmp(got, "word\n") && pclose(f) == 0);
    CHECK(system("test \"$(cat spawned)\" = " TEXT) == 0);
}

/* The same calls by number, which some programs and language runtimes prefer. */
static void by_number(void)
{
    char got[N + 1] = "";
    struct stat st;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, "number", O_RDWR | O_CREAT, 0644);
    CHECK(fd >= 0 && syscall(SYS_write, fd, TEXT, N) == N && !is_raw("number"));
    CHECK(syscall(SYS_lseek, fd, 3, SEEK_SET) == 3 && syscall(SYS_read, fd, got, 4) == 4 && !strcmp(got, "3456"));
    CHECK(syscall(SYS_pwrite64, fd, "X", 1, 9) == 1 && syscall(SYS_pread64, fd, got, 2, 8) == 2 && got[1] == 'X');
    CHECK(syscall(SYS_fstat, fd, &st) == 0 && st.st_size == N && syscall(SYS_ftruncate, fd, 5) == 0);
    CHECK(syscall(SYS_newfstatat, AT_FDCWD, "number", &st, 0) == 0 && st.st_size == 5);
    CHECK(syscall(SYS_close, fd) == 0 && holds("number", "01234"));
    struct open_how how = {.flags = O_RDONLY}, beneath = {.flags = O_RDONLY, .resolve = RESOLVE_BENEATH};
    for (int i = 0; i < 2; i++) {
        fd = (int)syscall(SYS_openat2, AT_FDCWD, "number", i ? &beneath : &how, sizeof(how));
        memset(got, 0, sizeof(got));
        CHECK(fd >= 0 && read(fd, got, N) == 5 && !strcmp(got, "01234"));
        close(fd);
    }
    CHECK(syscall(SYS_unlink, "number") == 0 && access("number", F_OK) < 0);
}

/* What is submitted to the kernel finds the bytes, by the number and by libaio's and liburing's names where they are loaded. */
static void asynchronous(void)
{
    aio_context_t context = 0;
    char got[N] = "";
    int fd = open("queued", O_RDWR | O_CREAT, 0644);
    struct iocb read_it = {.aio_fildes = (unsigned)fd, .aio_lio_opcode = IOCB_CMD_PREAD, .aio_buf = (unsigned long)got, .aio_nbytes = N};
    struct iocb *list[] = {&read_it};
    struct io_event event;
    CHECK(write(fd, TEXT, N) == N && !is_raw("queued"));
    CHECK(syscall(SYS_io_setup, 1, &context) == 0 && syscall(SYS_io_submit, context, 1, list) == 1);
    CHECK(syscall(SYS_io_getevents, context, 1, 1, &event, NULL) == 1 && event.res == N && !memcmp(got, TEXT, N));
    close(fd);
    int named = open("named", O_RDWR | O_CREAT, 0644);
    read_it.aio_fildes = (unsigned)named;
    CHECK(write(named, TEXT, N) == N && !is_raw("named"));
    CHECK(CALL(int, "io_submit", (aio_context_t, long, struct iocb **))(context, 1, list) == 1);
    CHECK(syscall(SYS_io_getevents, context, 1, 1, &event, NULL) == 1 && event.res == N && is_raw("named"));
    syscall(SYS_io_destroy, context);
    close(named);

    struct io_uring_params params = {0};
    fd = open("ring", O_RDWR | O_CREAT, 0644);
    CHECK(write(fd, TEXT, N) == N && !is_raw("ring"));
    int ring = (int)syscall(SYS_io_uring_setup, 4, &params), later = open("later", O_RDWR | O_CREAT, 0644);
    CHECK(ring >= 0 || errno == ENOSYS || errno == EPERM); /* containers refuse it; the files are coherent all the same */
    CHECK(is_raw("ring") && write(later, TEXT, N) == N && is_raw("later"));
    close(ring);
    close(fd);
    close(later);
}

static void by_liburing(void)
{
    static char room[4096];
    int (*init)(unsigned, void *, unsigned) = CALL(int, "io_uring_queue_init", (unsigned, void *, unsigned));
    int fd = open("liburing", O_RDWR | O_CREAT, 0644);
    CHECK(write(fd, TEXT, N) == N && !is_raw("liburing"));
    int rc = init(4, room, 0);
    CHECK(rc == 0 || rc == -ENOSYS || rc == -EPERM);
    CHECK(rc == -ENOSYS || is_raw("liburing"));
    close(fd);
}

/* In a child each: a ring changes all that its process does later. */
static void in_child(void (*act)(void))
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        failures = 0;
        act();
        _exit(failures != 0);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

/* As daemons do, and shells in their way: the engine's own descriptors stay. */
static void closed_all(void)
{
    int fd = open("before", O_RDWR | O_CREAT, 0644);
    CHECK(write(fd, TEXT, N) == N);
    for (int i = 3; i < 2000; i++)
        close(i);
    CHECK(holds("before", TEXT));
    CHECK(dup2(1, 600) < 0 || close(600) == 0);
    CALL(void, "closefrom", (int))(3);
    put("after", TEXT);
    fd = open("after", O_RDWR);
    static char many[20 << 20];
    memset(many, 'x', sizeof(many));
    CHECK(write(fd, many, sizeof(many)) == sizeof(many) && fsync(fd) == 0); /* more than memory holds */
    CHECK(pread(fd, many, 10, 19 << 20) == 10 && !memcmp(many, "xxxxxxxxxx", 10));
    close(fd);
    CHECK(unlink("after") == 0);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    mkdir("x", 0755);
    opens();
    data();
    by_other_names();
    syncs();
    synced(argc > 1 && strcmp(argv[1], "scratch") == 0);
    stats();
    names();
    links();
    relative();
    descriptors();
    kernel();
    processes();
    by_number();
    in_child(asynchronous);
    if (CALL(void *, "io_uring_queue_init", (void)))
        in_child(by_liburing);
    in_child(closed_all);
    errno = 77;
    put("errno", TEXT);
    CHECK(errno == 77);
    printf("%d failures\n", failures);
    return failures != 0;
}
