/*
 * Which locks are left after each call, printed: the same outside and under the adapter, in the current folder.
 *
 * A case is one kind of lock (fcntl, lockf, OFD, flock), one action of the table and one file, made by the program
 * itself (new) or there before it (old: `locks prepare` makes those).  A child takes the lock and acts; its parent, which
 * holds nothing, asks before and after by a descriptor of its own and by a new one.
 *
 *   locks prepare | locks new|old | locks race     TB_DRAIN: the command that drains, for the action "drain"
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#define BYTES 100000
#define SPILL (24 << 20) /* more than the tiers of the test hold */
#define RACE_ROUNDS 150
#define TELL 50 /* the locker speaks and listens here; a program that it executes finds them there */
#define HEAR 51

enum kind { FCNTL, LOCKF, OFD, FLOCK };
static const char *const kinds[] = {"fcntl", "lockf", "ofd", "flock"};

static char block[1 << 20];
static int fd = -1, appended = -1, other = -1, second = -1; /* the locker's: of f, f with O_APPEND, other, f again */
static char f[64], other_name[80], second_name[80];         /* of this case */

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static int run_lock(int at, enum kind kind)
{
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 100, .l_len = 100};
    if (kind == FLOCK)
        return flock(at, LOCK_EX | LOCK_NB);
    if (kind == LOCKF) /* from where the descriptor is */
        return lseek(at, 100, SEEK_SET) != 100 ? -1 : lockf(at, F_TLOCK, 100);
    return fcntl(at, kind == OFD ? F_OFD_SETLK : F_SETLK, &range);
}

/* What another process sees of the lock by its descriptor `at`. */
static const char *seen(int at, enum kind kind)
{
    static char text[2][64];
    static int which;
    char *out = text[which ^= 1];
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (kind == FLOCK) {
        int rc = flock(at, LOCK_EX | LOCK_NB);
        if (rc == 0)
            flock(at, LOCK_UN);
        return rc == 0 ? "none" : errno == EWOULDBLOCK ? "held" : strerror(errno);
    }
    if (fcntl(at, kind == OFD ? F_OFD_GETLK : F_GETLK, &range))
        return strerror(errno);
    if (range.l_type == F_UNLCK)
        return "none";
    snprintf(out, sizeof(text[0]), "%s %lld+%lld", range.l_type == F_WRLCK ? "write" : "read", (long long)range.l_start,
             (long long)range.l_len);
    return out;
}

static void put(int at, off_t n, off_t offset)
{
    for (off_t done = 0, piece; done < n; done += piece) {
        piece = n - done < (off_t)sizeof(block) ? n - done : (off_t)sizeof(block);
        if (pwrite(at, block, (size_t)piece, offset + done) != piece)
            die("pwrite");
    }
}

/* ---- actions, in the process that holds the lock ---- */

static void nothing(void) {}
/* clang-format off: one line each */
static void link_it(void)
{
    (void)!link(f, second_name);
}
static void link_unlink(void)
{
    link_it();
    unlink(second_name);
}
static void rename_it(void)
{
    (void)!rename(f, second_name);
}
static void rename_back(void)
{
    rename_it();
    (void)!rename(second_name, f);
}
static void rename_over(void)
{
    (void)!rename(other_name, f);
}
static void unlink_it(void)
{
    unlink(f);
}
static void truncate_name(void)
{
    (void)!truncate(f, BYTES / 2);
}
static void truncate_longer(void)
{
    (void)!truncate(f, 2 * BYTES);
}
static void truncate_fd(void)
{
    (void)!ftruncate(fd, 77);
}
static void chmod_name(void)
{
    chmod(f, 0640);
}
static void chmod_fd(void)
{
    fchmod(fd, 0600);
}
static void chown_name(void)
{
    (void)!chown(f, getuid(), getgid());
}
static void chown_fd(void)
{
    (void)!fchown(fd, getuid(), getgid());
}
static void times_name(void)
{
    utimensat(AT_FDCWD, f, (struct timespec[2]){{1000, 0}, {2000, 0}}, 0);
}
static void times_fd(void)
{
    futimens(fd, (struct timespec[2]){{1000, 0}, {2000, 0}});
}
static void set_xattr(void)
{
    setxattr(f, "user.locks", "x", 1, 0);
}
static void get_xattr(void)
{
    char v[8];
    getxattr(f, "user.locks", v, sizeof(v));
}
static void sync_fd(void)
{
    put(fd, 5000, 10);
    fsync(fd);
}
static void sync_data(void)
{
    put(fd, 5000, 10);
    fdatasync(fd);
}
static void sync_all(void)
{
    put(fd, 5000, 10);
    sync();
}
static void sync_range(void)
{
    put(fd, 5000, 10);
    sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WAIT_AFTER);
}
static void append_sync(void)
{
    (void)!write(appended, block, 3000);
    fsync(appended);
}
static void append_spill(void)
{
    for (int i = 0; i < 24; i++)
        (void)!write(appended, block, sizeof(block));
}
static void write_more(void)
{
    put(fd, 3 * BYTES, 0);
}
static void write_spill(void)
{
    put(fd, SPILL, 0);
}
/* clang-format on */
static void read_spilled(void)
{
    write_spill();
    for (off_t at = 0; at < SPILL; at += sizeof(block))
        (void)!pread(fd, block, sizeof(block), at);
}

