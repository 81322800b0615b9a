/*
 * The repetitions: remove what is old, write, check, read, remove, and carry what a stonewall
 * left unwritten from the write to the reads. All ranks go through the same steps, since most
 * of these are collective; rank 0 alone reports.
 */
#include "tb_ior.h"

#include <errno.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct run {
    const struct tb_options *o;
    const struct tb_world *w;
    struct tb_report *report; /* NULL except on rank 0, as the next */
    struct tb_test *test;
    struct tb_phase phase;
    bool short_file;
};

/* Which rank makes, sizes and removes a file: every rank its own, rank 0 the shared one. */
static bool owns_file(const struct run *r)
{
    return !r->o->backend->no_files && (r->o->file_per_process || r->w->rank == 0);
}

/* Of its own, by -u. */
static bool has_directory(const struct run *r)
{
    return r->o->unique_dir && r->o->file_per_process && owns_file(r);
}

/* Only regular files: a device given with -o must survive. */
static bool regular_size(const char *path, int64_t *size)
{
    struct stat st;
    if (stat(path, &st) || !S_ISREG(st.st_mode))
        return false;
    *size = st.st_size;
    return true;
}

/*
 * In step: the barrier keeps a rank from removing what another still reads, and the time of
 * the slowest is what the removal took.
 */
static double remove_files(const struct run *r, int repetition)
{
    char path[4096];
    int64_t size;
    MPI_Barrier(r->w->comm);
    double start = MPI_Wtime(), seconds;
    tb_path(path, sizeof(path), r->o, r->w, r->w->rank, repetition);
    if (owns_file(r) && regular_size(path, &size) && unlink(path) && errno != ENOENT)
        tb_fail(path, "remove", -1, strerror(errno));
    if (has_directory(r))
        rmdir(dirname(path)); /* stays when it holds anything else */
    double elapsed = MPI_Wtime() - start;
    MPI_Allreduce(&elapsed, &seconds, 1, MPI_DOUBLE, MPI_MAX, r->w->comm);
    return seconds;
}

/* It may be there from an earlier repetition. */
static void make_directory(const struct run *r, int repetition)
{
    char path[4096];
    if (!has_directory(r))
        return;
    tb_path(path, sizeof(path), r->o, r->w, r->w->rank, repetition);
    char *dir = dirname(path);
    if (mkdir(dir, 0700) && errno != EEXIST)
        tb_fail(dir, "mkdir", -1, strerror(errno));
}

/* In IOR's words, which scripts look for. */
static void warn_of_size(const struct run *r, const struct tb_result *result, int64_t found)
{
    int64_t expected = tb_aggregate(r->o, r->w);
    bool as_found = r->o->backend == &tb_hdf5 || found == expected; /* HDF5 has headers besides */
    if (r->w->rank || (result->bytes == expected && as_found))
        return;
    fprintf(stderr, "WARNING: Expected aggregate file size       = %lld\n", (long long)expected);
    fprintf(stderr, "WARNING: Stat() of aggregate file size      = %lld\n", (long long)found);
    fprintf(stderr, "WARNING: Using actual aggregate bytes moved = %lld\n", (long long)result->bytes);
    if (r->o->deadline_s && result->bytes != expected)
        fprintf(stderr, "WARNING: Maybe caused by deadlineForStonewalling\n");
}

/* Bytes in all files of this repetition, and how many ranks lack theirs. */
static void find_sizes(const struct run *r, int repetition, int64_t found[2])
{
    char path[4096];
    found[0] = 0;
    tb_path(path, sizeof(path), r->o, r->w, r->w->rank, repetition);
    found[1] = owns_file(r) && !regular_size(path, &found[0]);
    MPI_Allreduce(MPI_IN_PLACE, found, 2, MPI_INT64_T, MPI_SUM, r->w->comm);
}

/* What the library says was written must be there; a shared file under a stonewall may have holes, never less. */
static void check_size(struct run *r, const struct tb_result *result, int repetition)
{
    int64_t found[2], all = tb_aggregate(r->o, r->w), distinct = result->bytes < all ? result->bytes : all;
    if (r->o->backend->no_files)
        return;
    find_sizes(r, repetition, found);
    warn_of_size(r, result, found[1] ? tb_aggregate(r->o, r->w) : found[0]); /* a device has no size */
    if (!result->write || found[1] || found[0] >= distinct)
        return;
    r->short_file = true;
    if (r->w->rank == 0)
        fprintf(stderr, "tb-ior: %s: %lld bytes were written, but the files hold %lld\n", r->o->file, (long long)distinct,
                (long long)found[0]);
}

