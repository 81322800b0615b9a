/*
 * Start and end: options, the tests for each number of ranks, the report, and one exit status
 * for all. Ranks that a test does not use wait at its end, so that the next one begins
 * together.
 */
#include "tb_mdtest.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Memory that is missing ends all ranks: one that went on alone would hang the others. */
static void *need(void *memory)
{
    if (!memory)
        tb_fail("memory", "allocate", -1, "too many ranks, iterations or items");
    return memory;
}

/* The seed of rank r is -R's seed plus r, so that ranks differ and runs repeat. */
static int64_t *shuffled(int64_t count, uint64_t state)
{
    int64_t *order = need(malloc(((size_t)count + 1) * sizeof(*order)));
    for (int64_t i = 0; i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        int64_t j = (int64_t)((state >> 33) % (uint64_t)(i + 1));
        order[i] = order[j];
        order[j] = i;
    }
    return order;
}

/* Rank 0 keeps its own times as the iteration's and every rank's for the table of ranks. */
static void keep_result(struct tb_report *report, const struct tb_run *r, int iteration)
{
    size_t at = (size_t)iteration * (size_t)r->tasks * TB_OPERATIONS;
    if (r->rank == 0)
        report->results[iteration] = r->result;
    MPI_Gather(r->result.rank_seconds, TB_OPERATIONS, MPI_DOUBLE, report->rank_seconds + at, TB_OPERATIONS, MPI_DOUBLE, 0, r->comm);
    MPI_Gather(r->result.rank_items, TB_OPERATIONS, MPI_INT64_T, report->rank_items + at, TB_OPERATIONS, MPI_INT64_T, 0, r->comm);
}

/* Results of one number of ranks: they are printed and freed before the next one. */
static void test_on(struct tb_run *r, struct tb_report *report)
{
    const struct tb_options *o = r->options;
    if (r->rank == 0) {
        size_t cells = (size_t)o->iterations * (size_t)r->tasks * TB_OPERATIONS;
        report->results = need(calloc((size_t)o->iterations, sizeof(*report->results)));
        report->rank_seconds = need(calloc(cells, sizeof(*report->rank_seconds)));
        report->rank_items = need(calloc(cells, sizeof(*report->rank_items)));
        tb_print_test(o, r->plan, r->tasks);
    }
    for (int i = 0; i < o->iterations; i++) {
        tb_iterate(r, i);
        keep_result(report, r, i);
        if (r->rank == 0)
            tb_print_iteration(r, i);
    }
    if (r->rank)
        return;
    tb_print_summary(report);
    if (report->rank_file)
        tb_ranks_write(report, r->plan->items * r->plan->loops);
    free(report->results);
    free(report->rank_seconds);
    free(report->rank_items);
}

