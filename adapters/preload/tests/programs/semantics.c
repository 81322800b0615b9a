/*
 * What a file system must do, printed: the same outside and under the adapter, in the current folder.
 * Times, inode numbers and the like are not printed, so two runs can be compared line by line.
 */
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define SAY(what) say(#what, (long)(what))

static void say(const char *what, long result)
{
    if (result < 0)
        printf("%s: %s\n", what, strerror(errno));
    else
        printf("%s: %ld\n", what, result);
}

/* Size, links and a sum of the bytes. */
static void show(const char *name)
{
    static unsigned char bytes[1 << 16];
    struct stat st;
    unsigned long sum = 5381;
    int fd = open(name, O_RDONLY);
    if (fd < 0 || fstat(fd, &st)) {
        say(name, -1);
        return;
    }
    for (ssize_t n; (n = read(fd, bytes, sizeof(bytes))) > 0;)
        for (ssize_t i = 0; i < n; i++)
            sum = sum * 33 + bytes[i];
    close(fd);
    printf("%s: %lld bytes, %d links, sum %lx\n", name, (long long)st.st_size, (int)st.st_nlink, sum);
}

static void show_size(int fd)
{
    struct stat st;
    SAY(fstat(fd, &st));
    printf("%lld bytes\n", (long long)st.st_size);
}

static void put(int fd, char what, size_t n, off_t at)
{
    char bytes[1 << 15];
    memset(bytes, what, n);
    if (pwrite(fd, bytes, n, at) != (ssize_t)n)
        say("pwrite", -1);
}

/* In a child, which sees files as another process does. */
static void child(void (*act)(int), int fd)
{
    int status;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        act(fd);
        fflush(stdout);
        _exit(0);
    }
    waitpid(pid, &status, 0);
    SAY(status);
}

static void holes(void)
{
    char got[10];
    int fd = open("sparse", O_RDWR | O_CREAT, 0644);
    put(fd, 'a', 5000, 0);
    put(fd, 'b', 100, 1 << 20);
    SAY(lseek(fd, 0, SEEK_DATA));
    SAY(lseek(fd, 0, SEEK_HOLE));
    SAY(lseek(fd, 8192, SEEK_DATA));
    SAY(lseek(fd, 1 << 20, SEEK_HOLE));
    SAY(lseek(fd, 2 << 20, SEEK_DATA));
    SAY(pread(fd, got, 10, 6000));
    printf("a hole reads %d\n", got[3]);
    SAY(ftruncate(fd, 3000));
    SAY(ftruncate(fd, 70000));
    SAY(pread(fd, got, 10, 2995));
    printf("cut and grown: %d %d\n", got[4], got[5]);
    show("sparse");
    close(fd);
}

static void space(void)
{
    static const struct {
        const char *name;
        int mode;
    } modes[] = {{"allocate", 0},
                 {"keep size", FALLOC_FL_KEEP_SIZE},
                 {"punch", FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE},
                 {"zero", FALLOC_FL_ZERO_RANGE},
                 {"collapse", FALLOC_FL_COLLAPSE_RANGE},
                 {"insert", FALLOC_FL_INSERT_RANGE}};
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        int fd = open("space", O_RDWR | O_CREAT | O_TRUNC, 0644);
        put(fd, 'c', 32768, 0);
        say(modes[i].name, fallocate(fd, modes[i].mode, 4096, i < 2 ? 65536 : 8192));
        put(fd, 'd', 10, 4090);
        show("space");
        close(fd);
    }
}

static void direct(void)
{
    char *bytes = aligned_alloc(4096, 8192);
    int fd = open("direct", O_RDWR | O_CREAT | O_DIRECT, 0644), plain = open("direct", O_RDWR);
    if (fd < 0)
        return;
    memset(bytes, 'e', 8192);
    SAY(pwrite(fd, bytes, 8192, 0));
    put(plain, 'f', 100, 50);
    SAY(pread(fd, bytes, 4096, 0));
    printf("direct: %c %c\n", bytes[49], bytes[50]);
    SAY(ftruncate(fd, 5000));
    SAY(pread(fd, bytes, 8192, 4096));
    memset(bytes, 'g', 8192);
    SAY(fcntl(plain, F_SETFL, O_DIRECT));
    SAY(pwrite(plain, bytes, 4096, 4096));
    close(fd);
    close(plain);
    show("direct");
    free(bytes);
}

