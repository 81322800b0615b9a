/*
 * tb-forge: from the command line to the report. Rank 0 reads scenario and map and hands their bytes on, so that all ranks run
 * the same; each then becomes an I/O node or a client of one of the jobs.
 */
#include "tb_forge.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { MOST_SCENARIO_BYTES = 16 << 20 }; /* each rank holds them all */

#define USAGE "tb-forge SCENARIO.json [OUTPUT_DIR]"
#define FIELD(name) offsetof(struct tb_options, name)
static const struct tb_option table[] = {
    {'\0', "in-flight", TB_INT, FIELD(in_flight), 1, TB_MOST_IN_FLIGHT, NULL, "requests that a client sends before it waits (1)"},
    {'\0', "aggregate", TB_INT, FIELD(aggregate), 1, TB_MOST_JOINED, NULL, "queued requests that an I/O node joins in one call (1)"},
    {'\0', "by-message", TB_FLAG, FIELD(by_message), 0, 0, NULL,
     "bytes go in messages where a client shares a compute node with its I/O node, too"},
    {'\0', "map", TB_TEXT, FIELD(map), 0, 0, NULL, "which I/O nodes serve which clients; read again when it changes"},
    {'\0', NULL, TB_FLAG, 0, 0, 0, NULL, NULL},
};

static bool is_directory(const char *path)
{
    struct stat st;
    return !stat(path, &st) && S_ISDIR(st.st_mode);
}

/* All ranks read the same line, so all accept it or all refuse it, and no word has to be sent. */
static bool read_line(struct tb_options *o, int argc, char **argv, struct tb_complaint *c)
{
    int words = 0;
    while (words + 1 < argc && argv[words + 1][0] != '-')
        words++;
    *o = (struct tb_options){.in_flight = 1, .aggregate = 1};
    if (words < 1 || words > 2)
        return tb_complain(c, "one or two words are expected, SCENARIO.json and OUTPUT_DIR; usage: " USAGE " [options]");
    o->scenario = argv[1];
    o->directory = words == 2 ? argv[2] : NULL;
    return tb_options_read(table, o, argc - words, argv + words, c);
}

/* Rank 0 looks, as it writes there; all ranks learn what it saw. */
static bool has_directory(const struct tb_options *o, const struct tb_world *w, struct tb_complaint *c)
{
    int there = !o->directory || w->rank != 0 || is_directory(o->directory);
    MPI_Bcast(&there, 1, MPI_INT, 0, w->comm);
    return there || tb_wrong(c, "OUTPUT_DIR", o->directory, "a directory that exists");
}

/*
 * Rank 0's bytes, on all ranks. NULL on all ranks where rank 0 could not read them; its complaint says why, and it alone
 * prints one.
 */
static char *share_text(const struct tb_world *w, const char *file, size_t most, size_t *length, struct tb_complaint *c)
{
    int64_t size = -1;
    char *text = w->rank == 0 ? tb_text_of(file, most, length, c) : NULL;
    if (text)
        size = (int64_t)*length;
    MPI_Bcast(&size, 1, MPI_INT64_T, 0, w->comm);
    if (size < 0)
        return NULL;
    if (w->rank != 0 && !(text = malloc((size_t)size + 1)))
        tb_fail(file, "read", -1, "no memory for the scenario");
    MPI_Bcast(text, (int)size, MPI_BYTE, 0, w->comm);
    *length = (size_t)size;
    return text;
}

/* Each rank parses the same bytes, so all come to the same end: no rank waits in a barrier for one that refused. */
static bool read_scenario(struct tb_scenario *s, const struct tb_world *w, const char *file, struct tb_complaint *c)
{
    size_t length = 0;
    char *text = share_text(w, file, MOST_SCENARIO_BYTES, &length, c);
    bool good = text && tb_scenario_parse(s, text, length, file, c) && tb_scenario_fits(s, w->tasks, file, c);
    free(text);
    return good;
}

static bool first_map(struct tb_map *m, const struct tb_scenario *s, const struct tb_world *w, const char *file, struct tb_complaint *c)
{
    int nodes = (int)s->forwarders, clients = w->tasks - nodes;
    size_t length = 0;
    if (!file)
        return tb_map_default(m, clients, nodes) || tb_complain(c, "no memory for the map");
    char *text = share_text(w, file, TB_MOST_MAP_BYTES, &length, c);
    bool good = text && tb_map_parse(m, text, length, file, clients, nodes, c);
    free(text);
    return good;
}

/* Ranks below `forwarders` are I/O nodes, so a client's number is its rank less their count. */
static struct tb_node_counts serve(const struct tb_scenario *s, const struct tb_world *w, const struct tb_options *o)
{
    struct tb_node_settings settings = {
        .clients = w->tasks - (int)s->forwarders,
        .handlers = (int)s->handlers,
        .dispatchers = (int)s->dispatchers,
        .aggregate = o->aggregate,
        .largest = (size_t)s->largest,
        .wire = w->comm,
    };
    return tb_io_node_run(&settings);
}