/* clang-format off: one line each */
static void other_spill(void)
{
    put(other, SPILL, 0);
    fsync(other);
}
static void other_many_syncs(void)
{
    for (int i = 0; i < 300; i++) {
        put(other, 4096, (i % 50) * 4096);
        fsync(other);
    }
}
static void allocate(void)
{
    posix_fallocate(fd, 0, 2 * BYTES);
}
static void punch(void)
{
    fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 8192);
}
static void seek_data(void)
{
    lseek(fd, 0, SEEK_DATA);
    lseek(fd, 0, SEEK_END);
}
static void stat_it(void)
{
    struct stat st;
    stat(f, &st);
    lstat(f, &st);
    fstat(fd, &st);
    access(f, R_OK);
}
static void open_other(void)
{
    int at = open(other_name, O_RDWR);
    put(at, 10, 0);
    close(at);
}
/* clang-format on */
static void make_other(void)
{
    int at = open(second_name, O_RDWR | O_CREAT, 0644);
    put(at, 10, 0);
    close(at);
    unlink(second_name);
}

/* clang-format off: one line each */
static void open_fails(void)
{
    (void)!open(f, O_RDWR | O_CREAT | O_EXCL, 0644);
    (void)!open(f, O_RDONLY | O_DIRECTORY);
}
static void open_path(void)
{
    close(open(f, O_PATH));
}
static void copy_out(void)
{
    off_t at = 0;
    sendfile(other, fd, &at, 5000);
}
static void copy_in(void)
{
    off_t from = 0, to = 0;
    (void)!copy_file_range(other, &from, fd, &to, 5000, 0);
}
static void read_it(void)
{
    (void)!pread(fd, block, 5000, 0);
    (void)!pread(fd, block, BYTES, 0);
}
static void advise(void)
{
    posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
}
static void read_name(void)
{
    char p[4096];
    free(realpath(f, NULL));
    (void)!readlink(f, p, sizeof(p));
}
static void end_child(void)
{
    pid_t p = fork();
    if (!p)
        _exit(0);
    waitpid(p, NULL, 0);
}
/* clang-format on */
static void child_closes(void)
{
    pid_t p = fork();
    if (!p) {
        close(fd);
        close(second);
        closefrom(3);
        _exit(0);
    }
    waitpid(p, NULL, 0);
}

static void child_acts(void)
{
    pid_t p = fork();
    if (!p) {
        truncate_name();
        link_unlink();
        sync_fd();
        close(open(f, O_RDWR));
        exit(0);
    }
    waitpid(p, NULL, 0);
}

static void vfork_child(void)
{
    pid_t p = vfork();
    if (!p)
        _exit(0);
    waitpid(p, NULL, 0);
}
static void run_shell(void)
{
    (void)!system("true");
}
static void run_program(void)
{
    char *args[] = {"true", NULL};
    pid_t p;
    if (posix_spawnp(&p, "true", NULL, NULL, args, environ) == 0)
        waitpid(p, NULL, 0);
}

/* clang-format off: one line each */
static void run_pipe(void)
{
    pclose(popen("true", "r"));
}
static void stream_other(void)
{
    FILE *s = fopen(other_name, "r+");
    fputs("text", s);
    fclose(s);
}
static void drain(void)
{
    const char *command = getenv("TB_DRAIN");
    (void)!system(command ? command : "true");
}
/* clang-format on */

static void map_it(void)
{
    char *m = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    m[5] = 'm';
    munmap(m, BYTES);
}