static void try_locks(int fd)
{
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET}, tail = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 100};
    int again = open("locked", O_RDWR);
    (void)fd;
    SAY(fcntl(again, F_SETLK, &all));
    SAY(fcntl(again, F_SETLK, &tail));
    SAY(fcntl(again, F_OFD_SETLK, &(struct flock){.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 50, .l_len = 1}));
    SAY(flock(again, LOCK_EX | LOCK_NB));
    close(again);
}

static void locks(void)
{
    int fd = open("locked", O_RDWR | O_CREAT, 0644), other = open("locked", O_RDWR);
    struct flock head = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 100};
    put(fd, 'g', 200, 0);
    SAY(fcntl(fd, F_SETLK, &head));
    SAY(flock(fd, LOCK_SH | LOCK_NB));
    child(try_locks, fd);
    SAY(flock(other, LOCK_EX | LOCK_NB));
    close(other); /* lets the process's own locks go */
    SAY(fcntl(fd, F_OFD_SETLK, &head));
    SAY(flock(fd, LOCK_UN));
    child(try_locks, fd);
    close(fd);
}

static void write_on(int fd)
{
    SAY(write(fd, "child", 5));
    SAY(lseek(fd, 0, SEEK_CUR));
}

static void sharing(void)
{
    int fd = open("shared", O_RDWR | O_CREAT, 0644), appends = open("shared", O_WRONLY | O_APPEND),
        also = open("shared", O_WRONLY | O_APPEND);
    SAY(write(fd, "parent", 6));
    child(write_on, fd);
    SAY(lseek(fd, 0, SEEK_CUR));
    SAY(write(appends, "one", 3));
    SAY(write(also, "two", 3));
    SAY(write(appends, "three", 5));
    SAY(pwritev2(fd, &(struct iovec){"four", 4}, 1, 0, RWF_APPEND));
    SAY(pwritev2(fd, &(struct iovec){"FIVE", 4}, 1, 0, RWF_DSYNC));
    close(appends);
    close(also);
    close(fd);
    show("shared");
}

static void names(void)
{
    char got[10] = "";
    int fd = open("open", O_RDWR | O_CREAT | O_EXCL, 0644);
    SAY(open("open", O_RDWR | O_CREAT | O_EXCL, 0644));
    put(fd, 'h', 5000, 0);
    SAY(link("open", "linked"));
    SAY(unlink("open"));
    put(fd, 'i', 10, 4995);
    show("linked");
    SAY(rename("shared", "linked"));
    SAY(pread(fd, got, 5, 4995));
    printf("replaced while open: %s\n", got);
    put(fd, 'j', 10, 0);
    struct stat st;
    SAY(fstat(fd, &st));
    printf("%d links, %lld bytes\n", (int)st.st_nlink, (long long)st.st_size);
    close(fd);
    show("linked");
    SAY(unlink("linked"));
    show("linked");
    close(open("file", O_RDWR | O_CREAT, 0644));
    SAY(link("missing", "file/x"));
    SAY(link("missing", "file"));
    SAY(link("file", "file/x"));
}

static void cut_second(int fd)
{
    SAY(truncate("second", 5));
    show_size(fd);
    show("second");
}

static void hold_first(int fd)
{
    fd = open("first", O_RDWR | O_CREAT, 0644);
    put(fd, 'o', 10, 0);
    SAY(link("first", "second"));
    SAY(unlink("first"));
    child(cut_second, fd);
    show_size(fd);
    close(fd);
}

/* The name that a file was opened by is gone, is a circle of links, is another file's: it is cut by the other one. */
static void cut_by_name(void)
{
    child(hold_first, -1);
    SAY(truncate("second", 9));
    int fd = open("second", O_RDWR);
    SAY(link("second", "third"));
    SAY(unlink("second"));
    SAY(truncate("third", 7000));
    show_size(fd);
    SAY(symlink("second", "second"));
    SAY(truncate("third", 4));
    show_size(fd);
    SAY(unlink("second"));
    int other = open("second", O_RDWR | O_CREAT, 0644);
    put(other, 'p', 8, 0);
    SAY(truncate("third", 3));
    show_size(fd);
    close(fd);
    SAY(truncate("third", 2));
    show_size(other);
    close(other);
    show("second");
    show("third");
}

