/*
 * tb-forge: what I/O forwarding does to an access pattern. The first ranks are I/O nodes, which read and write for the
 * others, the clients; with none of them the clients read and write themselves.
 *
 * main reads the command line and the scenario (folder input), and reports (folder report). A client runs its patterns
 * (client.c): layout.c computes their requests, input/map.c the I/O node that serves them, and channel.c sends them, with
 * the bytes in messages or in memory that both see (memory.c). An I/O node (folder io_node) receives and queues them, and
 * does them in threads on its files (files.c). Without I/O nodes the channel does requests on files of its own.
 */
#ifndef TB_FORGE_H
#define TB_FORGE_H

#include "driver.h"

#include <jansson.h>
#include <sys/uio.h>

/* main.c */
struct tb_options {
    const char *scenario, *directory, *map; /* directory and map: NULL where there is none */
    int in_flight, aggregate;
    bool by_message; /* never in memory that client and I/O node share */
};
enum { TB_MOST_IN_FLIGHT = 64, TB_MOST_JOINED = 256 };

/*
 * json.c: values of a document that a message can name. A node knows its path in the document,
 * so that a refusal says FILE: PATH: VALUE; allowed: ...
 */
struct tb_json {
    const struct tb_json *parent;
    const char *key; /* NULL: an element of a list */
    size_t index;
    const json_t *value;
    const char *file;
};
/* Always false. `what` is what is allowed there. */
bool tb_json_refuse(const struct tb_json *node, const char *what, struct tb_complaint *c);
json_t *tb_json_parse(const char *text, size_t length, const char *file, struct tb_complaint *c);
/* Is it an object with no key that is not in `keys`? The list ends with NULL. */
bool tb_json_object(const struct tb_json *node, const char *const *keys, struct tb_complaint *c);
bool tb_json_list(const struct tb_json *node, size_t least, size_t most, const char *of, struct tb_complaint *c);
struct tb_json tb_json_element(const struct tb_json *list, size_t index);
struct tb_json tb_json_member(const struct tb_json *object, const char *key); /* its value is NULL where there is none */
/* A whole number, or one as text, which FORGE's own examples have. */
bool tb_json_whole(const struct tb_json *node, int64_t least, int64_t most, int64_t *out, struct tb_complaint *c);
bool tb_json_text(const struct tb_json *node, const char **out, struct tb_complaint *c);
bool tb_json_word(const struct tb_json *node, const char *const *words, const char *allowed, int *out, struct tb_complaint *c);

/* text_file.c: a whole file; the caller frees it. NULL: the complaint says why. */
char *tb_text_of(const char *file, size_t most, size_t *length, struct tb_complaint *c);

/* scenario.c: what is run, of FORGE's two formats or of ours, which names jobs. */
enum tb_operation { TB_OPEN, TB_CLOSE, TB_WRITE, TB_READ };
enum tb_format { TB_PHASES, TB_FLAT, TB_JOBS };
struct tb_access {
    enum tb_operation operation;
    char *path;
    bool shared, strided, validate, direct;
    int64_t total, request, stonewall;
};
struct tb_phase {
    int64_t repetitions;
    size_t count;
    struct tb_access *patterns;
};
struct tb_job {
    char *name;
    int64_t clients; /* 0: all there are */
    size_t count;
    struct tb_phase *phases;
};
struct tb_scenario {
    enum tb_format format;
    int64_t forwarders, handlers, dispatchers;
    size_t count;
    struct tb_job *jobs;
    int64_t largest; /* request in bytes */
};
bool tb_scenario_parse(struct tb_scenario *s, const char *text, size_t length, const char *file, struct tb_complaint *c);
/* Whether that many ranks can run it. The jobs of a good one have clients and together use all. */
bool tb_scenario_fits(struct tb_scenario *s, int tasks, const char *file, struct tb_complaint *c);
void tb_scenario_free(struct tb_scenario *s);
int64_t tb_transfers_of(const struct tb_job *job); /* how many reads and writes it makes, with repetitions */
/* patterns.c: one access pattern of a scenario. */
bool tb_pattern_read(struct tb_access *p, const struct tb_json *node, struct tb_complaint *c);
bool tb_flat_read(struct tb_phase *phase, const struct tb_json *node, struct tb_complaint *c);
/* Whether files are open where they are used; says each open whether O_DIRECT comes, each use its path. */
bool tb_patterns_resolve(struct tb_job *job, const struct tb_json *phases, struct tb_complaint *c);