/*
 * Whether any I/O node is on this rank's compute node. It need not be the one that serves, and a map can change that: so
 * each open asks again whether the I/O node sees the buffers.
 */
static bool is_near(const struct tb_world *w, int serves)
{
    MPI_Comm node;
    int any;
    MPI_Comm_split_type(w->comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Allreduce(&serves, &any, 1, MPI_INT, MPI_MAX, node);
    MPI_Comm_free(&node);
    return any;
}

/* Which job's; clients are distributed to the jobs in the order of the scenario. */
static int64_t job_of(const struct tb_scenario *s, int64_t client)
{
    int64_t job = 0;
    for (int64_t first = 0; client >= first + s->jobs[job].clients; job++)
        first += s->jobs[job].clients;
    return job;
}

/*
 * The room is for all results and is got before the run, so that no measured read or write allocates. One more than needed,
 * as calloc of none may give NULL.
 */
static void be_client(struct tb_client *c, const struct tb_scenario *s)
{
    c->nodes_used = tb_look_around(c->comm).nodes;
    c->job = &s->jobs[c->job_number];
    c->outcomes = calloc((size_t)tb_transfers_of(c->job) + 1, sizeof(*c->outcomes));
    if (!c->outcomes)
        tb_fail("memory", "allocate", -1, "no room for results");
    tb_client_run(c);
}

static void forget_client(struct tb_client *c)
{
    for (size_t i = 0; i < c->follow_count; i++)
        free(c->follows[i].nodes);
    free(c->follows);
    free(c->outcomes);
    tb_map_free(&c->map);
}

static void say_started(char *out, size_t room)
{
    time_t now = time(NULL);
    struct tm local;
    localtime_r(&now, &local);
    strftime(out, room, "%Y-%m-%dT%H:%M:%S%z", &local);
}

/* Files come before the text: when a user reads the text, they are there. */
static void tell(struct tb_report *r, const struct tb_client *client, const struct tb_node_counts *counts)
{
    tb_report_gather(r, client, counts);
    if (r->world.rank == 0) {
        if (r->options->directory) {
            tb_write_forge_files(r);
            tb_write_json(r);
        }
        tb_report_print(r, stdout);
    }
    tb_report_free(r);
}

/* The zero of all times is taken right after a barrier, on each rank by its own clock. */
static void run(const struct tb_options *o, const struct tb_scenario *s, const struct tb_world *w, struct tb_map *map)
{
    struct tb_report report = {.options = o, .scenario = s, .world = *w};
    struct tb_node_counts counts = {0};
    struct tb_client client = {.scenario = s, .options = o, .nodes = (int)s->forwarders, .wire = w->comm, .map = *map};
    bool serves = w->rank < s->forwarders;
    say_started(report.started, sizeof(report.started));
    client.number = w->rank - client.nodes;
    client.clients = w->tasks - client.nodes;
    client.near = is_near(w, serves) && !o->by_message;
    client.job_number = serves ? 0 : job_of(s, client.number);
    MPI_Comm_split(w->comm, serves ? MPI_UNDEFINED : (int)client.job_number, 0, &client.comm);
    MPI_Barrier(w->comm);
    client.zero = MPI_Wtime();
    if (serves)
        counts = serve(s, w, o);
    else
        be_client(&client, s);
    tell(&report, serves ? NULL : &client, &counts);
    if (!serves)
        MPI_Comm_free(&client.comm);
    forget_client(&client);
}

static int run_line(int argc, char **argv)
{
    struct tb_world w = tb_look_around(MPI_COMM_WORLD);
    struct tb_options o;
    struct tb_scenario s = {0};
    struct tb_map map = {0};
    struct tb_complaint c = {.text = ""};
    if (tb_answered(&w, argc, argv, NULL))
        return 0;
    if (argc == 2 && !strcmp(argv[1], "--help")) {
        if (w.rank == 0)
            tb_options_help(table, USAGE, stdout);
        return 0;
    }
    bool good = read_line(&o, argc, argv, &c) && has_directory(&o, &w, &c) && read_scenario(&s, &w, o.scenario, &c) &&
                first_map(&map, &s, &w, o.map, &c);
    if (good)
        run(&o, &s, &w, &map);
    else if (w.rank == 0)
        fprintf(stderr, TB_PROGRAM ": %s\n", c.text);
    /* run() gave the map to the client, which freed it. */
    if (!good)
        tb_map_free(&map);
    tb_scenario_free(&s);
    return good ? 0 : TB_EXIT_USAGE;
}

/* Of an I/O node's threads one at a time talks MPI. */
int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
    int status = provided < MPI_THREAD_SERIALIZED ? TB_EXIT_IO : run_line(argc, argv);
    if (provided < MPI_THREAD_SERIALIZED)
        fprintf(stderr, TB_PROGRAM ": the MPI library allows no threads in turn\n");
    MPI_Finalize();
    return status;
}