/* O_TRUNC empties a file that is opened for reading, too. */
static void emptied(void)
{
    int fd = open("emptied", O_RDWR | O_CREAT, 0644), reads;
    put(fd, 'e', 5000, 0);
    SAY((reads = open("emptied", O_CREAT | O_TRUNC, 0644)) < 0);
    show_size(fd);
    put(fd, 'f', 10, 3000);
    SAY(pread(reads, (char[10]){0}, 10, 3005));
    SAY(write(reads, "x", 1));
    close(reads);
    show("emptied");
    close(fd);
    SAY(close(open("emptied", O_RDONLY | O_TRUNC)));
    show("emptied");
    SAY(mkdir("folder", 0755));
    SAY(open("folder", O_RDONLY | O_TRUNC));
    SAY(rmdir("folder"));
    SAY(mkfifo("fifo", 0644));
    SAY(close(open("fifo", O_RDONLY | O_TRUNC | O_NONBLOCK)));
    SAY(unlink("fifo"));
    SAY(close(open("emptied", O_PATH | O_TRUNC)));
}

/* They don't make a link the name of what it leads to, where something is made, goes or moves. */
static void slashes_after_links(void)
{
    SAY(symlink("nothing", "nowhere"));
    SAY(symlink("empty", "to-folder"));
    SAY(symlink("slash", "to-file"));
    SAY(mkdir("nowhere/", 0700));
    SAY(mkdir("to-file/", 0700));
    SAY(mkdir("to-folder/", 0700));
    SAY(rmdir("to-folder/"));
    SAY(unlink("to-folder/"));
    SAY(unlink("to-file/"));
    SAY(rename("to-folder/", "moved"));
    SAY(rename("to-folder/", "moved/"));
    SAY(rename("empty", "nowhere/"));
    SAY(access("to-folder/in", F_OK));
    SAY(access("nothing", F_OK));
}

/* Nothing but a directory is made of a name with a slash at the end. */
static void slashes_after_new_names(void)
{
    SAY(open("new/", O_RDWR | O_CREAT, 0644));
    SAY(open("new/.", O_RDWR | O_CREAT, 0644));
    SAY(open("new/", O_RDWR | O_CREAT | O_EXCL, 0644));
    SAY(open("folder/../new/", O_RDWR | O_CREAT, 0644));
    SAY(creat("new//", 0644));
    SAY(fopen("new/", "w") ? 0 : -1);
    SAY(fopen("new/./", "a") ? 0 : -1);
    SAY(open("new/", O_RDONLY));
    SAY(truncate("new/", 0));
    SAY(unlink("new/"));
    SAY(rename("new/", "moved"));
    SAY(mkdir("new/.", 0700));
    SAY(mkdir("new/./", 0700));
    SAY(access("new", F_OK));
    SAY(mkdir("new//", 0700));
    SAY(open("new/", O_RDWR | O_CREAT, 0644));
    SAY(rmdir("new/"));
}

/* What is no directory has no "..", and what comes after it is not found. */
static void turns(void)
{
    SAY(mkdir("turn", 0700));
    SAY(symlink("turn", "to-turn"));
    close(open("flat", O_RDWR | O_CREAT, 0644));
    SAY(symlink("flat", "to-flat"));
    static const char *names[] = {"flat/..",      "flat/../flat",   "flat/../new",     "flat/../turn/../flat", "to-flat/../flat",
                                  "none/../flat", "turn/../flat/.", "flat/../../none", "to-turn/../new"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct stat st;
        printf("%s\n", names[i]);
        SAY(stat(names[i], &st));
        SAY(truncate(names[i], 0));
        SAY(rename(names[i], "moved"));
        SAY(mkdir(names[i], 0700));
        SAY(rmdir(names[i]));
        SAY(open(names[i], O_RDWR | O_CREAT, 0644) < 0 ? -1 : 0);
    }
    show("turn/../flat");
    show("to-turn/../flat");
    show("turn/./.././flat");
}

/* A slash at the end says that a directory is meant: of other files each call is refused, and changes nothing. */
static void slashes(void)
{
    close(open("slash", O_RDWR | O_CREAT, 0644));
    close(open("other", O_RDWR | O_CREAT, 0644));
    SAY(rename("slash", "other/"));
    SAY(rename("slash/", "moved"));
    SAY(rename("slash", "moved/"));
    SAY(link("slash/", "moved"));
    SAY(link("slash", "moved/"));
    SAY(link("slash", "other/"));
    SAY(symlink("text", "other/"));
    SAY(symlink("text", "moved/"));
    SAY(mkfifo("moved/", 0600));
    SAY(chmod("slash/", 0600));
    SAY(open("slash/", O_RDONLY));
    SAY(open("slash/.", O_RDONLY));
    SAY(access("slash/", F_OK));
    SAY(realpath("slash/", NULL) ? 0 : -1);
    SAY(unlink("slash/"));
    SAY(mkdir("slash/", 0700));
    SAY(chown("slash/", getuid(), getgid()));
    SAY(mkdir("folder/", 0700));
    put(creat("folder/in", 0644), 'q', 3, 0);
    SAY(rename("folder", "renamed/"));
    SAY(rename("renamed/", "folder"));
    SAY(mkdir("empty", 0700));
    SAY(rename("folder/", "empty/"));
    show("empty/in");
    SAY(rename("empty", "slash/"));
    slashes_after_new_names();
    slashes_after_links();
    show("slash");
    show("other");
}

