/*
 * Start and end: the world of ranks, the tests, the report, and one exit status for all. Rank
 * 0 alone prints. An error on any rank becomes the status of all by a collective call, so no
 * rank may leave before it.
 */
#include "tb_ior.h"

#include <stdlib.h>

/* The largest status wins. Every rank must come here. */
static int agree(int status)
{
    MPI_Allreduce(MPI_IN_PLACE, &status, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return status;
}

/* -N leaves the last ranks out; how many a node has is still said, and counted by -C, of all of them. */
static int run_test(const struct tb_options *o, const struct tb_world *w, struct tb_report *report)
{
    MPI_Comm some;
    int status = 0;
    if (o->tasks > w->tasks && w->rank == 0)
        fprintf(stderr, "WARNING: More tasks requested (%d) than available (%d),\nWARNING: running with %d tasks.\n", o->tasks, w->tasks,
                w->tasks);
    if (o->tasks < 0 || o->tasks >= w->tasks)
        return tb_run(o, w, report);
    MPI_Comm_split(w->comm, w->rank < o->tasks ? 0 : MPI_UNDEFINED, w->rank, &some);
    if (some != MPI_COMM_NULL) {
        struct tb_world part = tb_look_around(some);
        part.tasks_per_node = w->tasks_per_node;
        status = tb_run(o, &part, report);
        MPI_Comm_free(&some);
    }
    return agree(status);
}

/* The report is one of all tests: what holds at the end of a script says where and how. */
static int measure(const struct tb_tests *tests, const struct tb_world *w, const char *command_line)
{
    struct tb_report report, *mine = w->rank == 0 ? &report : NULL;
    int status = mine && !tb_report_open(mine, &tests->options[tests->count - 1], command_line, tests->count) ? TB_EXIT_USAGE : 0;
    if ((status = agree(status)))
        return status;
    for (size_t i = 0; i < tests->count; i++) {
        int now = run_test(&tests->options[i], w, mine);
        status = now > status ? now : status;
    }
    if (mine && !tb_report_close(mine))
        status = TB_EXIT_IO;
    return agree(status);
}

/* Touches no file; a stdout that takes nothing more is still an error. */
static int answer(const struct tb_options *o, bool print)
{
    if (print && o->version)
        printf("%s %s\n", TB_PROGRAM, TB_VERSION);
    else if (print)
        tb_ior_help(stdout);
    return fflush(stdout) ? TB_EXIT_IO : 0;
}

static int run(const struct tb_world *w, int argc, char **argv)
{
    struct tb_options o;
    struct tb_tests tests = {0};
    struct tb_complaint c;
    char *command_line = tb_join(argc, argv, ""); /* before the parser takes its words apart */
    int status = TB_EXIT_USAGE;
    if (!command_line)
        tb_fail("memory", "allocate", -1, "none left");
    bool good = tb_ior_options(&o, &tests, argc, argv, w->tasks, &c);
    if (good)
        status = o.version || o.help ? answer(&o, w->rank == 0) : measure(&tests, w, command_line);
    else if (w->rank == 0)
        fprintf(stderr, "%s: %s\n", TB_PROGRAM, c.text);
    tb_tests_free(&tests);
    free(command_line);
    return status;
}

/* All ranks return the same status, so that a launcher that looks at one of them sees it. */
int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    struct tb_world w = tb_look_around(MPI_COMM_WORLD);
    int status = run(&w, argc, argv);
    MPI_Finalize();
    return status;
}