/* layout.c: the requests of a pattern. All clients' requests together are its total size, the last one the remainder. */
int64_t tb_requests_of(const struct tb_access *p);                          /* of all clients */
int64_t tb_requests_at(const struct tb_access *p, int clients, int client); /* of one */
struct tb_extent {
    int64_t offset;
    size_t size;
};
struct tb_extent tb_extent_of(const struct tb_access *p, int clients, int client, int64_t number);
char *tb_file_name(const struct tb_access *p, int client); /* the caller frees it; NULL: no memory */

/* map.c: which I/O node serves a client, from a file that may change while clients run. */
enum { TB_NO_NODE = -1, TB_MOST_MAP_BYTES = 64 << 20 }; /* TB_NO_NODE: the client reads and writes itself */
struct tb_map_entry {
    int first, last, count;
    int *nodes;
};
struct tb_map {
    int64_t epoch;
    size_t count;
    struct tb_map_entry *entries;
};
bool tb_map_parse(struct tb_map *m, const char *text, size_t length, const char *file, int clients, int nodes, struct tb_complaint *c);
bool tb_map_read(struct tb_map *m, const char *file, int clients, int nodes, struct tb_complaint *c);
/* What FORGE does: each I/O node has a block of neighbours. */
bool tb_map_default(struct tb_map *m, int clients, int nodes);
const struct tb_map_entry *tb_map_entry_of(const struct tb_map *m, int client);
int tb_map_node_of(const struct tb_map *m, int client);
void tb_map_free(struct tb_map *m);

/* files.c: files that are open, each name once, however many clients opened it. Safe for threads. */
struct tb_files;
struct tb_files *tb_files_new(void); /* NULL: no memory */
void tb_files_free(struct tb_files *f);
int tb_files_open(struct tb_files *f, const char *path, bool direct); /* a handle, or -errno */
int tb_files_close(struct tb_files *f, int handle);
/* All bytes or -errno. The end of the file is -ENODATA. Joined pieces are one after the other in the file. */
int tb_files_write(struct tb_files *f, int handle, bool direct, const struct iovec *pieces, int count, int64_t offset);
int tb_files_read(struct tb_files *f, int handle, bool direct, const struct iovec *pieces, int count, int64_t offset);

/* io_node.c: the rank's work until all clients ended. */
struct tb_node_counts {
    int64_t node, open, read, write, close, read_bytes, write_bytes, read_calls, write_calls, in_place; /* in_place: reads and writes */
};
struct tb_node_settings {
    int clients, handlers, dispatchers, aggregate;
    size_t largest;
    MPI_Comm wire;
};
struct tb_node_counts tb_io_node_run(const struct tb_node_settings *s);

