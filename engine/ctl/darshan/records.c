/*
 * Records of all processes to records of the log. What the processes of one rank did to a
 * file is one record. A file that every rank of an MPI job used has one record of rank -1,
 * as Darshan reduces it, with its fastest and slowest rank.
 *
 * How a counter of two records becomes one is the same for every module; only its place
 * differs, and a table says it.
 */
#include "darshan/records.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "darshan/files.h"
#include "darshan/log.h"
#include "trace/count.h"

#define TALLY 4096 /* sizes or strides of a file that are told apart across all its ranks */
#define NONE (-1)

enum rule { ADD, MOST, ANY, FIRST_TIME, LAST_TIME };

struct range {
    int first, last;
    enum rule rule;
};

static const struct module {
    enum log_region region;
    int n_counters, n_times;
    size_t slot, record, sizes, strides; /* bytes: of a slot, and where in it */
    size_t slots;                        /* where in the process's file */
    struct range counters[10], times[4];
    int bytes_read, bytes_written, read_time, write_time, meta_time; /* of what a rank is fast or slow by */
    int fastest, fastest_time;                                       /* four counters and four times */
    int longest_size, longest_time;                                  /* two of each, reading and writing */
    int common_sizes, common_strides;                                /* four values, then four counts */
} modules[TB_TRACE_MODULES] = {
    [TB_TRACE_POSIX] = {LOG_POSIX,
                        POSIX_COUNTERS,
                        POSIX_TIMES,
                        sizeof(struct tb_trace_posix),
                        offsetof(struct tb_trace_posix, record),
                        offsetof(struct tb_trace_posix, sizes),
                        offsetof(struct tb_trace_posix, strides),
                        offsetof(struct tb_trace_file, posix),
                        {{POSIX_OPENS, POSIX_RENAME_TARGETS, ADD},
                         {POSIX_RENAMED_FROM, POSIX_MODE, ANY},
                         {POSIX_BYTES_READ, POSIX_BYTES_WRITTEN, ADD},
                         {POSIX_MAX_BYTE_READ, POSIX_MAX_BYTE_WRITTEN, MOST},
                         {POSIX_CONSEC_READS, POSIX_MEM_NOT_ALIGNED, ADD},
                         {POSIX_MEM_ALIGNMENT, POSIX_MEM_ALIGNMENT, ANY},
                         {POSIX_FILE_NOT_ALIGNED, POSIX_FILE_NOT_ALIGNED, ADD},
                         {POSIX_FILE_ALIGNMENT, POSIX_FILE_ALIGNMENT, ANY},
                         {POSIX_SIZE_READ_0_100, POSIX_SIZE_WRITE_0_100 + 9, ADD},
                         {NONE, NONE, ADD}},
                        {{POSIX_F_OPEN_START, POSIX_F_CLOSE_START, FIRST_TIME},
                         {POSIX_F_OPEN_END, POSIX_F_CLOSE_END, LAST_TIME},
                         {POSIX_F_READ_TIME, POSIX_F_META_TIME, ADD},
                         {NONE, NONE, ADD}},
                        POSIX_BYTES_READ,
                        POSIX_BYTES_WRITTEN,
                        POSIX_F_READ_TIME,
                        POSIX_F_WRITE_TIME,
                        POSIX_F_META_TIME,
                        POSIX_FASTEST_RANK,
                        POSIX_F_FASTEST_RANK_TIME,
                        POSIX_MAX_READ_TIME_SIZE,
                        POSIX_F_MAX_READ_TIME,
                        POSIX_ACCESS1_ACCESS,
                        POSIX_STRIDE1_STRIDE},
    [TB_TRACE_STDIO] = {LOG_STDIO,
                        STDIO_COUNTERS,
                        STDIO_TIMES,
                        sizeof(struct tb_trace_stdio),
                        offsetof(struct tb_trace_stdio, record),
                        0,
                        0,
                        offsetof(struct tb_trace_file, stdio),
                        {{STDIO_OPENS, STDIO_BYTES_READ, ADD}, {STDIO_MAX_BYTE_READ, STDIO_MAX_BYTE_WRITTEN, MOST}, {NONE, NONE, ADD}},
                        {{STDIO_F_META_TIME, STDIO_F_READ_TIME, ADD},
                         {STDIO_F_OPEN_START, STDIO_F_READ_START, FIRST_TIME},
                         {STDIO_F_OPEN_END, STDIO_F_READ_END, LAST_TIME},
                         {NONE, NONE, ADD}},
                        STDIO_BYTES_READ,
                        STDIO_BYTES_WRITTEN,
                        STDIO_F_READ_TIME,
                        STDIO_F_WRITE_TIME,
                        STDIO_F_META_TIME,
                        STDIO_FASTEST_RANK,
                        STDIO_F_FASTEST_RANK_TIME,
                        NONE,
                        NONE,
                        NONE,
                        NONE},
    [TB_TRACE_MPIIO] = {LOG_MPIIO,
                        MPIIO_COUNTERS,
                        MPIIO_TIMES,
                        sizeof(struct tb_trace_mpiio),
                        offsetof(struct tb_trace_mpiio, record),
                        offsetof(struct tb_trace_mpiio, sizes),
                        0,
                        offsetof(struct tb_trace_file, mpiio),
                        {{MPIIO_INDEP_OPENS, MPIIO_VIEWS, ADD},
                         {MPIIO_MODE, MPIIO_MODE, ANY},
                         {MPIIO_BYTES_READ, MPIIO_RW_SWITCHES, ADD},
                         {MPIIO_SIZE_READ_0_100, MPIIO_SIZE_WRITE_0_100 + 9, ADD},
                         {NONE, NONE, ADD}},
                        {{POSIX_F_OPEN_START, POSIX_F_CLOSE_START, FIRST_TIME},
                         {POSIX_F_OPEN_END, POSIX_F_CLOSE_END, LAST_TIME},
                         {POSIX_F_READ_TIME, POSIX_F_META_TIME, ADD},
                         {NONE, NONE, ADD}},
                        MPIIO_BYTES_READ,
                        MPIIO_BYTES_WRITTEN,
                        POSIX_F_READ_TIME,
                        POSIX_F_WRITE_TIME,
                        POSIX_F_META_TIME,
                        MPIIO_FASTEST_RANK,
                        POSIX_F_FASTEST_RANK_TIME,
                        MPIIO_MAX_READ_TIME_SIZE,
                        POSIX_F_MAX_READ_TIME,
                        MPIIO_ACCESS1_ACCESS,
                        NONE},
};

