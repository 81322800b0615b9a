/*
 * One pass over the data: open, transfer, close, each timed on a clock common to all ranks, with the
 * stonewall of -D. Ranks that must move in step (collective calls) decide together when the wall is reached.
 */
#include "tb_ior.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OPEN, TRANSFER, CLOSE, PARTS };

/* `limit` and `done` count transfers; `begin` and `end` are seconds of rank 0's clock. */
struct pass {
    struct tb_phase *p;
    enum tb_pass kind;
    bool check, lockstep;
    int owner;
    int64_t limit, done;
    struct tb_order order;
    struct tb_file file;
    double begin[PARTS], end[PARTS], stonewall_s, stonewall_pairs;
    int64_t pairs_min, pairs_max;
};

/* Every other node has its file on another mount of the file system, FILE0 or FILE1. */
static void dual_mount_path(char *path, size_t size, const char *file, const struct tb_world *w, int owner, const char *number)
{
    snprintf(path, size, "%.4000s%d/data.%08d%s", file, owner / w->tasks_per_node % 2, owner, number);
}

/* A directory for each rank after the last slash; without one after the first character, as IOR 4.0.0 has it. */
static void unique_path(char *path, size_t size, const char *file, int owner, const char *number)
{
    const char *slash = strrchr(file, '/');
    int before = (int)(slash ? slash + 1 - file : 1);
    snprintf(path, size, "%.*s%d/%.2000s.%08d%s", before, file, owner, file + before, owner, number);
}

/*
 * IOR's names: FILE.00000003.1 is rank 3's file of the second repetition with -F and -m. A
 * repetition below 0 leaves out the number of -m.
 */
void tb_path(char *path, size_t size, const struct tb_options *o, const struct tb_world *w, int owner, int repetition)
{
    char number[16] = "", file[4096];
    const char *name;
    int length = tb_name_of(o->file, o->file_per_process ? owner : 0, &name);
    snprintf(file, sizeof(file), "%.*s", length, name);
    if (o->multi_file && repetition >= 0)
        snprintf(number, sizeof(number), ".%d", repetition);
    if (!o->file_per_process)
        snprintf(path, size, "%.4000s%s", file, number);
    else if (o->dual_mount)
        dual_mount_path(path, size, file, w, owner, number);
    else if (o->unique_dir)
        unique_path(path, size, file, owner, number);
    else
        snprintf(path, size, "%.4000s.%08d%s", file, owner, number);
}

/* Only the first place is named: a file that is wrong altogether would fill the log. */
static void report_difference(struct pass *s, int64_t offset, int64_t at)
{
    struct tb_phase *p = s->p;
    if (p->errors++ == 0)
        fprintf(stderr, "tb-ior: %s: wrong data at offset %lld: found 0x%016llx\n", s->file.path, (long long)(offset + at),
                (unsigned long long)p->data[at / 8]);
    if (p->options->quit_on_error)
        tb_fail(s->file.path, "check", offset + at, "wrong data, and -q asks to stop");
}

/* The mark changes from transfer to transfer; the bytes below it were filled once. */
static void put(struct pass *s, int64_t offset)
{
    const struct tb_phase *p = s->p;
    const struct tb_options *o = p->options;
    tb_mark(&p->pattern, p->data, (size_t)o->transfer, s->owner, offset);
    o->backend->write(&s->file, p->data, (size_t)o->transfer, offset);
    if (o->fsync_per_write)
        o->backend->sync_transfer(&s->file);
}

/* A check happens inside the timed loop only if it was asked for. */
static void transfer(struct pass *s, int64_t i)
{
    struct tb_phase *p = s->p;
    const struct tb_options *o = p->options;
    int64_t offset = tb_order_offset(&s->order, i);
    if (s->kind == TB_WRITE) {
        put(s, offset);
        return;
    }
    /* All transfers of an owner hold the same bytes: a read that moved nothing must not find the last one's. */
    if (s->check)
        tb_spoil(p->data, (size_t)o->transfer);
    o->backend->read(&s->file, p->data, (size_t)o->transfer, offset);
    if (!s->check)
        return;
    int64_t at = tb_first_difference(&p->pattern, p->data, (size_t)o->transfer, s->owner, offset);
    if (at >= 0)
        report_difference(s, offset, at);
}

/* The time since the first transfer; where ranks move in step, that of the slowest. */
static double elapsed(const struct pass *s)
{
    double time = tb_clock(s->p->world) - s->begin[TRANSFER];
    if (s->lockstep)
        MPI_Allreduce(MPI_IN_PLACE, &time, 1, MPI_DOUBLE, MPI_MAX, s->p->world->comm);
    return time;
}