/* channel.c: a client's requests, several at once, to the I/O node that serves it, or on files of its own. */
struct tb_channel;
struct tb_transfer {
    enum tb_operation operation; /* write or read */
    bool direct, check;
    struct tb_extent extent;
};
typedef void tb_took(void *reader, const struct tb_transfer *t, const void *data);
struct tb_channel_settings {
    int in_flight, nodes;
    size_t largest;
    bool near; /* an I/O node may be on this compute node and see the buffers */
    char fill; /* what the buffers hold at first */
    MPI_Comm wire;
    tb_took *took; /* gets what was read */
    void *reader;
};
/* These end all ranks where a request fails or the I/O node gives no sign of life. */
struct tb_channel *tb_channel_new(const struct tb_channel_settings *s, int node);
void tb_channel_free(struct tb_channel *ch);              /* tells each I/O node that this client ended */
void tb_channel_turn_to(struct tb_channel *ch, int node); /* which serves from now on; waits for what is under way */
void tb_channel_open(struct tb_channel *ch, const char *path, bool direct);
void tb_channel_close(struct tb_channel *ch);
void *tb_channel_buffer(struct tb_channel *ch); /* of the next request; waits until one is free */
void tb_channel_send(struct tb_channel *ch, const struct tb_transfer *t);
void tb_channel_drain(struct tb_channel *ch);
int64_t tb_channel_messages(const struct tb_channel *ch); /* so far, both ways */

/* content.c: the bytes at a place of a file, where they are validated; `file` tells files apart. */
void tb_content_put(void *data, size_t bytes, int file, int64_t offset);
bool tb_content_holds(const void *data, size_t bytes, int file, int64_t offset);

/* client.c */
struct tb_outcome { /* of one read or write, over the clients of its job */
    int64_t phase, repetition, pattern, requests, bytes, messages, validated;
    double stonewall_hit, began, min, q1, median, q3, max, mean; /* stonewall_hit: -1 where all finished */
};
struct tb_follow { /* a map that a job's first client began to use */
    int64_t job, epoch;
    double at;
    int count;
    int *nodes; /* `count` of them */
};
struct tb_client {
    const struct tb_scenario *scenario;
    const struct tb_options *options;
    const struct tb_job *job;
    int number, clients, nodes; /* clients count over all jobs */
    int nodes_used;             /* compute nodes of its job */
    bool near;                  /* an I/O node is on its compute node */
    int64_t job_number;
    MPI_Comm wire, comm;         /* of all ranks; of the job's clients */
    double zero;                 /* MPI_Wtime at the start of the run */
    struct tb_outcome *outcomes; /* of the job's first client: tb_transfers_of(job) */
    struct tb_follow *follows;
    size_t follow_count;
    struct tb_map map;
};
void tb_client_run(struct tb_client *client);

/* report/report.c: what all ranks tell rank 0, and the text for people. */
struct tb_report {
    const struct tb_options *options;
    const struct tb_scenario *scenario;
    struct tb_world world;
    char started[64];
    int *job_nodes;               /* compute nodes of each job */
    struct tb_outcome **outcomes; /* by job */
    struct tb_node_counts *nodes; /* by I/O node */
    struct tb_follow *follows;
    size_t follow_count;
};
/* Each rank gives what it has, NULL where it has none; rank 0 has it all then. */
void tb_report_gather(struct tb_report *r, const struct tb_client *client, const struct tb_node_counts *counts);
void tb_report_print(const struct tb_report *r, FILE *out);
void tb_report_free(struct tb_report *r);
double tb_bandwidth(const struct tb_outcome *o); /* MiB/s, by the slowest client */
/* Visits the reads and writes of all jobs in order. */
typedef void tb_visit(void *with, int64_t job, const struct tb_access *p, const struct tb_outcome *o);
void tb_report_each(const struct tb_report *r, tb_visit *visit, void *with);

/* report/output_forge.c and report/output_json.c: the files in the output directory; what fails ends all ranks. */
void tb_write_forge_files(const struct tb_report *r);
void tb_write_json(const struct tb_report *r);
/* Written beside it and renamed: a file is whole or not there. */
struct tb_output {
    FILE *file;
    char name[4200], part[4210];
};
void tb_output_begin(struct tb_output *o, const char *directory, const char *name);
void tb_output_end(struct tb_output *o);

static inline const char *tb_operation_name(enum tb_operation operation)
{
    static const char *const names[] = {"open", "close", "write", "read"};
    return names[operation];
}

#endif