/* A record of any module; the file has as many counters and times as the module. */
struct record {
    uint64_t id;
    int64_t rank;
    int64_t counters[POSIX_COUNTERS];
    double times[POSIX_TIMES];
};

/*
 * A slot of one process: the file that holds it and its number there. `id` tells the file.
 */
struct item {
    uint64_t id;
    int64_t rank;
    const struct tb_trace_file *file;
    uint32_t number;
};

/* Large: one static tally serves all records in turn. */
struct tally {
    uint32_t n;
    int64_t value[TALLY];
    uint64_t count[TALLY];
};

/*
 * Slots of all modules are in the mapped file of their process; sizes and places differ, and
 * the table has them.
 */
static const char *slot_of(const struct module *m, const struct item *i)
{
    return (const char *)i->file + m->slots + (size_t)i->number * m->slot;
}

/*
 * A record in the file has the counters of its module alone; in memory there is room for the
 * longest.
 */
static void load(const struct module *m, const struct item *i, struct record *out)
{
    const char *from = slot_of(m, i) + m->record;
    size_t counters = (size_t)m->n_counters * sizeof(int64_t);
    *out = (struct record){0};
    memcpy(out->counters, from + offsetof(struct record, counters), counters);
    memcpy(out->times, from + offsetof(struct record, counters) + counters, (size_t)m->n_times * sizeof(double));
    out->id = i->id;
    out->rank = i->rank;
}