/* Rank 0 reads for all: the file may be on that node alone. */
static void load_status(struct run *r)
{
    int64_t most = tb_file_bytes(r->o, r->w) / r->o->transfer;
    if (r->w->rank == 0)
        tb_status_load(r->o->status_file, most, r->phase.limits, r->w->tasks);
    MPI_Bcast(r->phase.limits, r->w->tasks, MPI_INT64_T, 0, r->w->comm);
}

/*
 * Only rank 0 knows whether the file was asked for, so it tells the others first: a gather
 * needs all of them.
 */
static void record_ranks(struct run *r, const struct tb_result *x)
{
    double mine[3] = {x->rank_total_s, x->rank_transfer_s, x->rank_bytes}, *all = NULL;
    int wanted = r->report && r->report->rank_file;
    MPI_Bcast(&wanted, 1, MPI_INT, 0, r->w->comm);
    if (!wanted)
        return;
    if (r->report)
        all = tb_buffer((size_t)r->w->tasks * sizeof(mine));
    MPI_Gather(mine, 3, MPI_DOUBLE, all, 3, MPI_DOUBLE, 0, r->w->comm);
    for (int i = 0; r->report && i < r->w->tasks; i++) {
        double *rank = all + 3 * (ptrdiff_t)i;
        fprintf(r->report->rank_file, "%s,%d,%.10e,%.10e,%.10e,%.10e\n", x->write ? "write" : "read", i, rank[0], rank[1],
                rank[2] / rank[0], rank[2] / rank[1]);
    }
    free(all);
}

/* Shown at once: a run that is killed later has told what it measured so far. */
static void record(struct run *r, const struct tb_result *result)
{
    record_ranks(r, result);
    if (!r->report)
        return;
    tb_report_add(r->test, result);
    if (r->report->output->result)
        r->report->output->result(r->report, r->test, result);
    if (r->report->out)
        fflush(r->report->out);
}

/* What is timed begins after the delay of -d, in each repetition. */
static void announce(struct run *r, enum tb_pass pass)
{
    if (r->o->delay_s && pass != TB_CHECK)
        sleep((unsigned)r->o->delay_s);
    if (r->report && r->report->output->phase)
        r->report->output->phase(r->report, r->test, pass);
}

/* In IOR's words. `before` leaves out what earlier passes found. */
static void warn_of_errors(struct run *r, int64_t before, const char *what)
{
    int64_t errors = r->phase.errors - before, all;
    MPI_Allreduce(&errors, &all, 1, MPI_INT64_T, MPI_SUM, r->w->comm);
    if (all && r->w->rank == 0)
        fprintf(stderr,
                "WARNING: Incorrect data on %s (%lld errors found).\n"
                "Used Time Stamp %u (0x%x) for Data Signature\n",
                what, (long long)all, r->phase.pattern.signature, r->phase.pattern.signature);
}

/* Said once, before the first repetition; without -E they are removed first. */
static void warn_of_overwriting(const struct run *r, int repetition)
{
    char path[4096];
    tb_path(path, sizeof(path), r->o, r->w, r->w->rank, repetition);
    if (owns_file(r) && !access(path, F_OK))
        fprintf(stderr, "WARNING: The file \"%s\" exists already and will be overwritten\n", path);
}

/* Without a deadline every rank writes all of its data: there are no counts to keep. */
static bool saves_status(const struct run *r)
{
    return r->o->write && r->o->deadline_s && r->o->status_file && r->w->rank == 0;
}

/*
 * Order: old files go, directories come, then the timed pass; sizes are looked at after the
 * close, when the file system must know them.
 */
static void write_data(struct run *r, int repetition)
{
    if (!repetition)
        warn_of_overwriting(r, repetition);
    if (!r->o->use_existing)
        remove_files(r, repetition);
    make_directory(r, repetition);
    announce(r, TB_WRITE);
    struct tb_result result = tb_phase_run(&r->phase, TB_WRITE, false, repetition);
    check_size(r, &result, repetition);
    if (saves_status(r))
        tb_status_save(r->o->status_file, r->phase.limits, r->w->tasks);
    record(r, &result);
}

/* Untimed: it has no result of its own. */
static void check_data(struct run *r, int repetition)
{
    int64_t before = r->phase.errors;
    announce(r, TB_CHECK);
    tb_phase_run(&r->phase, TB_CHECK, true, repetition);
    warn_of_errors(r, before, "write");
}