/* A communicator of the first ranks; the others have none and only wait. */
static void test(struct tb_run *r, struct tb_report *report, int tasks)
{
    int world_rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_split(MPI_COMM_WORLD, world_rank < tasks ? 0 : MPI_UNDEFINED, world_rank, &r->comm);
    r->tasks = report->tasks = tasks;
    r->rank = world_rank;
    if (r->comm != MPI_COMM_NULL) {
        test_on(r, report);
        MPI_Comm_free(&r->comm);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* The time is rank 0's for all, because signature and seed must be the same on every rank. */
static void prepare(struct tb_run *r, int rank)
{
    const struct tb_options *o = r->options;
    int64_t bytes = o->write_bytes > o->read_bytes ? o->write_bytes : o->read_bytes, now = time(NULL);
    MPI_Bcast(&now, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
    r->pattern = (struct tb_pattern){o->packet, (uint32_t)(o->signature < 0 ? now : o->signature)};
    r->data = tb_buffer((size_t)bytes);
    tb_fill(&r->pattern, r->data, (size_t)bytes, rank);
    int64_t seed = o->random_seed ? o->random_seed : now;
    r->shuffle = o->random_order ? shuffled(r->plan->items, (uint64_t)seed + (uint64_t)rank) : NULL;
    if (o->random_order && rank == 0)
        printf("random seed: %lld\n", (long long)seed);
}

/* 1 for each rank that is on the node of rank 0. */
static char *node_map(const struct tb_world *w)
{
    char name[MPI_MAX_PROCESSOR_NAME] = "", first[MPI_MAX_PROCESSOR_NAME], mine;
    char *map = need(calloc((size_t)w->tasks + 1, 1));
    int length;
    MPI_Get_processor_name(name, &length);
    memcpy(first, name, sizeof(first));
    MPI_Bcast(first, sizeof(first), MPI_CHAR, 0, MPI_COMM_WORLD);
    mine = strcmp(first, name) ? '0' : '1';
    MPI_Gather(&mine, 1, MPI_CHAR, map, 1, MPI_CHAR, 0, MPI_COMM_WORLD);
    return map;
}

/* Rank 0 tries and tells: all ranks end together where it has no place. */
static bool open_rank_file(struct tb_report *report, const struct tb_world *w)
{
    const char *path = report->options->rank_file;
    int good = 1;
    if (w->rank == 0 && path)
        good = (report->rank_file = tb_ranks_open(path)) != NULL;
    MPI_Bcast(&good, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return good;
}

/* mdtest warns of a read without bytes, since its rate is that of opening alone. */
static void begin(const struct tb_options *o, const struct tb_world *w, const char *command_line)
{
    char *map = node_map(w);
    if (w->rank == 0) {
        if (!o->read_bytes && !o->dirs_only && tb_selected(o, o->read_only))
            fprintf(stderr, "WARNING: Read bytes is 0, thus, a read test will actually just open/close\n");
        tb_print_begin(o, w, command_line, map);
    }
    free(map);
}

/* Failures and wrong bytes of all ranks, each said once. */
static int sum_up(const struct tb_run *r, const struct tb_world *w)
{
    int64_t bad[2] = {r->failures, r->wrong};
    MPI_Allreduce(MPI_IN_PLACE, bad, 2, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    if (w->rank == 0 && bad[0])
        fprintf(stderr, "%s: %lld operations failed\n", TB_PROGRAM, (long long)bad[0]);
    if (w->rank == 0 && bad[1])
        printf("\nERROR: verifying the data on read (%lld errors)! Take the performance values with care!\n\n", (long long)bad[1]);
    return bad[0] || bad[1] ? TB_EXIT_DATA : 0;
}

/* A base that was there before stays; one that this run made is removed at the end. */
static int measure(const struct tb_options *o, const struct tb_plan *plan, const struct tb_world *w, const char *command_line)
{
    struct tb_run r = {.options = o, .plan = plan};
    struct tb_report report = {.options = o};
    if (!open_rank_file(&report, w))
        return TB_EXIT_USAGE;
    r.rank = w->rank;
    begin(o, w, command_line);
    prepare(&r, w->rank);
    tb_count_file_prepare(&r);
    bool made_base = tb_selected(o, o->create_only) && tb_base_create(&r);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int64_t tasks = o->first_tasks; tasks <= o->last_tasks; tasks += o->step_tasks)
        test(&r, &report, (int)tasks);
    if (made_base && tb_selected(o, o->remove_only))
        tb_base_remove(&r);
    int status = sum_up(&r, w);
    if (w->rank == 0)
        tb_print_end();
    if (report.rank_file)
        tb_ranks_close(report.rank_file, o->rank_file);
    free(r.data);
    free(r.shuffle);
    return status;
}

/*
 * --help and --version come before any rule: they are answered also beside options that do not
 * fit.
 */
static int run(const struct tb_world *w, int argc, char **argv)
{
    struct tb_options o;
    struct tb_plan plan = {0};
    struct tb_complaint c;
    bool first = w->rank == 0, good = tb_mdtest_options(&o, argc, argv, w->tasks, &c);
    if (good && (o.version || o.help)) {
        if (first && o.version)
            printf("%s %s\n", TB_PROGRAM, TB_VERSION);
        else if (first)
            tb_mdtest_help(stdout);
        return 0;
    }
    if (!good || !tb_plan_make(&plan, &o, &c)) {
        if (first)
            fprintf(stderr, "%s: %s\n", TB_PROGRAM, c.text);
        return TB_EXIT_USAGE;
    }
    char *command_line = need(tb_join(argc, argv, "'"));
    int status = measure(&o, &plan, w, command_line);
    free(command_line);
    tb_plan_free(&plan);
    return status;
}

/* The output is flushed before the status is known: a report that was not written is no success. */
int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    struct tb_world w = tb_look_around(MPI_COMM_WORLD);
    int status = run(&w, argc, argv);
    bool written = fflush(stdout) == 0 && !ferror(stdout); /* one of before may have failed */
    if (!written && w.rank == 0)
        fprintf(stderr, "%s: standard output: the report could not be written\n", TB_PROGRAM);
    MPI_Finalize();
    return status ? status : written ? 0 : TB_EXIT_IO;
}