/* A killed process may leave a name without its end. */
static const char *name_of(const struct module *m, const struct item *i)
{
    uint32_t at = ((const struct tb_trace_slot *)slot_of(m, i))->name;
    bool ends = at < TB_TRACE_NAMES && memchr(i->file->names + at, 0, TB_TRACE_NAMES - at);
    return ends ? i->file->names + at : "<name lost>";
}

/* 0 means "never" to Darshan, so it is no first time. */
static void combine_time(enum rule rule, double *into, double from)
{
    if (rule == ADD)
        *into += from;
    else if (rule == FIRST_TIME)
        *into = *into == 0 || (from > 0 && from < *into) ? from : *into;
    else if (from > *into)
        *into = from;
}

/* ANY: the value of a rank that gave one. */
static void combine_counter(enum rule rule, int64_t *into, int64_t from)
{
    if (rule == ADD)
        tb_trace_add(into, from);
    else if (rule == ANY ? *into == 0 : from > *into)
        *into = from;
}

/* The size of the longest transfer goes with its time: they are of one call. */
static void combine(const struct module *m, struct record *into, const struct record *from)
{
    for (const struct range *r = m->counters; r->first != NONE; r++)
        for (int i = r->first; i <= r->last; i++)
            combine_counter(r->rule, &into->counters[i], from->counters[i]);
    for (const struct range *r = m->times; r->first != NONE; r++)
        for (int i = r->first; i <= r->last; i++)
            combine_time(r->rule, &into->times[i], from->times[i]);
    for (int i = 0; m->longest_size != NONE && i < 2; i++)
        if (from->times[m->longest_time + i] > into->times[m->longest_time + i]) {
            into->times[m->longest_time + i] = from->times[m->longest_time + i];
            into->counters[m->longest_size + i] = from->counters[m->longest_size + i];
        }
}

/* Values that no longer fit are left out; they are rare ones, since the first come first. */
static void add_to_tally(struct tally *t, const struct tb_trace_common *c)
{
    for (uint32_t i = 1, at; i <= c->n && i <= TB_TRACE_COMMON; i++) {
        for (at = 0; at < t->n && t->value[at] != c->value[i]; at++)
            ;
        if (at == TALLY)
            continue;
        if (at == t->n) {
            t->value[t->n] = c->value[i];
            t->count[t->n++] = 0;
        }
        t->count[at] += c->count[i];
    }
}

/* The four most frequent, the larger one first where they are equal; 0 means none. */
static void write_common(const struct tally *t, int64_t *values)
{
    bool taken[TALLY] = {false};
    for (int place = 0; place < 4; place++) {
        uint32_t best = t->n;
        for (uint32_t i = 0; i < t->n; i++)
            if (!taken[i] && t->value[i] &&
                (best == t->n || t->count[i] > t->count[best] || (t->count[i] == t->count[best] && t->value[i] > t->value[best])))
                best = i;
        if (best == t->n)
            return;
        taken[best] = true;
        values[place] = t->value[best];
        values[place + 4] = (int64_t)t->count[best];
    }
}

/* `where` 0: the module has no such values. */
static void add_common(const struct module *m, const struct item *items, size_t n, size_t where, int values, struct record *out)
{
    static struct tally tally;
    tally.n = 0;
    for (size_t i = 0; where && i < n; i++)
        add_to_tally(&tally, (const struct tb_trace_common *)(slot_of(m, &items[i]) + where));
    if (where)
        write_common(&tally, &out->counters[values]);
}

/* All of `items`, of one file, as one record. */
static void fold(const struct module *m, const struct item *items, size_t n, struct record *out)
{
    struct record more;
    load(m, &items[0], out);
    for (size_t i = 1; i < n; i++) {
        load(m, &items[i], &more);
        combine(m, out, &more);
    }
    add_common(m, items, n, m->sizes, m->common_sizes, out);
    add_common(m, items, n, m->strides, m->common_strides, out);
}