static void map_descriptor_gone(void)
{
    char *m = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, second, 0);
    close(second); /* every fcntl lock of the process goes */
    run_lock(fd, FCNTL);
    munmap(m, BYTES); /* and this closes nothing of the program's */
}

/* What the program closes itself takes fcntl locks with it. */
/* clang-format off: one line each */
static void close_own(void)
{
    close(open(f, O_RDONLY));
}
static void close_second(void)
{
    close(second);
}
static void close_first(void)
{
    close(fd);
}
static void close_copy(void)
{
    close(dup(fd));
}
static void close_by_copy(void)
{
    dup2(other, second);
}
static void close_by_copy3(void)
{
    dup3(other, second, O_CLOEXEC);
}
static void close_by_range(void)
{
    close_range((unsigned)second, (unsigned)second, 0);
}
static void close_from(void)
{
    close_range((unsigned)second, TELL - 1, 0);
}
static void close_by_number(void)
{
    syscall(SYS_close, second);
}
static void close_stream(void)
{
    fclose(fopen(f, "r"));
}
static void close_given(void)
{
    fclose(fdopen(second, "r"));
}
/* clang-format on */
static void unlock_part(void)
{
    struct flock r = {.l_type = F_UNLCK, .l_start = 120, .l_len = 10};
    fcntl(fd, F_SETLK, &r);
    truncate_name();
}

static void lock_again(void)
{
    close_second();
    run_lock(fd, FCNTL);
    truncate_name();
    link_unlink();
}
static void lock_by_number(void)
{
    struct flock r = {.l_type = F_WRLCK, .l_start = 300, .l_len = 10};
    syscall(SYS_fcntl, fd, F_SETLK, &r);
    truncate_name();
}

static void unlock(void)
{
    struct flock r = {.l_type = F_UNLCK};
    fcntl(fd, F_SETLK, &r);
}
static void lock_only(short from, off_t at)
{
    struct flock r = {.l_type = F_WRLCK, .l_whence = from, .l_start = at, .l_len = 4};
    unlock();
    fcntl(fd, F_SETLK, &r);
}

static void lock_from_end(void)
{
    put(fd, 10, 2 * BYTES);
    lock_only(SEEK_END, -10);
}
static void lock_from_here(void)
{
    lseek(fd, 5000, SEEK_SET);
    lock_only(SEEK_CUR, -10);
}
static void ask_from_here(void)
{
    struct flock r = {.l_type = F_WRLCK, .l_whence = SEEK_CUR, .l_start = 7, .l_len = 4};
    fcntl(fd, F_GETLK, &r);
    printf("%d %d %lld %lld\n", r.l_type, r.l_whence, (long long)r.l_start, (long long)r.l_len);
}

static void lockf_here(void)
{
    unlock();
    lseek(fd, 7000, SEEK_SET);
    (void)!write(fd, "abc", 3);
    (void)!lockf(fd, F_LOCK, -3);
}

static void lockf_tests(void)
{
    lseek(fd, 100, SEEK_SET);
    printf("%d", lockf(fd, F_TEST, 10));
    printf(" %d\n", lockf(fd, F_ULOCK, 10));
}

static void unlock_all(void)
{
    unlock();
    truncate_name();
}
static void lock_read(void)
{
    struct flock r = {.l_type = F_RDLCK, .l_start = 50, .l_len = 10};
    fcntl(second, F_SETLK, &r);
    truncate_name();
}

static void descriptors_are_low(void)
{
    truncate_name();
    link_unlink();
    int at = open("/dev/null", O_RDONLY);
    if (at != second + 1)
        printf("descriptor %d, not %d\n", at, second + 1);
    close(at);
}

static int restricted(uint64_t flags)
{
    struct open_how how = {.flags = flags, .resolve = RESOLVE_NO_MAGICLINKS};
    int at = (int)syscall(SYS_openat2, AT_FDCWD, f, &how, sizeof(how));
    if (at != second + 1)
        printf("descriptor %d, not %d\n", at, second + 1);
    return at;
}

static void open_restricted(void)
{
    restricted(O_RDWR);
}
static void close_restricted(void)
{
    close(restricted(O_RDWR | O_TRUNC));
}

static void open_handle(void)
{
    struct {
        struct file_handle handle;
        unsigned char room[128];
    } h = {.handle.handle_bytes = 128};
    int mount, here = open(".", O_RDONLY | O_DIRECTORY);
    if (name_to_handle_at(AT_FDCWD, f, &h.handle, &mount, 0))
        return;
    int at = open_by_handle_at(here, &h.handle, O_RDWR);
    if (at != here + 1)
        printf("descriptor %d, not %d\n", at, here + 1);
    put(at, 100, 0);
}

