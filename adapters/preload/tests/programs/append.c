/*
 * What others may see of a log that is appended to: whole records, or the first
 * bytes of one under way or of a killed writer's.  Never NULs, which no writer wrote,
 * and never a record inside another.
 *
 *   append ROUNDS        in the current folder; prints what it met, one line a
 *                        case; exit status 1 where a case met anything wrong
 *
 * follow: a reader at the end of the log, as `tail -f`.  killed: appenders are
 * killed at random moments.  truncated: another process sets the length to 0.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LOG "log"
#define APPENDERS 4
#define THREADS 3
#define LONGEST (3u << 20)
#define PIECES 3 /* of a vector */

#define MUST(condition)                                                     \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "append.c:%d: %s: %m\n", __LINE__, #condition); \
            abort();                                                        \
        }                                                                   \
    } while (0)

enum way {
    BY_WRITE,
    BY_PWRITE,
    BY_VECTOR,
    BY_FLAG,
    BY_STREAM,
    BY_SHARED,
    BY_SHARED_OFFSET,
    BY_THREADS,
    BY_THREADS_OFFSET,
    AT_THE_END,
    WAYS
};
static const char *const ways[WAYS] = {
    [BY_WRITE] = "write",
    [BY_PWRITE] = "pwrite",
    [BY_VECTOR] = "writev",
    [BY_FLAG] = "RWF_APPEND",
    [BY_STREAM] = "stream",
    [BY_SHARED] = "forked descriptor",
    [BY_SHARED_OFFSET] = "forked offset",
    [BY_THREADS] = "threads",
    [BY_THREADS_OFFSET] = "threads' offset",
    [AT_THE_END] = "pwrite at the end",
};

static char record[LONGEST], seen[LONGEST * 2];
static uint32_t seed = 88172645;

static uint32_t chance(uint32_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 17;
    seed ^= seed << 5;
    return seed % below;
}

static void wait_us(long us)
{
    nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL);
}

/* A line feed, then letters; no two writers share theirs. */
static void make_record(char *to, int writer, size_t n)
{
    memset(to, 'a' + writer, n);
    to[0] = '\n';
}

static int open_log(enum way way)
{
    bool plain = way == BY_FLAG || way == AT_THE_END || way == BY_SHARED_OFFSET || way == BY_THREADS_OFFSET;
    int fd = open(LOG, O_WRONLY | O_CREAT | (plain ? 0 : O_APPEND), 0644);
    MUST(fd >= 0);
    return fd;
}

static ssize_t append_vector(int fd, const char *bytes, size_t n, bool by_flag)
{
    struct iovec v[PIECES];
    for (size_t i = 0; i < PIECES; i++)
        v[i] = (struct iovec){(char *)bytes + n / PIECES * i, i < PIECES - 1 ? n / PIECES : n - n / PIECES * i};
    return by_flag ? pwritev2(fd, v, PIECES, 0, RWF_APPEND) : writev(fd, v, PIECES);
}

static void append(enum way way, int fd, const char *bytes, size_t n, off_t *end)
{
    ssize_t w = way == BY_VECTOR || way == BY_FLAG ? append_vector(fd, bytes, n, way == BY_FLAG)
              : way == BY_PWRITE                   ? pwrite(fd, bytes, n, 0)
              : way == AT_THE_END                  ? pwrite(fd, bytes, n, *end)
                                                   : write(fd, bytes, n);
    while (w < (ssize_t)n && (w >= 0 || errno == ENOSPC))
        pause(); /* scratch is full: the test kills this process now */
    MUST(w == (ssize_t)n);
    *end += w;
}

static void append_by_stream(size_t n, uint32_t times)
{
    FILE *f = fopen(LOG, "a");
    char *room = malloc(n + 1); /* for one record: libc writes it in one piece */
    MUST(f && room && setvbuf(f, room, _IOFBF, n + 1) == 0);
    for (uint32_t i = 0; i < times; i++)
        MUST(fwrite(record, 1, n, f) == n && fflush(f) == 0);
    fclose(f);
    free(room);
}

struct thread {
    int fd;
    enum way way;
    size_t n;
    uint32_t times;
    pthread_t id;
    char *bytes;
};

static void *append_in_thread(void *arg)
{
    struct thread *t = arg;
    off_t end = 0;
    for (uint32_t i = 0; i < t->times; i++)
        append(t->way, t->fd, t->bytes, t->n, &end);
    return NULL;
}

