/*
 * meet DIR PROCESSES THREADS SECONDS
 *
 * Opens, unlinks, renames and links of few names by many at once.  Each file says from the moment it has one of these
 * names which file it is, so whoever has it open must read that, whatever has happened to its names.  Exit status 1 where one did not.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NAMES 12u
#define NAME_BYTES 400
#define CALLS_A_LOOK 50 /* at the clock */

struct text {
    uint64_t inode;
    char rest[1000];
};

static const char *folder;
static int n_threads, seconds;
static _Atomic int failures;

static void fail(const char *what, const struct stat *st)
{
    if (failures++ < 5)
        printf("%s: %lu bytes, %lu names (%s)\n", what, st ? (unsigned long)st->st_size : 0, st ? (unsigned long)st->st_nlink : 0,
               strerror(errno));
}

static const char *name_of(char *out, unsigned *seed)
{
    snprintf(out, NAME_BYTES, "%s/n%u", folder, (unsigned)rand_r(seed) % NAMES);
    return out;
}

/* Made under a name of its own, and moved when it is whole. */
static void make(unsigned *seed)
{
    static _Atomic unsigned serial;
    char own[NAME_BYTES], name[NAME_BYTES];
    struct stat st;
    struct text text = {0};
    snprintf(own, sizeof(own), "%s/t%d.%u", folder, getpid(), serial++);
    int fd = open(own, O_CREAT | O_EXCL | O_RDWR, 0600);
    if (fd < 0 || fstat(fd, &st)) {
        fail("make", NULL);
        return;
    }
    text.inode = st.st_ino;
    if (write(fd, &text, sizeof(text)) != sizeof(text) || close(fd) || rename(own, name_of(name, seed)))
        fail("write and rename", &st);
}

static void check(int fd, const char *when)
{
    struct text text = {0};
    struct stat st = {0};
    ssize_t n = pread(fd, &text, sizeof(text), 0);
    if (fstat(fd, &st) || n != sizeof(text) || text.inode != st.st_ino)
        fail(when, &st);
}

static void check_in_child(int fd)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        check(fd, "read in a child");
        fflush(stdout);
        _exit(failures != 0);
    }
    check(fd, "read beside a child");
    if (waitpid(child, &status, 0) != child || status)
        fail("child", NULL);
}

static void use(unsigned *seed)
{
    char name[NAME_BYTES];
    unsigned kind = (unsigned)rand_r(seed) % 100;
    int fd = open(name_of(name, seed), kind % 2 ? O_RDWR : O_RDONLY);
    if (fd < 0)
        return;
    if (kind < 30)
        usleep((useconds_t)rand_r(seed) % (kind < 5 ? 20000 : 300));
    if (kind < 2 && n_threads == 1)
        check_in_child(fd);
    check(fd, "read");
    if (kind % 10 == 0)
        check(fd, "read again");
    close(fd);
}

/* Of one name onto another, or with a second one: what is not there, or there already, is as it should be. */
static void move(unsigned *seed, int (*call)(const char *, const char *), const char *what)
{
    char from[NAME_BYTES], to[NAME_BYTES];
    if (call(name_of(from, seed), name_of(to, seed)) && errno != ENOENT && errno != EEXIST)
        fail(what, NULL);
}

static void act(unsigned *seed)
{
    char name[NAME_BYTES];
    unsigned kind = (unsigned)rand_r(seed) % 100;
    if (kind < 25)
        make(seed);
    else if (kind < 35 && unlink(name_of(name, seed)) && errno != ENOENT)
        fail("unlink", NULL);
    else if (kind >= 35 && kind < 42)
        move(seed, rename, "rename");
    else if (kind >= 42 && kind < 47)
        move(seed, link, "link");
    else if (kind >= 47 && kind < 60)
        close(open(name_of(name, seed), O_RDONLY)); /* not used */
    else if (kind >= 60)
        use(seed);
}

static void *work(void *id)
{
    unsigned seed = (unsigned)getpid() * 31u + (unsigned)(uintptr_t)id;
    for (time_t end = time(NULL) + seconds; time(NULL) < end;)
        for (int i = 0; i < CALLS_A_LOOK; i++)
            act(&seed);
    return NULL;
}

static int run(void)
{
    pthread_t thread[64];
    for (int i = 0; i < n_threads - 1; i++)
        if (pthread_create(&thread[i], NULL, work, (void *)(uintptr_t)(i + 1)))
            abort();
    work(NULL);
    for (int i = 0; i < n_threads - 1; i++)
        pthread_join(thread[i], NULL);
    return failures != 0;
}

int main(int argc, char **argv)
{
    int status, failed = 0;
    if (argc != 5 || (n_threads = atoi(argv[3])) < 1 || n_threads > 64) {
        fprintf(stderr, "meet DIR PROCESSES THREADS SECONDS\n");
        return 2;
    }
    folder = argv[1];
    seconds = atoi(argv[4]);
    for (int i = 0; i < atoi(argv[2]); i++)
        if (fork() == 0) {
            status = run();
            fflush(stdout);
            _exit(status);
        }
    while (wait(&status) > 0)
        failed |= status != 0;
    return failed;
}