/* The size is looked at after a read too, but only a warning can come of it. */
static void read_data(struct run *r, int repetition)
{
    int64_t before = r->phase.errors;
    announce(r, TB_READ);
    struct tb_result result = tb_phase_run(&r->phase, TB_READ, r->o->check_read, repetition);
    check_size(r, &result, repetition);
    warn_of_errors(r, before, "read");
    record(r, &result);
}

/* All ranks must agree whether files are kept, or one would remove what another keeps. */
static bool any_errors(const struct run *r)
{
    int64_t errors = r->phase.errors;
    MPI_Allreduce(MPI_IN_PLACE, &errors, 1, MPI_INT64_T, MPI_SUM, r->w->comm);
    return errors;
}

/* Where nothing is written, the counts of an earlier run say how far reading may go. */
static void repeat(struct run *r, int repetition)
{
    if (r->o->write)
        write_data(r, repetition);
    else if (r->o->status_file)
        load_status(r);
    if (r->o->check_write)
        check_data(r, repetition);
    if (r->o->read)
        read_data(r, repetition);
    if (r->o->keep || (r->o->keep_with_error && any_errors(r)))
        return;
    double seconds = remove_files(r, repetition);
    if (!r->report || !r->o->verbose)
        return;
    tb_report_add(r->test, &(struct tb_result){.removal = true, .repetition = repetition, .total_s = seconds});
    if (r->report->output->removed)
        r->report->output->removed(r->report, r->test, seconds, repetition);
}

/* -M: memory that the page cache can't have, touched so that it is in memory. */
static void *occupy(const struct run *r)
{
    size_t bytes = (size_t)(r->o->memory_per_node / r->w->tasks_per_node + r->o->memory_per_task);
    void *memory = bytes ? tb_buffer(bytes) : NULL;
    if (memory)
        memset(memory, 1, bytes);
    return memory;
}

/* Cut to 32 bits, as IOR does. */
static uint32_t common_signature(const struct tb_options *o, MPI_Comm comm)
{
    uint32_t signature = (uint32_t)o->signature ? (uint32_t)o->signature : (uint32_t)time(NULL);
    MPI_Bcast(&signature, 1, MPI_UINT32_T, 0, comm);
    return signature;
}

/* Rank 0 decides, so that all ranks make the same number of repetitions. */
static bool time_is_over(const struct run *r, double start)
{
    int over = r->o->limit_min && MPI_Wtime() - start >= r->o->limit_min * 60.0;
    MPI_Bcast(&over, 1, MPI_INT, 0, r->w->comm);
    return over;
}

/* The first repetition is always made, however short the limit is. */
static void repeat_all(struct run *r)
{
    double start = MPI_Wtime();
    for (int i = 0; i < r->o->repetitions && !r->o->dry_run; i++) {
        if (i && time_is_over(r, start))
            break;
        repeat(r, i);
    }
}

/*
 * Memory first, and the status file: what is missing must be found out before hours of
 * measuring. Wrong data and short files end in the same exit status, which all ranks return.
 */
int tb_run(const struct tb_options *o, const struct tb_world *w, struct tb_report *report)
{
    struct run all = {.o = o, .w = w, .report = report}, *r = &all;
    r->phase = (struct tb_phase){.options = o, .world = w, .pattern = {o->packet, common_signature(o, w->comm)}};
    r->phase.data = tb_buffer((size_t)o->transfer);
    r->phase.limits = tb_buffer((size_t)w->tasks * sizeof(*r->phase.limits));
    r->phase.pairs = tb_buffer((size_t)w->tasks * sizeof(*r->phase.pairs));
    /* Held until the end, so that the page cache stays as small as asked for in all passes. */
    void *occupied = occupy(r);
    for (int i = 0; i < w->tasks; i++)
        r->phase.limits[i] = INT64_MAX;
    if (report) {
        r->test = tb_report_test(report, o, w);
        if (report->output->test)
            report->output->test(report, r->test, r->phase.pattern.signature);
    }
    if (saves_status(r))
        tb_status_prepare(o->status_file);
    repeat_all(r);
    if (report && report->output->test_end)
        report->output->test_end(report, r->test);
    int64_t errors = r->phase.errors + r->short_file;
    MPI_Allreduce(MPI_IN_PLACE, &errors, 1, MPI_INT64_T, MPI_SUM, w->comm);
    free(occupied);
    free(r->phase.data);
    free(r->phase.limits);
    free(r->phase.pairs);
    return errors ? TB_EXIT_DATA : 0;
}
