/*
 * Every cell of the table is a number of threads that transfer blocks of one size for a
 * short time, each in a file (or a piece of memory) of its own and in an order that no
 * readahead guesses.
 *
 * The page cache must not answer instead of the medium. So files are opened with O_DIRECT.
 * If the file system refuses that, writes end with an fsync inside the time, and reads
 * start after a posix_fadvise that drops what was cached, and touch each block once.
 */
#include "common/measure.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/remove_tree.h"
#include "common/ctl.h"

#define LANES MEASURE_LANES
#define FILE_AREA (16u << 20)   /* bytes of a lane's file */
#define MEMORY_AREA (64u << 20) /* or of its piece of memory: all of them are more than caches hold */
#define LARGEST (16u << 20)
#define ALIGNMENT 4096u
#define TIMES 4096 /* operations of a lane that are timed one by one */
#define STEPS (2 * MEASURE_SIZES * MEASURE_THREADS + 3)
#define STRIDE 2654435761u /* odd: blocks are a power of two, so each is met once a round */

struct lane {
    int fd;
    char *memory; /* the piece of a memory place */
    char *buffer; /* LARGEST bytes, aligned */
    uint64_t operations;
    double start, end; /* of its part of a step */
    double times[TIMES];
};

struct bench {
    char folder[PATH_MAX];
    size_t area;                       /* bytes of a lane */
    bool in_memory, buffered;          /* buffered: the file system refuses O_DIRECT */
    const struct measure_calls *calls; /* instead of files, or NULL */
    const volatile bool *stop;
    double seconds; /* of a step */
    struct lane lane[LANES];
    _Atomic int error;
    int step;
    void (*tick)(void *, int, int);
    void *arg;
};

struct job {
    struct bench *bench;
    struct lane *lane;
    pthread_barrier_t *start;
    bool write;
    size_t bytes;
};

size_t measure_size(int i)
{
    return (size_t)4096 << (2 * i);
}

int measure_threads(int i)
{
    return 1 << i;
}

/*
 * Called before each step, so that `tick` can show how far the work is: a cell of the table,
 * the syncs, and each of the two rounds over names is a step.
 */
static void next_step(struct bench *b)
{
    if (b->tick)
        b->tick(b->arg, b->step, STEPS);
    b->step++;
}

/* An error, or `stop` from the caller, ends everything after the operation under way. */
static bool going_on(const struct bench *b)
{
    return !b->error && !*b->stop;
}

/* A transfer that moves less than a block is an error: its time would count for a whole one. */
static void transfer(const struct job *j, uint64_t block)
{
    struct lane *l = j->lane;
    off_t at = (off_t)(block * j->bytes);
    if (j->bench->in_memory) {
        memcpy(j->write ? l->memory + at : l->buffer, j->write ? l->buffer : l->memory + at, j->bytes);
        __asm__ volatile("" : : "r"(l->buffer), "r"(l->memory) : "memory"); /* the copy must be made */
        return;
    }
    if (j->bench->calls) {
        const struct measure_calls *c = j->bench->calls;
        int lane = (int)(l - j->bench->lane);
        int rc =
            j->write ? c->write(c->arg, lane, (size_t)at, l->buffer, j->bytes) : c->read(c->arg, lane, (size_t)at, l->buffer, j->bytes);
        if (rc)
            j->bench->error = -rc;
        return;
    }
    ssize_t n = j->write ? pwrite(l->fd, l->buffer, j->bytes, at) : pread(l->fd, l->buffer, j->bytes, at);
    if (n != (ssize_t)j->bytes)
        j->bench->error = n < 0 ? errno : EIO;
}

/* Keeps the error for the end: a thread cannot return one. */
static void sync_file(struct bench *b, int fd)
{
    if (fsync(fd))
        b->error = errno;
}