static void nameless(void)
{
    char path[64];
    int fd = open(".", O_RDWR | O_TMPFILE, 0644);
    if (fd < 0)
        return;
    put(fd, 'k', 6000, 0);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    SAY(linkat(AT_FDCWD, path, AT_FDCWD, "named", AT_SYMLINK_FOLLOW));
    show("named");
    close(fd);
    fd = open("named", O_WRONLY);
    put(fd, 'l', 10, 5995);
    close(fd);
    show("named");
}

static void by_handle(void)
{
    union {
        struct file_handle handle;
        char room[sizeof(struct file_handle) + MAX_HANDLE_SZ];
    } h = {.handle = {.handle_bytes = MAX_HANDLE_SZ}};
    int mount, here = open(".", O_RDONLY | O_DIRECTORY), fd = open("handle", O_RDWR | O_CREAT, 0644);
    put(fd, 'm', 3000, 0);
    if (name_to_handle_at(AT_FDCWD, "handle", &h.handle, &mount, 0) == 0) {
        char got[4] = "";
        int other = open_by_handle_at(here, &h.handle, O_RDWR);
        SAY(pread(other, got, 3, 0));
        printf("by handle: %s\n", got);
        put(other, 'n', 10, 2995);
        SAY(pread(fd, got, 3, 2995));
        printf("written by handle: %s\n", got);
        close(other);
    }
    close(fd);
    close(here);
    show("handle");
}

static void kernel(void)
{
    char got[20] = "";
    int fd = open("piped", O_RDWR | O_CREAT, 0644), memory = memfd_create("m", 0), copied = open("copied", O_RDWR | O_CREAT, 0644), p[2];
    put(memory, 'o', 9000, 0);
    SAY(sendfile(fd, memory, &(off_t){0}, 9000));
    SAY(sendfile(memory, fd, &(off_t){8000}, 9000));
    SAY(copy_file_range(fd, &(off64_t){100}, copied, &(off64_t){5000}, 50, 0));
    SAY(copy_file_range(copied, &(off64_t){5010}, fd, &(off64_t){20000}, 50, 0));
    SAY(pipe(p));
    SAY(write(p[1], "from the pipe", 13));
    SAY(splice(p[0], NULL, fd, &(off64_t){5}, 13, 0));
    SAY(splice(fd, &(off64_t){3}, p[1], NULL, 12, 0));
    SAY(read(p[0], got, 12));
    printf("spliced: %s\n", got);
    struct aiocb a = {.aio_fildes = fd, .aio_buf = "queued", .aio_nbytes = 6, .aio_offset = 30, .aio_lio_opcode = LIO_WRITE};
    struct aiocb *list[] = {&a};
    SAY(lio_listio(LIO_WAIT, list, 1, NULL));
    SAY(sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER));
    close(memory);
    close(copied);
    close(fd);
    show("piped");
    show("copied");
}

/* Copies that the kernel refuses. */
static void refused(void)
{
    int fd = open("refused", O_RDWR | O_CREAT, 0644), reads = open("refused", O_RDONLY), appends = open("refused", O_WRONLY | O_APPEND);
    put(fd, 'r', 100, 0);
    SAY(copy_file_range(fd, &(off64_t){0}, fd, &(off64_t){200}, 4, 1));
    SAY(copy_file_range(fd, &(off64_t){0}, reads, &(off64_t){200}, 4, 0));
    SAY(copy_file_range(fd, &(off64_t){0}, -1, &(off64_t){200}, 0, 0));
    SAY(copy_file_range(appends, &(off64_t){0}, fd, &(off64_t){200}, 4, 0));
    SAY(copy_file_range(fd, &(off64_t){0}, appends, NULL, 4, 0));
    SAY(copy_file_range(fd, &(off64_t){0}, fd, &(off64_t){20}, 21, 0));
    SAY(copy_file_range(fd, &(off64_t){20}, fd, &(off64_t){90}, 400, 0));
    SAY(copy_file_range(fd, &(off64_t){90}, fd, &(off64_t){100}, 400, 0));
    SAY(copy_file_range(fd, &(off64_t){500}, fd, &(off64_t){500}, 400, 0));
    SAY(sendfile(reads, fd, &(off_t){0}, 4));
    SAY(sendfile(appends, fd, &(off_t){0}, 4));
    SAY(sendfile(-1, fd, &(off_t){0}, 0));
    close(appends);
    close(reads);
    close(fd);
    show("refused");
}