/* How many of the first items are of one rank: items are sorted by rank. */
static size_t of_this_rank(const struct item *items, size_t n)
{
    size_t same = 1;
    while (same < n && items[same].rank == items[0].rank)
        same++;
    return same;
}

/* The fastest and the slowest rank, and how far the ranks are apart; `n` items of all ranks, in order. */
static void compare_ranks(const struct module *m, const struct item *items, size_t n, struct record *out)
{
    double times = 0, times_2 = 0, bytes = 0, bytes_2 = 0, ranks = 0;
    int64_t *c = &out->counters[m->fastest];
    double *t = &out->times[m->fastest_time];
    struct record r;
    for (size_t i = 0, same; i < n; i += same, ranks++) {
        same = of_this_rank(items + i, n - i);
        fold(m, items + i, same, &r);
        double time = r.times[m->read_time] + r.times[m->write_time] + r.times[m->meta_time];
        int64_t moved = tb_trace_sum(r.counters[m->bytes_read], r.counters[m->bytes_written]);
        if (i == 0 || time < t[0]) {
            t[0] = time;
            c[0] = items[i].rank;
            c[1] = moved;
        }
        if (i == 0 || time > t[1]) {
            t[1] = time;
            c[2] = items[i].rank;
            c[3] = moved;
        }
        times += time;
        times_2 += time * time;
        bytes += (double)moved;
        bytes_2 += (double)moved * (double)moved;
    }
    t[2] = times_2 / ranks - times / ranks * (times / ranks);
    t[3] = bytes_2 / ranks - bytes / ranks * (bytes / ranks);
    t[2] = t[2] > 0 ? t[2] : 0; /* what rounding left */
    t[3] = t[3] > 0 ? t[3] : 0;
}

/* The region begins with its first record: a module without records is not in the log at all. */
static void write_record(struct log *log, const struct module *m, const struct record *r, bool *begun)
{
    if (!*begun)
        log_begin(log, m->region);
    *begun = true;
    log_write(log, &r->id, sizeof(r->id));
    log_write(log, &r->rank, sizeof(r->rank));
    log_write(log, r->counters, (size_t)m->n_counters * sizeof(int64_t));
    log_write(log, r->times, (size_t)m->n_times * sizeof(double));
}

/* A standard stream that no process used is not worth a record. */
static bool is_idle_stream(const struct module *m, const struct item *i, const struct record *r)
{
    return m->region == LOG_STDIO && name_of(m, i)[0] == '<' && !r->counters[STDIO_READS] && !r->counters[STDIO_WRITES];
}

/*
 * How many of the items are of MPI ranks, which come first; `all`: every rank has one, and
 * there are several ranks.
 */
static size_t of_mpi_ranks(const struct job *job, const struct item *items, size_t n, bool *all)
{
    int64_t seen = 0;
    size_t i = 0;
    for (; i < n && items[i].rank < job->ranks; i += of_this_rank(items + i, n - i))
        seen++;
    *all = job->ranks > 1 && seen == job->ranks;
    return i;
}

/*
 * One record of all ranks where each of them used the file, unless that is not wanted; else
 * one for each rank.
 */
static void write_file(struct log *log, const struct job *job, const struct module *m, const struct item *items, size_t n, bool reduce,
                       bool *begun)
{
    struct record r;
    bool all;
    size_t done = of_mpi_ranks(job, items, n, &all), same;
    if (!all || !reduce)
        done = 0;
    if (done) {
        fold(m, items, done, &r);
        compare_ranks(m, items, done, &r);
        r.rank = -1;
        if (!is_idle_stream(m, items, &r))
            write_record(log, m, &r, begun);
    }
    for (; done < n; done += same) {
        same = of_this_rank(items + done, n - done);
        fold(m, items + done, same, &r);
        if (!is_idle_stream(m, items, &r))
            write_record(log, m, &r, begun);
    }
}

