/*
 * What processes left of a trace, damaged by another program or by the way they died: tierctl
 * makes a log of it that a reader can rely on.  The records are real ones, of two ranks
 * with a long command line, and of the storage side; the input is a row of changes of them:
 *
 *   which file and how many bytes, which part of it, two bytes where, eight bytes what
 *
 * and the log is read back: every region is in the file and is unpacked, holds whole
 * records, every record has a name, and the job's text is one text.
 */
#include "fuzz.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <zlib.h>

#include "base/remove_tree.h"
#include "darshan/trace.h"
#include "darshan/log.h"

#define FILES 3
#define CHANGE 12
#define JOB_AT 1328
#define MODULES 64
#define LARGEST (64u << 20) /* bytes of a region, unpacked */

static struct ctl_trace trace;
static char folder[64], out[96];
static int cut; /* the file of a process that was killed while it made it */
static struct left {
    struct tb_trace_file *file;
} left[FILES];

/* --- the records --- */

static void end(void)
{
    ctl_trace_forget(&trace);
    tb_remove_tree(folder, NULL);
}

static void record_side(enum tb_trace_side side)
{
    static const char *const names[] = {"/pfs/shared", "/pfs/own"};
    tb_trace *t = tb_trace_of(side);
    for (int f = 0; f < 2; f++) {
        tb_trace_open(t, 100 + f, names[f], 0600, (struct tb_trace_time){0.1, 0.2});
        for (int i = 0; i < 40; i++)
            tb_trace_transfer(t, 100 + f, i % 3 ? TB_TRACE_WRITE : TB_TRACE_READ, i * 5000 % 65536, NULL, 4096 + (size_t)(i % 5),
                              (struct tb_trace_time){0.3 + i, 0.4 + i});
    }
    tb_trace_sync(t, 100, false, (struct tb_trace_time){50, 51});
    tb_trace_stream_open(t, &trace, "/pfs/log", -1, (struct tb_trace_time){0.1, 0.2});
    tb_trace_stream_transfer(t, &trace, TB_TRACE_WRITE, 100, (struct tb_trace_time){1, 2});
    struct tb_trace_mpi e = {.call = TB_TRACE_MPI_OPEN, .way = TB_TRACE_MPI_COLLECTIVE, .path = "/pfs/shared", .times = {0.1, 0.3}};
    tb_trace_mpi(t, &e);
    e = (struct tb_trace_mpi){.call = TB_TRACE_MPI_WRITE, .path = "/pfs/shared", .offset = 5, .bytes = 4096, .times = {1, 2}};
    tb_trace_mpi(t, &e);
}