static void mapped(void)
{
    int fd = open("mapped", O_RDWR | O_CREAT, 0644);
    put(fd, 'p', 4096, 0);
    char *m = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    SAY(ftruncate(fd, 12288));
    m = mremap(m, 4096, 12288, MREMAP_MAYMOVE);
    m[9000] = 'q';
    put(fd, 'r', 10, 9001);
    printf("mapped: %c %c %c\n", m[0], m[9000], m[9001]);
    SAY(msync(m, 12288, MS_SYNC));
    SAY(munmap(m, 12288));
    put(fd, 's', 10, 11000);
    close(fd);
    show("mapped");
}

static void streams(void)
{
    char line[100] = "";
    FILE *f = fopen("stream", "w+");
    fprintf(f, "one\ntwo\n");
    fflush(f);
    SAY(dprintf(fileno(f), "three\n"));
    rewind(f);
    while (fgets(line, sizeof(line), f))
        printf("line %s", line);
    SAY(fseek(f, 4, SEEK_SET));
    SAY(fputs("TWO", f) >= 0);
    f = freopen("stream", "a", f);
    SAY(fprintf(f, "four\n"));
    SAY(fclose(f));
    show("stream");
}

/* Names that lead to a file by an open descriptor. */
static void by_descriptor(void)
{
    static const char *const folders[] = {"/proc/self/fd", "/proc/thread-self/fd", "/dev/fd", NULL};
    char name[64], own[32], line[32] = "";
    struct stat st;
    int fd = open("described", O_RDWR | O_CREAT, 0644), saved = dup(0);
    snprintf(own, sizeof(own), "/proc/%d/fd", (int)getpid());
    put(fd, 'a', 5000, 0);
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof(name), "%s/%d", folders[i] ? folders[i] : own, fd);
        int again = open(name, O_RDWR);
        SAY(pread(again, line, 3, 4998));
        put(again, (char)('b' + i), 100, 1000 * i);
        close(again);
        SAY(stat(name, &st) ? -1 : st.st_size);
        SAY(lstat(name, &st) ? -1 : (long)S_ISLNK(st.st_mode));
        SAY((close(open(name, O_WRONLY | O_TRUNC | (i == 3 ? 0 : O_APPEND))), fstat(fd, &st)) ? -1 : st.st_size);
        put(fd, 'c', 3000, 2000);
    }
    SAY(open(name, O_RDWR | O_CREAT | O_EXCL, 0644));
    SAY(truncate(name, 4000));
    FILE *f = fopen(name, "r+");
    SAY(f && fseek(f, 2500, SEEK_SET) == 0 && fgets(line, 4, f) != NULL);
    SAY(f && fputs("stream", f) >= 0 && fclose(f) == 0);
    dup2(fd, 0);
    show("/dev/stdin");
    dup2(saved, 0);
    SAY(unlink("described"));
    put(fd, 'd', 700, 700);
    snprintf(name, sizeof(name), "/dev/fd/%d", fd);
    show(name);
    close(fd);
    close(saved);
    show("/dev/fd/nothing");
}

static const struct {
    const char *name;
    void (*act)(void);
} parts[] = {{"holes", holes},
             {"space", space},
             {"direct", direct},
             {"locks", locks},
             {"sharing", sharing},
             {"names", names},
             {"cuts", cut_by_name},
             {"emptied", emptied},
             {"slashes", slashes},
             {"turns", turns},
             {"nameless", nameless},
             {"handles", by_handle},
             {"descriptors", by_descriptor},
             {"kernel", kernel},
             {"refused", refused},
             {"mapped", mapped},
             {"streams", streams}};

static bool is_asked(char **asked, const char *name)
{
    bool found = !*asked;
    for (; *asked; asked++)
        found |= strcmp(*asked, name) == 0;
    return found;
}

/* The parts that are named, or all. */
int main(int argc, char **argv)
{
    (void)argc;
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (is_asked(argv + 1, parts[i].name))
            parts[i].act();
    return fflush(stdout) != 0;
}