/* Past the last transfer it begins again at the first: minTimeDuration. */
static void transfer_next(struct pass *s)
{
    transfer(s, s->done++ % s->limit);
}

/* After the deadline all ranks go on to the count of the fastest. */
static void wear_out(struct pass *s)
{
    struct tb_phase *p = s->p;
    double time = tb_clock(p->world) - s->begin[TRANSFER], sum = (double)s->done;
    MPI_Allreduce(&time, &s->stonewall_s, 1, MPI_DOUBLE, MPI_MAX, p->world->comm);
    MPI_Allreduce(&sum, &s->stonewall_pairs, 1, MPI_DOUBLE, MPI_SUM, p->world->comm);
    MPI_Allreduce(&s->done, &s->pairs_min, 1, MPI_INT64_T, MPI_MIN, p->world->comm);
    MPI_Allreduce(&s->done, &s->pairs_max, 1, MPI_INT64_T, MPI_MAX, p->world->comm);
    MPI_Gather(&s->done, 1, MPI_INT64_T, p->pairs, 1, MPI_INT64_T, 0, p->world->comm);
    while (s->done < s->pairs_max && (s->done < s->limit || p->options->least_s))
        transfer_next(s);
}

/* With both a deadline and minTimeDuration neither ends the pass before the least time is over. */
static bool is_over(const struct pass *s, bool wall)
{
    const struct tb_options *o = s->p->options;
    bool at_end = s->done % s->limit == 0;
    if (s->done == o->wear_out_transfers)
        return true;
    if (!wall || !(o->least_s || o->deadline_s))
        return at_end;
    if (!o->deadline_s && !at_end)
        return false;
    double since = elapsed(s);
    return since >= o->least_s && (at_end || (o->deadline_s && since >= o->deadline_s));
}

/* Before a pass of -z its file is written with larger transfers, so that random ones overwrite. */
static void prefill(struct pass *s)
{
    const struct tb_options *o = s->p->options;
    if (!o->prefill || s->kind != TB_WRITE)
        return;
    struct tb_options whole = *o;
    whole.random_offset = false;
    whole.transfer = o->prefill;
    struct tb_order order;
    tb_order_make(&order, &whole, s->p->world->tasks, s->owner);
    void *data = tb_buffer((size_t)o->prefill);
    memset(data, 0xff, (size_t)o->prefill);
    for (int64_t i = 0; i < order.count; i++)
        o->backend->write(&s->file, data, (size_t)o->prefill, tb_order_offset(&order, i));
    free(data);
    tb_order_free(&order);
    MPI_Barrier(s->p->world->comm); /* in a shared file it may be another rank's transfer that is here */
}

/* Ranks that may make no more transfers, by stoneWallingWearOutIterations, wait until the least time is over. */
static void wait_for_least_time(const struct pass *s)
{
    double left = s->p->options->least_s - (tb_clock(s->p->world) - s->begin[TRANSFER]);
    if (left > 0)
        usleep((useconds_t)(left * 1e6));
}

/*
 * At least one transfer is made before the wall is looked at, as IOR does. The sync counts as
 * transfer time, before the close.
 */
static void transfer_all(struct pass *s)
{
    const struct tb_options *o = s->p->options;
    bool wall = s->kind != TB_CHECK;
    prefill(s);
    if (s->limit)
        do
            transfer_next(s);
        while (!is_over(s, wall));
    if (wall && s->limit)
        wait_for_least_time(s);
    if (wall && o->deadline_s && o->wear_out)
        wear_out(s);
    if (s->kind == TB_WRITE && o->fsync)
        o->backend->sync(&s->file);
}

/* Without -g a fast rank transfers while another one still opens its file. */
static void barrier_between(const struct pass *s)
{
    if (s->p->options->intra_barriers)
        MPI_Barrier(s->p->world->comm);
}

/*
 * The barriers of -g are outside the timed parts; those at both ends make the total the time
 * of the slowest rank.
 */
static void execute(struct pass *s)
{
    const struct tb_options *o = s->p->options;
    const struct tb_world *w = s->p->world;
    MPI_Barrier(w->comm);
    s->begin[OPEN] = tb_clock(w);
    o->backend->open(&s->file, s->kind == TB_WRITE, !o->file_per_process);
    s->end[OPEN] = tb_clock(w);
    barrier_between(s);
    s->begin[TRANSFER] = tb_clock(w);
    transfer_all(s);
    s->end[TRANSFER] = tb_clock(w);
    barrier_between(s);
    s->begin[CLOSE] = tb_clock(w);
    o->backend->close(&s->file);
    s->end[CLOSE] = tb_clock(w);
    MPI_Barrier(s->p->world->comm);
}