/* One lane's part of a cell: at least one operation. */
static void *work(void *arg)
{
    struct job *j = arg;
    struct bench *b = j->bench;
    uint64_t blocks = b->area / j->bytes, most = b->buffered ? blocks : UINT64_MAX, n = 0;
    if (b->buffered && !j->write)
        posix_fadvise(j->lane->fd, 0, 0, POSIX_FADV_DONTNEED);
    pthread_barrier_wait(j->start);
    double now = j->lane->start = ctl_now(), end = now + b->seconds;
    while (n < most && (n == 0 || now < end) && going_on(b)) {
        double before = now;
        transfer(j, n * STRIDE % blocks);
        now = ctl_now();
        j->lane->times[n++ % TIMES] = now - before;
    }
    if (b->buffered && j->write)
        sync_file(b, j->lane->fd);
    j->lane->operations = n;
    j->lane->end = ctl_now();
    return NULL;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of the last TIMES operations, for the times are kept in a ring. It sorts them in place. */
static double median_of(double *times, uint64_t n)
{
    n = n < TIMES ? n : TIMES;
    qsort(times, n, sizeof(*times), by_value);
    return n ? times[n / 2] : 0;
}

/*
 * The rate in bytes a second: all lanes' bytes from the first start to the last end. The
 * median, in seconds, is of lane 0 alone.
 */
static struct measure_cell measure_cell(struct bench *b, bool write, size_t bytes, int threads)
{
    pthread_t thread[LANES];
    pthread_barrier_t start;
    struct job job[LANES];
    uint64_t operations = 0;
    double first = HUGE_VAL, last = 0;
    next_step(b);
    pthread_barrier_init(&start, NULL, (unsigned)threads + 1);
    for (int i = 0; i < threads; i++) {
        job[i] = (struct job){b, &b->lane[i], &start, write, bytes};
        if (pthread_create(&thread[i], NULL, work, &job[i]))
            abort(); /* the others would wait at the barrier for ever */
    }
    pthread_barrier_wait(&start);
    for (int i = 0; i < threads; i++) {
        pthread_join(thread[i], NULL);
        operations += b->lane[i].operations;
        first = fmin(first, b->lane[i].start);
        last = fmax(last, b->lane[i].end);
    }
    pthread_barrier_destroy(&start);
    return (struct measure_cell){(double)operations * (double)bytes / (last - first), median_of(b->lane[0].times, b->lane[0].operations)};
}

/* Each read follows the write of the same size and threads, in the same files. */
static void measure_transfers(struct bench *b, struct measure *out)
{
    for (int s = 0; s < MEASURE_SIZES; s++)
        for (int t = 0; t < MEASURE_THREADS && going_on(b); t++) {
            out->write[s][t] = measure_cell(b, true, measure_size(s), measure_threads(t));
            out->read[s][t] = measure_cell(b, false, measure_size(s), measure_threads(t));
        }
}

/* Median time of a sync after one small write; memory has none. */
static double measure_sync(struct bench *b)
{
    double times[TIMES], end = ctl_now() + b->seconds;
    uint64_t n = 0;
    next_step(b);
    for (; !b->in_memory && !b->calls && n < TIMES && (n == 0 || ctl_now() < end) && going_on(b); n++) {
        if (pwrite(b->lane[0].fd, b->lane[0].buffer, ALIGNMENT, 0) != (ssize_t)ALIGNMENT)
            b->error = errno;
        double before = ctl_now();
        sync_file(b, b->lane[0].fd);
        times[n] = ctl_now() - before;
    }
    return median_of(times, n);
}

static void file_name(const struct bench *b, uint64_t i, char *out)
{
    snprintf(out, PATH_MAX + 32, "%s/f%llu", b->folder, (unsigned long long)i);
}

static void open_and_close(struct bench *b, const char *path, int flags)
{
    int fd = open(path, flags, 0600);
    if (fd < 0 || close(fd))
        b->error = errno;
}

/* The folder is new, so a file that is already there is an error. */
static void create_one(struct bench *b, const char *path)
{
    open_and_close(b, path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC);
}

static void use_and_unlink_one(struct bench *b, const char *path)
{
    struct stat st;
    open_and_close(b, path, O_RDONLY | O_CLOEXEC);
    if (stat(path, &st) || unlink(path))
        b->error = errno;
}

/* Mean time of at most `most` calls; `most` becomes how many there were. */
static double measure_names(struct bench *b, void (*one)(struct bench *, const char *), uint64_t *most)
{
    char path[PATH_MAX + 32];
    double start = ctl_now(), now = start;
    uint64_t n = 0;
    next_step(b);
    for (; n < *most && (n == 0 || now < start + b->seconds) && going_on(b); now = ctl_now()) {
        file_name(b, n++, path);
        one(b, path);
    }
    *most = n;
    return n ? (now - start) / (double)n : 0;
}

/*
 * One lane that cannot have O_DIRECT makes all later ones buffered too. The area is written
 * once before anything is timed, so that reads find data and writes allocate nothing.
 */
static int open_lane(struct bench *b, struct lane *l, const char *path)
{
    int flags = O_RDWR | O_CREAT | O_CLOEXEC;
    l->fd = b->buffered ? -1 : open(path, flags | O_DIRECT, 0600);
    if (l->fd < 0 && (b->buffered || errno == EINVAL)) {
        b->buffered = true;
        l->fd = open(path, flags, 0600);
    }
    if (l->fd < 0)
        return -errno;
    ssize_t n = pwrite(l->fd, l->buffer, FILE_AREA, 0);
    return n < 0 ? -errno : n == (ssize_t)FILE_AREA ? 0 : -ENOSPC;
}

/* Memory is touched here, so that no page fault is measured. */
static int prepare_lane(struct bench *b, int i)
{
    struct lane *l = &b->lane[i];
    char path[PATH_MAX + 32];
    l->buffer = aligned_alloc(ALIGNMENT, LARGEST);
    if (!l->buffer)
        return -ENOMEM;
    memset(l->buffer, 'p' + i, LARGEST);
    snprintf(path, sizeof(path), "%s/lane%d", b->folder, i);
    if (b->calls)
        return 0;
    if (!b->in_memory)
        return open_lane(b, l, path);
    l->memory = mmap(NULL, b->area, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (l->memory == MAP_FAILED)
        return l->memory = NULL, -ENOMEM;
    memset(l->memory, 1, b->area);
    return 0;
}

static void clean_up(struct bench *b)
{
    for (int i = 0; i < LANES; i++) {
        if (b->lane[i].fd >= 0)
            close(b->lane[i].fd);
        if (b->lane[i].memory)
            munmap(b->lane[i].memory, b->area);
        free(b->lane[i].buffer);
    }
    if (b->folder[0]) /* made here */
        tb_remove_tree(b->folder, NULL);
}

/* A kill leaves the folder in the place; its name says what made it. */
static int prepare(struct bench *b, const char *path)
{
    int rc = 0;
    for (int i = 0; i < LANES; i++)
        b->lane[i].fd = -1;
    if (path) {
        snprintf(b->folder, sizeof(b->folder), "%s/tierbench.profile.XXXXXX", path);
        if (!mkdtemp(b->folder)) {
            rc = -errno;
            b->folder[0] = 0;
            return rc;
        }
    }
    for (int i = 0; i < LANES && !rc; i++)
        rc = *b->stop ? -EINTR : prepare_lane(b, i);
    return rc;
}

/* The second round uses each name three times (open, stat, unlink): a third of its time is one use. */
static void measure_metadata(struct bench *b, struct measure *out)
{
    uint64_t created = UINT64_MAX;
    if (b->in_memory || b->calls)
        return;
    out->create_s = measure_names(b, create_one, &created);
    out->metadata_s = measure_names(b, use_and_unlink_one, &created) / 3;
}

/*
 * `seconds` is for all steps together; it may take longer, because each cell makes at least
 * one operation.
 */
static int measure(struct bench *b, const char *path, struct measure *out)
{
    memset(out, 0, sizeof(*out));
    int rc = prepare(b, path);
    if (!rc) {
        measure_transfers(b, out);
        out->sync_s = measure_sync(b);
        measure_metadata(b, out);
    }
    out->how = b->calls     ? b->calls->how
             : b->in_memory ? "memcpy into touched shared memory"
             : b->buffered  ? "buffered, with fsync, cache dropped"
                            : "direct I/O";
    rc = rc ? rc : *b->stop ? -EINTR : -b->error;
    clean_up(b);
    free(b);
    return rc;
}

/* `path` NULL: memory, as a tier of memory has it. The result is of this process's threads together. */
int measure_place(const char *path, double seconds, const volatile bool *stop, void (*tick)(void *arg, int step, int steps), void *arg,
                  struct measure *out)
{
    struct bench *b = calloc(1, sizeof(*b));
    if (!b)
        return -ENOMEM;
    *b = (struct bench){
        .in_memory = !path, .area = path ? FILE_AREA : MEMORY_AREA, .stop = stop, .seconds = seconds / STEPS, .tick = tick, .arg = arg};
    return measure(b, path, out);
}

int measure_by_calls(const struct measure_calls *calls, double seconds, const volatile bool *stop,
                     void (*tick)(void *arg, int step, int steps), void *arg, struct measure *out)
{
    struct bench *b = calloc(1, sizeof(*b));
    if (!b)
        return -ENOMEM;
    *b = (struct bench){.calls = calls, .area = FILE_AREA, .stop = stop, .seconds = seconds / STEPS, .tick = tick, .arg = arg};
    return measure(b, NULL, out);
}

struct fit {
    double bandwidth, latency, channels;
};

/*
 * Bandwidth: the best of the table.  Latency: what an operation of 4 KiB alone
 * takes beyond its transfer.  Channels: how much of that more threads hide.
 */
static struct fit fit_direction(const struct measure_cell cell[MEASURE_SIZES][MEASURE_THREADS])
{
    struct fit f = {0, 0, LANES};
    double best = 0, small = (double)measure_size(0);
    for (int s = 0; s < MEASURE_SIZES; s++)
        for (int t = 0; t < MEASURE_THREADS; t++)
            f.bandwidth = fmax(f.bandwidth, cell[s][t].rate);
    for (int t = 0; t < MEASURE_THREADS; t++)
        best = fmax(best, cell[0][t].rate);
    f.latency = fmax(cell[0][0].median - small / f.bandwidth, 0);
    double share = small / best - small / f.bandwidth;
    if (share > 0)
        f.channels = fmin(fmax(round(f.latency / share), 1), LANES);
    return f;
}

/* A device has one number of channels: the smaller one of both directions. */
void measure_fit(const struct measure *m, struct tb_device *out)
{
    struct fit read = fit_direction(m->read), write = fit_direction(m->write);
    *out = (struct tb_device){.read_bandwidth = read.bandwidth,
                              .write_bandwidth = write.bandwidth,
                              .read_latency = read.latency,
                              .write_latency = write.latency,
                              .sync_time = m->sync_s,
                              .open_time = m->create_s,
                              .metadata_time = m->metadata_s,
                              .channels = (uint32_t)fmin(read.channels, write.channels)};
}