/* The program may open nothing more; what needs no descriptor of it works all the same. */
static void no_descriptor_free(void)
{
    int first = dup(0), last = first;
    for (int at; (at = dup(0)) >= 0;)
        last = at;
    truncate_name();
    link_unlink();
    append_sync();
    printf("%d %d\n", truncate(f, BYTES), open(f, O_RDONLY));
    for (; last >= first; last--)
        if (last != TELL && last != HEAR)
            close(last);
}

static void ignore(int number)
{
    (void)number;
}

/* A lock that another process has: waiting for it ends by a signal. */
static void lock_interrupted(void)
{
    struct flock range = {.l_type = F_WRLCK, .l_len = 1};
    int ready[2];
    char c;
    if (pipe(ready))
        die("pipe");
    pid_t p = fork();
    if (!p) {
        fcntl(other, F_SETLK, &range);
        (void)!write(ready[1], "x", 1);
        pause();
    }
    (void)!read(ready[0], &c, 1);
    sigaction(SIGALRM, &(struct sigaction){.sa_handler = ignore}, NULL);
    setitimer(ITIMER_REAL, &(struct itimerval){.it_value.tv_usec = 50000}, NULL);
    int rc = fcntl(other, F_SETLKW, &range);
    printf("%d %s\n", rc, strerror(errno));
    kill(p, SIGKILL);
    waitpid(p, NULL, 0);
    truncate_name();
    alarm(200);
}

static void act_in_handler(int number)
{
    (void)number;
    struct flock range = {.l_type = F_WRLCK, .l_start = 300, .l_len = 1};
    fcntl(fd, F_SETLK, &range);
    truncate_name();
    close(dup(other));
}

static void lock_in_handler(void)
{
    sigaction(SIGALRM, &(struct sigaction){.sa_handler = act_in_handler, .sa_flags = SA_RESTART}, NULL);
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 700}, {0, 700}}, NULL);
    for (int i = 0; i < 40; i++) {
        truncate_longer();
        append_sync();
        link_unlink();
    }
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
    act_in_handler(0);
    alarm(200);
}

static void *acts_in_thread(void *act)
{
    ((void (*)(void)) * (void **)act)();
    return NULL;
}

static void in_thread(void (*act)(void))
{
    pthread_t t;
    void *what = (void *)act;
    pthread_create(&t, NULL, acts_in_thread, &what);
    pthread_join(t, NULL);
}

/* clang-format off: one line each */
static void thread_syncs(void)
{
    in_thread(append_sync);
}
static void thread_truncates(void)
{
    in_thread(truncate_name);
}
static void thread_closes(void)
{
    in_thread(close_second);
}
/* clang-format on */

/* The program goes on as another one: "exec" acts before, and again after it; its name says which files. */
static void execute(const char *what, bool but_second)
{
    char numbers[4][16];
    if (but_second)
        fcntl(second, F_SETFD, FD_CLOEXEC);
    for (int i = 0; i < 4; i++)
        snprintf(numbers[i], sizeof(numbers[i]), "%d", (int[]){fd, appended, other, second}[i]);
    execl("/proc/self/exe", "locks", "after", what, f, numbers[0], numbers[1], numbers[2], numbers[3], NULL);
    die("exec");
}

/* clang-format off: one line each */
static void exec_it(void)
{
    execute("nothing", false);
}
static void exec_after(void)
{
    truncate_name();
    link_unlink();
    execute("nothing", false);
}
static void exec_before(void)
{
    execute("names", false);
}
static void exec_both(void)
{
    truncate_name();
    execute("names", false);
}
static void exec_twice(void)
{
    truncate_name();
    execute("twice", false);
}
static void exec_closes(void)
{
    execute("close", false);
}
static void exec_closing(void)
{
    execute("nothing", true);
}
static void exec_fails(void)
{
    truncate_name();
    execl("/nothing/such", "x", NULL);
    truncate_longer();
}
static void exec_mapped(void)
{
    (void)!mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0);
    execute("names", false);
}
/* clang-format on */