/*
 * A part lasts from the first rank that began it to the last that ended it, so parts of
 * different ranks may overlap, and their sum may be more than the total.
 */
static struct tb_result measure(struct pass *s, int repetition)
{
    const struct tb_options *o = s->p->options;
    double begin[PARTS], end[PARTS], latency = 0, bytes = (double)s->done * (double)o->transfer, all;
    if (s->done)
        latency = (s->end[TRANSFER] - s->begin[TRANSFER]) / (double)s->done;
    MPI_Allreduce(s->begin, begin, PARTS, MPI_DOUBLE, MPI_MIN, s->p->world->comm);
    MPI_Allreduce(s->end, end, PARTS, MPI_DOUBLE, MPI_MAX, s->p->world->comm);
    MPI_Allreduce(MPI_IN_PLACE, &latency, 1, MPI_DOUBLE, MPI_SUM, s->p->world->comm);
    MPI_Allreduce(&bytes, &all, 1, MPI_DOUBLE, MPI_SUM, s->p->world->comm);
    struct tb_result r = {.write = s->kind == TB_WRITE,
                          .repetition = repetition,
                          .bytes = (int64_t)all,
                          .pairs_min = s->pairs_min,
                          .pairs_max = s->pairs_max,
                          .pairs = s->p->pairs,
                          .stonewall_s = s->stonewall_s,
                          .open_s = end[OPEN] - begin[OPEN],
                          .transfer_s = end[TRANSFER] - begin[TRANSFER],
                          .close_s = end[CLOSE] - begin[CLOSE],
                          .total_s = end[CLOSE] - begin[OPEN],
                          .latency_s = latency / s->p->world->tasks,
                          .rank_total_s = s->end[CLOSE] - s->begin[OPEN],
                          .rank_transfer_s = s->end[TRANSFER] - s->begin[TRANSFER],
                          .rank_bytes = bytes};
    /* A clock too coarse for the run must not divide by nothing. */
    r.bandwidth_mib = all / TB_MIB / (r.total_s > 0 ? r.total_s : 1e-9);
    r.iops = all / (double)o->transfer / (r.transfer_s > 0 ? r.transfer_s : 1e-9);
    if (s->stonewall_s > 0)
        r.stonewall_mib = s->stonewall_pairs / s->p->world->tasks * (double)o->transfer / TB_MIB / s->stonewall_s;
    return r;
}

/* Where ranks move in step they all do as many transfers as the one that has the fewest. */
static int64_t common_limit(const struct pass *s)
{
    const struct tb_options *o = s->p->options;
    int64_t limit = s->order.count;
    if (s->kind != TB_WRITE && s->p->limits[s->owner] < limit)
        limit = s->p->limits[s->owner];
    if (o->wear_out_transfers && o->wear_out_transfers < limit)
        limit = o->wear_out_transfers;
    if (s->lockstep)
        MPI_Allreduce(MPI_IN_PLACE, &limit, 1, MPI_INT64_T, MPI_MIN, s->p->world->comm);
    return limit;
}

/* A write is of the rank's own data; a read may be of another's, by -C and -Z. */
static void prepare(struct pass *s, int repetition)
{
    const struct tb_phase *p = s->p;
    const struct tb_options *o = p->options;
    s->owner = s->kind == TB_WRITE ? p->world->rank : tb_owner(o, p->world, repetition);
    s->lockstep = !o->file_per_process && o->backend->collective_sync && (o->collective || o->fsync_per_write);
    tb_order_make(&s->order, o, p->world->tasks, s->owner);
    s->limit = common_limit(s);
    s->file.options = o;
    s->file.world = p->world;
    s->file.owner = s->owner;
    tb_path(s->file.path, sizeof(s->file.path), o, p->world, s->owner, repetition);
    if (s->kind == TB_WRITE)
        tb_fill(&p->pattern, p->data, (size_t)o->transfer, s->owner);
}

/*
 * What was written limits what later passes may read; a rank that began again at its first
 * transfer has written no more than all of it.
 */
struct tb_result tb_phase_run(struct tb_phase *p, enum tb_pass kind, bool check, int repetition)
{
    struct pass s = {.p = p, .kind = kind, .check = check};
    prepare(&s, repetition);
    execute(&s);
    assert(s.done <= s.limit || p->options->least_s);
    int64_t exist = s.done < s.limit ? s.done : s.limit;
    if (kind == TB_WRITE)
        MPI_Allgather(&exist, 1, MPI_INT64_T, p->limits, 1, MPI_INT64_T, p->world->comm);
    tb_order_free(&s.order);
    return measure(&s, repetition);
}