/* A file of its own, so that the recorder's is never a changed one. */
static void leave(struct left *l, enum tb_trace_side side, const char *name, int32_t rank)
{
    char from[200], to[200];
    snprintf(from, sizeof(from), "%s/%c.%d.0", trace.folder, side == TB_TRACE_STORAGE ? 's' : 'a', (int)getpid());
    snprintf(to, sizeof(to), "%s/%s", trace.folder, name);
    int in = open(from, O_RDONLY | O_CLOEXEC), fd = open(to, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    struct tb_trace_file *recorded = mmap(NULL, sizeof(*recorded), PROT_READ, MAP_SHARED, in, 0);
    fuzz_check(recorded != MAP_FAILED && fd >= 0 && ftruncate(fd, sizeof(*recorded)) == 0);
    l->file = mmap(NULL, sizeof(*recorded), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    fuzz_check(l->file != MAP_FAILED);
    for (size_t at = 0; at < sizeof(*recorded); at += 8) /* a hole stays one */
        if (*(uint64_t *)((char *)recorded + at))
            memcpy((char *)l->file + at, (char *)recorded + at, 8);
    l->file->rank = rank;
    l->file->ranks = rank < 0 ? 0 : 2;
    l->file->state = TB_TRACE_ENDED;
    memset(l->file->command, 'x', sizeof(l->file->command) - 1); /* longer than a log has room for */
    munmap(recorded, sizeof(*recorded));
    close(in);
    close(fd);
}

static void make(void)
{
    static struct tb_config config;
    char name[32], own[200];
    snprintf(folder, sizeof(folder), "/dev/shm/tb-fuzz-trace-%d", (int)getpid());
    snprintf(out, sizeof(out), "%s/out.darshan", folder);
    snprintf(name, sizeof(name), "fuzz-%d", (int)getpid());
    snprintf(config.pfs.path, sizeof(config.pfs.path), "/pfs");
    trace.out = out;
    fuzz_check(mkdir(folder, 0700) == 0 && ctl_trace_check(&trace) == 0 && ctl_trace_begin(&trace, name) == 0);
    atexit(end);
    ctl_trace_tell(&trace, &config);
    record_side(TB_TRACE_APPLICATION);
    record_side(TB_TRACE_STORAGE);
    leave(&left[0], TB_TRACE_APPLICATION, "a.1.0", 0);
    leave(&left[1], TB_TRACE_APPLICATION, "a.2.0", 1);
    leave(&left[2], TB_TRACE_STORAGE, "s.1.0", -1);
    snprintf(own, sizeof(own), "%s/a.3.0", trace.folder);
    cut = open(own, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    fuzz_check(cut >= 0);
    for (int side = 0; side < 2; side++) {
        snprintf(own, sizeof(own), "%s/%c.%d.0", trace.folder, side ? 's' : 'a', (int)getpid());
        fuzz_check(unlink(own) == 0);
    }
}

/* --- changes --- */

struct undo {
    char *at;
    uint64_t bytes;
};

/* Where in the file: of the first records of each kind, and of the beginning of names and segments. */
static size_t place(uint8_t part, uint16_t where)
{
    size_t record = where / 512 % 4, word = where % 512u * 8;
    switch (part % 6) {
    case 0: return where * 4u % offsetof(struct tb_trace_file, posix);
    case 1: return offsetof(struct tb_trace_file, posix) + record * sizeof(struct tb_trace_posix) + word % sizeof(struct tb_trace_posix);
    case 2: return offsetof(struct tb_trace_file, stdio) + record * sizeof(struct tb_trace_stdio) + word % sizeof(struct tb_trace_stdio);
    case 3: return offsetof(struct tb_trace_file, mpiio) + record * sizeof(struct tb_trace_mpiio) + word % sizeof(struct tb_trace_mpiio);
    case 4: return offsetof(struct tb_trace_file, names) + where;
    default: return offsetof(struct tb_trace_file, segments) + where * 4u;
    }
}

static struct undo change(const uint8_t *data)
{
    struct left *l = &left[data[0] % FILES];
    size_t width = (size_t)1 << (data[0] / 16 % 4);
    uint64_t what;
    memcpy(&what, data + 4, sizeof(what));
    if (data[1] == 255)
        fuzz_check(ftruncate(cut, (off_t)(what % (2 * sizeof(*l->file)))) == 0);
    struct undo undo = {(char *)l->file + place(data[1], (uint16_t)(data[2] << 8 | data[3])), 0};
    memcpy(&undo.bytes, undo.at, sizeof(undo.bytes));
    memcpy(undo.at, &what, width);
    return undo;
}

/* --- the log, read back --- */

struct region {
    char *bytes;
    size_t n;
};

static struct region unpack(const char *log, size_t size, uint64_t offset, uint64_t length)
{
    struct region r = {NULL, 0};
    z_stream zip = {.next_in = (Bytef *)(log + offset), .avail_in = (uInt)length};
    size_t room = 0;
    int rc = Z_OK;
    fuzz_check(offset >= JOB_AT && offset <= size && length && length <= size - offset && inflateInit(&zip) == Z_OK);
    while (rc == Z_OK && room < LARGEST) {
        room = room ? 2 * room : 65536;
        fuzz_check((r.bytes = realloc(r.bytes, room)) != NULL);
        zip.next_out = (Bytef *)r.bytes + zip.total_out;
        zip.avail_out = (uInt)(room - zip.total_out);
        rc = inflate(&zip, Z_NO_FLUSH);
    }
    r.n = zip.total_out;
    fuzz_check(rc == Z_STREAM_END && inflateEnd(&zip) == Z_OK);
    return r;
}

static void check_job(struct region r)
{
    struct log_job job;
    fuzz_check(r.n > sizeof(job) && r.n <= 4096 && r.bytes[r.n - 1] == 0 && strlen(r.bytes + sizeof(job)) == r.n - sizeof(job) - 1);
    memcpy(&job, r.bytes, sizeof(job));
    fuzz_check(job.nprocs > 0 && memchr(job.metadata, 0, sizeof(job.metadata)) && job.end_s >= job.start_s);
    for (const char *line = strchr(r.bytes + sizeof(job), '\n'); line; line = strchr(line + 1, '\n'))
        fuzz_check(strchr(line, '\t') && line[1] != '\t'); /* of a mount */
}

static bool is_named(struct region names, uint64_t id)
{
    for (size_t at = 0; at < names.n; at += sizeof(id) + strlen(names.bytes + at + sizeof(id)) + 1) {
        fuzz_check(names.n - at > sizeof(id) && memchr(names.bytes + at + sizeof(id), 0, names.n - at - sizeof(id)));
        if (memcmp(names.bytes + at, &id, sizeof(id)) == 0)
            return true;
    }
    return false;
}

static void check_records(struct region r, struct region names, size_t record, int64_t nprocs)
{
    uint64_t id;
    int64_t rank;
    fuzz_check(r.n && r.n % record == 0);
    for (size_t at = 0; at < r.n; at += record) {
        memcpy(&id, r.bytes + at, sizeof(id));
        memcpy(&rank, r.bytes + at + sizeof(id), sizeof(rank));
        fuzz_check(rank >= -1 && rank < nprocs && is_named(names, id));
    }
}

static void check_segments(struct region r, int64_t nprocs)
{
    struct tb_dxt_record head;
    size_t at = 0;
    for (uint64_t all; at < r.n; at += sizeof(head) + all * sizeof(struct tb_dxt_segment)) {
        fuzz_check(r.n - at >= sizeof(head));
        memcpy(&head, r.bytes + at, sizeof(head));
        all = (uint64_t)head.writes + (uint64_t)head.reads;
        fuzz_check(head.writes >= 0 && head.reads >= 0 && all <= (r.n - at - sizeof(head)) / sizeof(struct tb_dxt_segment));
        fuzz_check(head.rank >= 0 && head.rank < nprocs && memchr(head.host, 0, sizeof(head.host)));
    }
    fuzz_check(r.n && at == r.n);
}

static void check_log(const char *log, size_t size)
{
    static const size_t record[MODULES] = {[LOG_POSIX] = sizeof(struct tb_posix_record),
                                           [LOG_MPIIO] = sizeof(struct tb_mpiio_record),
                                           [LOG_STDIO] = sizeof(struct tb_stdio_record)};
    uint64_t map[2 * (1 + MODULES)];
    int64_t nprocs;
    fuzz_check(size > JOB_AT);
    memcpy(map, log + 32, sizeof(map));
    struct region names = unpack(log, size, map[0], map[1]), job = unpack(log, size, JOB_AT, map[0] - JOB_AT);
    check_job(job);
    memcpy(&nprocs, job.bytes + offsetof(struct log_job, nprocs), sizeof(nprocs));
    is_named(names, 0); /* walks all of them */
    for (int m = 0; m < MODULES; m++) {
        if (!map[2 + 2 * m + 1])
            continue;
        struct region r = unpack(log, size, map[2 + 2 * m], map[2 + 2 * m + 1]);
        if (record[m])
            check_records(r, names, record[m], nprocs);
        else
            check_segments(r, nprocs);
        free(r.bytes);
    }
    free(names.bytes);
    free(job.bytes);
}

static void write_and_check(enum tb_trace_side side)
{
    static char *const command[] = {"./program", "-w", NULL};
    static struct tb_config config;
    const char *path = side == TB_TRACE_STORAGE ? trace.storage_out : out;
    struct stat st;
    fuzz_check(trace_write_side(&trace, side, command, &config, 1) == 0);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    fuzz_check(fd >= 0 && fstat(fd, &st) == 0);
    char *log = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    fuzz_check(log != MAP_FAILED);
    check_log(log, (size_t)st.st_size);
    munmap(log, (size_t)st.st_size);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct undo undo[64];
    size_t n = size / CHANGE < 64 ? size / CHANGE : 64;
    if (!left[0].file)
        make();
    for (size_t i = 0; i < n; i++)
        undo[i] = change(data + CHANGE * i);
    write_and_check(TB_TRACE_APPLICATION);
    write_and_check(TB_TRACE_STORAGE);
    for (size_t i = n; i-- > 0;)
        memcpy(undo[i].at, &undo[i].bytes, sizeof(undo[i].bytes));
    fuzz_check(ftruncate(cut, 0) == 0);
    return 0;
}