static void append_by_threads(int writer, enum way way, int fd, size_t n, uint32_t times)
{
    struct thread t[THREADS];
    for (int i = 0; i < THREADS; i++) {
        t[i] = (struct thread){.fd = fd, .way = way, .n = n, .times = times / THREADS, .bytes = malloc(n)};
        make_record(t[i].bytes, writer * THREADS + i, n);
        MUST(pthread_create(&t[i].id, NULL, append_in_thread, &t[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i].id, NULL);
}

/* Until killed, where `times` is as large as can be. */
static void append_many(int writer, enum way way, int fd, size_t n, uint32_t times)
{
    off_t end = 0;
    make_record(record, writer, n);
    if (way == BY_STREAM)
        append_by_stream(n, times);
    else if (way == BY_THREADS || way == BY_THREADS_OFFSET)
        append_by_threads(writer, way, fd, n, times);
    else
        for (uint32_t i = 0; i < times; i++)
            append(way, fd, record, n, &end);
}

static bool shares(enum way way)
{
    return way == BY_SHARED || way == BY_SHARED_OFFSET;
}

static void start(pid_t *pids, int n_writers, enum way way, size_t n, uint32_t times)
{
    int fd = open_log(way);
    for (int i = 0; i < n_writers; i++) {
        pids[i] = fork();
        MUST(pids[i] >= 0);
        if (pids[i] == 0) {
            append_many(i, way, shares(way) ? fd : open_log(way), n, times);
            _exit(0);
        }
    }
    close(fd);
}

static void end(pid_t pid)
{
    int status;
    MUST(waitpid(pid, &status, 0) == pid);
    MUST(WIFEXITED(status) ? WEXITSTATUS(status) == 0 : WTERMSIG(status) == SIGKILL);
}

/* Bytes that no program wrote, in what read() gives at the end of a growing log; and a size that says more than can be read. */
static bool follow(enum way way, size_t n, uint32_t times)
{
    pid_t pid[APPENDERS];
    int n_writers = way == AT_THE_END || way >= BY_THREADS ? 1 : 2, left = n_writers;
    uint32_t per_writer = way == BY_THREADS || way == BY_THREADS_OFFSET ? times / THREADS * THREADS : times;
    bool wrong = false;
    unlink(LOG);
    start(pid, n_writers, way, n, times);
    int fd = open(LOG, O_RDONLY | O_CREAT, 0644);
    for (ssize_t r = 1; left || r > 0;) {
        struct stat st;
        off_t at = lseek(fd, 0, SEEK_CUR);
        MUST(fstat(fd, &st) == 0);
        r = read(fd, seen, sizeof(seen));
        MUST(r >= 0);
        wrong |= memchr(seen, 0, (size_t)r) != NULL || (r < (ssize_t)sizeof(seen) && at + r < st.st_size);
        if (left && r == 0 && waitpid(pid[n_writers - left], NULL, WNOHANG)) {
            left--;
            r = 1; /* it may have written since */
        }
    }
    wrong |= lseek(fd, 0, SEEK_CUR) != (off_t)(n * per_writer * (uint32_t)n_writers);
    close(fd);
    return wrong;
}

/* Every record is whole; `cut` of them may be the first bytes of one only. */
static bool is_log(size_t n, uint32_t cut)
{
    struct stat st;
    int fd = open(LOG, O_RDONLY);
    MUST(fd >= 0 && fstat(fd, &st) == 0);
    char *all = malloc((size_t)st.st_size + 1);
    size_t size = 0;
    for (ssize_t r; (r = read(fd, all + size, (size_t)st.st_size - size)) > 0; size += (size_t)r)
        ;
    close(fd);
    bool good = size == (size_t)st.st_size;
    uint32_t met = 0;
    if (!good)
        fprintf(stderr, "%zu bytes can be read of %lld\n", size, (long long)st.st_size);
    for (size_t at = 0, length; at < size && good; at += length) {
        for (length = 1; at + length < size && all[at + length] == all[at + 1] && all[at + 1] >= 'a'; length++)
            ;
        met += length < n;
        good = all[at] == '\n' && length <= n && met <= cut;
        if (!good)
            fprintf(stderr, "at %zu of %zu: byte %d, a piece of %zu bytes, %u short ones\n", at, size, all[at], length, met);
    }
    free(all);
    return good;
}

/* All of them, one after the other; then another goes on. */
static bool killed(enum way way, size_t n)
{
    pid_t pid[APPENDERS + 1];
    uint32_t threads = way == BY_THREADS || way == BY_THREADS_OFFSET ? THREADS : 1;
    int n_writers = way == BY_THREADS_OFFSET || way == AT_THE_END ? 1 : APPENDERS;
    unlink(LOG);
    start(pid, n_writers, way, n, UINT32_MAX);
    for (int i = 0; i < n_writers; i++) {
        wait_us(n < LONGEST ? 1000 + chance(4000) : chance(1000));
        kill(pid[i], SIGKILL);
        end(pid[i]);
    }
    if (way != BY_SHARED_OFFSET && n_writers > 1) {
        start(pid, 1, way, n, 2);
        end(pid[0]);
    }
    return !is_log(n, (uint32_t)n_writers * threads);
}

static bool truncated(enum way way, size_t n)
{
    pid_t pid[APPENDERS];
    unlink(LOG);
    start(pid, APPENDERS, way, n, n < 1000 ? 1000 : n < LONGEST ? 30 : 6);
    for (int i = 0; i < 20; i++) {
        MUST(truncate(LOG, 0) == 0);
        wait_us(chance(1000));
    }
    for (int i = 0; i < APPENDERS; i++)
        end(pid[i]);
    return !is_log(n, 0);
}

static uint32_t report(const char *what, enum way way, size_t n, uint32_t wrong, uint32_t rounds)
{
    printf("%s, %s, %zu bytes: %u of %u wrong\n", what, ways[way], n, wrong, rounds);
    fflush(stdout);
    return wrong;
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {200, 60000, LONGEST};
    uint32_t rounds = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 1, wrong = 0;
    for (enum way way = 0; way < WAYS; way++)
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            uint32_t met[3] = {0}, times = i == 0 ? 3000 : i == 1 ? 60 : 3;
            for (uint32_t k = 0; k < rounds; k++) {
                met[0] += follow(way, sizes[i], times);
                met[1] += killed(way, sizes[i]);
                met[2] += way != AT_THE_END && !shares(way) && way != BY_THREADS_OFFSET && truncated(way, sizes[i]);
            }
            wrong += report("follow", way, sizes[i], met[0], rounds) + report("killed", way, sizes[i], met[1], rounds);
            if (way != AT_THE_END && !shares(way) && way != BY_THREADS_OFFSET)
                wrong += report("truncated", way, sizes[i], met[2], rounds);
        }
    unlink(LOG);
    return wrong > 0;
}