#define ACTION(name) {#name, name}
static const struct action {
    const char *name;
    void (*act)(void);
} actions[] = {
    ACTION(nothing),
    ACTION(link_it),
    ACTION(link_unlink),
    ACTION(rename_it),
    ACTION(rename_back),
    ACTION(rename_over),
    ACTION(unlink_it),
    ACTION(truncate_name),
    ACTION(truncate_longer),
    ACTION(truncate_fd),
    ACTION(chmod_name),
    ACTION(chmod_fd),
    ACTION(chown_name),
    ACTION(chown_fd),
    ACTION(times_name),
    ACTION(times_fd),
    ACTION(set_xattr),
    ACTION(get_xattr),
    ACTION(sync_fd),
    ACTION(sync_data),
    ACTION(sync_all),
    ACTION(sync_range),
    ACTION(append_sync),
    ACTION(append_spill),
    ACTION(write_more),
    ACTION(write_spill),
    ACTION(read_spilled),
    ACTION(other_spill),
    ACTION(other_many_syncs),
    ACTION(allocate),
    ACTION(punch),
    ACTION(seek_data),
    ACTION(stat_it),
    ACTION(open_other),
    ACTION(make_other),
    ACTION(open_fails),
    ACTION(open_path),
    ACTION(copy_out),
    ACTION(copy_in),
    ACTION(read_it),
    ACTION(advise),
    ACTION(read_name),
    ACTION(end_child),
    ACTION(child_closes),
    ACTION(child_acts),
    ACTION(vfork_child),
    ACTION(run_shell),
    ACTION(run_program),
    ACTION(run_pipe),
    ACTION(stream_other),
    ACTION(drain),
    ACTION(map_it),
    ACTION(map_descriptor_gone),
    ACTION(close_own),
    ACTION(close_second),
    ACTION(close_first),
    ACTION(close_copy),
    ACTION(close_by_copy),
    ACTION(close_by_copy3),
    ACTION(close_by_range),
    ACTION(close_from),
    ACTION(close_by_number),
    ACTION(close_stream),
    ACTION(close_given),
    ACTION(unlock_part),
    ACTION(unlock_all),
    ACTION(lock_again),
    ACTION(lock_by_number),
    ACTION(lock_from_end),
    ACTION(lock_from_here),
    ACTION(ask_from_here),
    ACTION(lockf_tests),
    ACTION(lockf_here),
    ACTION(lock_read),
    ACTION(descriptors_are_low),
    ACTION(thread_syncs),
    ACTION(thread_truncates),
    ACTION(thread_closes),
    ACTION(exec_it),
    ACTION(exec_after),
    ACTION(exec_before),
    ACTION(exec_both),
    ACTION(exec_twice),
    ACTION(exec_closes),
    ACTION(exec_closing),
    ACTION(exec_fails),
    ACTION(exec_mapped),
    ACTION(no_descriptor_free),
    ACTION(open_restricted),
    ACTION(close_restricted),
    ACTION(open_handle),
    ACTION(lock_interrupted),
    ACTION(lock_in_handler),
};
#define ACTIONS (sizeof(actions) / sizeof(actions[0]))

static int to_parent[2], to_child[2];

static void tell(int at)
{
    if (write(at, "x", 1) != 1)
        _exit(1);
}

static bool hear(int at)
{
    char c;
    return read(at, &c, 1) == 1;
}

static void name_files(const char *which, enum kind kind, const char *action)
{
    snprintf(f, sizeof(f), "%s-%s-%s", which, kinds[kind], action);
    snprintf(other_name, sizeof(other_name), "other-%s", f);
    snprintf(second_name, sizeof(second_name), "second-%s", f);
}

static int make(const char *name, int flags)
{
    int at = open(name, O_RDWR | flags, 0644);
    if (at < 0)
        die(name);
    return at;
}

static void hold_and_act(enum kind kind, const struct action *a, int flags)
{
    dup2(to_parent[1], TELL);
    dup2(to_child[0], HEAR);
    close_range(3, TELL - 1, 0);
    fd = make(f, flags);
    put(fd, BYTES, 0);
    other = make(other_name, O_CREAT);
    put(other, BYTES, 0);
    appended = open(f, O_WRONLY | O_APPEND);
    second = open(f, O_RDONLY);
    if (run_lock(fd, kind))
        die("lock");
    tell(TELL);
    hear(HEAR);
    a->act();
    fflush(stdout);
    tell(TELL);
    hear(HEAR);
    _exit(0);
}