/* By file, then by rank, then by start: what follows finds each group in one piece. */
static int by_file(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return x->file->start < y->file->start ? -1 : x->file->start > y->file->start;
}

static bool is_standard_stream(const struct tb_trace_file *f, uint32_t number)
{
    uint32_t name = f->stdio[number].slot.name;
    return name < TB_TRACE_NAMES && f->names[name] == '<';
}

/* Darshan has standard streams in processes that called anything of streams. */
static bool used_streams(const struct tb_trace_file *f)
{
    for (uint32_t i = 0; i < f->n[TB_TRACE_STDIO]; i++)
        for (int c = STDIO_FDOPENS; c <= STDIO_FLUSHES; c++)
            if (f->stdio[i].record.counters[c] || !is_standard_stream(f, i))
                return true;
    return false;
}

/* Every file something was done to, by file and rank; NULL: none, or no memory. */
static struct item *list(const struct job *job, const struct module *m, size_t *n)
{
    size_t room = 0;
    enum tb_trace_module number = (enum tb_trace_module)(m - modules);
    for (size_t p = 0; p < job->n; p++)
        room += job->process[p].file->n[number];
    struct item *items = room ? malloc(room * sizeof(*items)) : NULL;
    *n = 0;
    for (size_t p = 0; items && p < job->n; p++) {
        if (job->process[p].left_out || (number == TB_TRACE_STDIO && !used_streams(job->process[p].file)))
            continue;
        for (uint32_t i = 0; i < job->process[p].file->n[number]; i++) {
            struct item item = {0, job->process[p].rank, job->process[p].file, i};
            item.id = *(const uint64_t *)(slot_of(m, &item) + m->record);
            if (((const struct tb_trace_slot *)slot_of(m, &item))->active)
                items[(*n)++] = item;
        }
    }
    if (items)
        qsort(items, *n, sizeof(*items), by_file);
    return items;
}

static size_t of_this_file(const struct item *items, size_t n)
{
    size_t same = 1;
    while (same < n && items[same].id == items[0].id)
        same++;
    return same;
}

/*
 * A region is marked partial where files of a process did not fit, or a signal handler interrupted the recording.
 */
static void write_module(struct log *log, const struct job *job, const struct module *m, bool reduce)
{
    size_t n, same;
    bool begun = false;
    struct item *items = list(job, m, &n);
    for (size_t i = 0; i < n; i += same) {
        same = of_this_file(items + i, n - i);
        write_file(log, job, m, items + i, same, reduce, &begun);
    }
    if (begun)
        log_end(log);
    for (size_t p = 0; begun && p < job->n; p++)
        if (job->process[p].file->dropped[m - modules] || job->process[p].file->interrupted)
            log_set_partial(log, m->region);
    free(items);
}

/* A file that several modules know is named once by each: readers keep one. */
static void write_names(struct log *log, const struct job *job)
{
    log_begin(log, LOG_NAMES);
    for (int number = 0; number < TB_TRACE_MODULES; number++) {
        size_t n;
        struct item *items = list(job, &modules[number], &n);
        for (size_t i = 0; i < n; i += of_this_file(items + i, n - i)) {
            const char *name = name_of(&modules[number], &items[i]);
            log_write(log, &items[i].id, sizeof(items[i].id));
            log_write(log, name, strlen(name) + 1);
        }
        free(items);
    }
    log_end(log);
}

/*
 * The order of the regions is that of Darshan's logs: names, then POSIX, MPI-IO and STDIO. On
 * the storage side ranks are not reduced to one record.
 */
void trace_write_records(struct log *log, const struct job *job, enum tb_trace_side side)
{
    static const enum tb_trace_module order[] = {TB_TRACE_POSIX, TB_TRACE_MPIIO, TB_TRACE_STDIO};
    write_names(log, job);
    for (int i = 0; i < TB_TRACE_MODULES; i++)
        write_module(log, job, &modules[order[i]], side == TB_TRACE_APPLICATION);
}