/* The program that the locker executed. */
static int after_exec(char **args)
{
    snprintf(f, sizeof(f), "%s", args[1]);
    snprintf(second_name, sizeof(second_name), "second-%s", f);
    fd = atoi(args[2]);
    appended = atoi(args[3]);
    other = atoi(args[4]);
    second = atoi(args[5]);
    if (strcmp(args[0], "names") == 0) {
        truncate_name();
        link_unlink();
    }
    if (strcmp(args[0], "close") == 0)
        close(second);
    if (strcmp(args[0], "twice") == 0) {
        truncate_longer();
        execute("names", false);
    }
    tell(TELL);
    hear(HEAR);
    return 0;
}

static const char *seen_anew(enum kind kind, const char *name)
{
    int at = open(name, O_RDWR);
    const char *what = at < 0 ? strerror(errno) : seen(at, kind);
    if (at >= 0)
        close(at);
    return what;
}

static void run_case(const char *which, enum kind kind, const struct action *a)
{
    name_files(which, kind, a->name);
    fflush(stdout);
    if (pipe(to_parent) || pipe(to_child))
        die("pipe");
    pid_t child = fork();
    if (child == 0)
        hold_and_act(kind, a, strcmp(which, "old") ? O_CREAT : 0);
    close(to_parent[1]);
    close(to_child[0]);
    bool ready = hear(to_parent[0]);
    int at = ready ? open(f, O_RDWR) : -1;
    printf("%s %s %s: %s", which, kinds[kind], a->name, ready ? seen(at, kind) : "not taken");
    fflush(stdout);
    if (ready)
        tell(to_child[1]);
    ready = ready && hear(to_parent[0]);
    printf(", then %s, by name %s\n", ready ? seen(at, kind) : "dead", seen_anew(kind, f));
    close(at);
    close(to_parent[0]);
    close(to_child[1]);
    int status = 0;
    waitpid(child, &status, 0);
    if (status)
        printf("status %x\n", (unsigned)status);
    unlink(f);
    unlink(second_name);
    unlink(other_name);
}

/* ---- locks of one thread, names and descriptors of another ---- */

static volatile bool stops;

static void *disturb(void *arg)
{
    (void)arg;
    while (!stops) {
        truncate_name();
        append_sync();
        link_unlink();
        map_it();
    }
    return NULL;
}

static void *disturb_by_children(void *arg)
{
    (void)arg;
    while (!stops) {
        child_acts();
        run_program();
    }
    return NULL;
}

static void lock_in_thread(void)
{
    pthread_t t[3];
    fd = make(f, O_CREAT);
    put(fd, BYTES, 0);
    appended = open(f, O_WRONLY | O_APPEND);
    for (int i = 0; i < 3; i++)
        pthread_create(&t[i], NULL, i < 2 ? disturb : disturb_by_children, NULL);
    for (int i = 0; i < RACE_ROUNDS; i++) {
        struct flock all = {.l_type = F_UNLCK};
        if (run_lock(fd, FCNTL))
            die("lock");
        for (int j = 0; j < i % 7; j++)
            usleep(300);
        tell(to_parent[1]);
        hear(to_child[0]);
        if (i % 3 == 0)
            close(dup(fd));
        else
            fcntl(fd, F_SETLK, &all);
    }
    stops = true;
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    _exit(0);
}

static int race(void)
{
    int lost = 0, asked = 0;
    name_files("race", FCNTL, "thread");
    if (pipe(to_parent) || pipe(to_child))
        die("pipe");
    pid_t child = fork();
    if (child == 0)
        lock_in_thread();
    close(to_parent[1]);
    while (hear(to_parent[0])) {
        lost += strcmp(seen_anew(FCNTL, f), "none") == 0;
        asked++;
        tell(to_child[1]);
    }
    waitpid(child, NULL, 0);
    printf("race: asked %d times, lost %d\n", asked, lost);
    return 0;
}

int main(int argc, char **argv)
{
    alarm(240);
    memset(block, 'l', sizeof(block));
    if (argc > 2 && strcmp(argv[1], "after") == 0)
        return after_exec(argv + 2);
    if (argc < 2 || strcmp(argv[1], "race") == 0)
        return race();
    for (size_t i = 0; i < ACTIONS; i++)
        for (enum kind kind = FCNTL; kind <= FLOCK; kind++)
            if (argc > 2 && strcmp(argv[2], actions[i].name) != 0) {
                continue;
            } else if (strcmp(argv[1], "prepare") == 0) {
                name_files("old", kind, actions[i].name);
                put(make(f, O_CREAT), BYTES, 0);
            } else {
                run_case(argv[1], kind, &actions[i]);
            }
    return 0;
}
