/*
 * What a client does: the patterns of its job one after the other, each begun by all clients of the job together. The time
 * of a read or write is from a client's first request to its last answer. Between requests it looks whether the map of
 * I/O nodes changed.
 */
#include "tb_forge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const double LOOK_EVERY_S = 0.05; /* at the map file: a stat on a PFS is a request, too */

/* The last write: a read of the same requests after a stonewall reads only those that were made. */
struct written {
    const struct tb_access *access;
    int64_t count;
};

struct run {
    struct tb_client *client;
    struct tb_channel *channel;
    int rank, ranks; /* in the job */
    bool validates;  /* a pattern of the job does: all writes then have content that can be checked */
    int file;        /* the open one, to tell it from the other clients' */
    struct written written;
    int64_t validated;
    double looked;
    struct stat map_seen;
    size_t outcome_count;
};

/* The part of an outcome that is one client's. */
struct part {
    int64_t requests, bytes, messages, validated;
    double began, seconds, stopped; /* stopped: -1 where it finished */
};

/* MPI's clocks of two compute nodes may differ, so a time is always told from the start of the run on the same rank. */
static double since_start(const struct run *r)
{
    return MPI_Wtime() - r->client->zero;
}

/* Of a job's first client alone. */
static void note_follow(struct run *r)
{
    struct tb_client *c = r->client;
    const struct tb_map_entry *e = tb_map_entry_of(&c->map, c->number);
    struct tb_follow *more = realloc(c->follows, (c->follow_count + 1) * sizeof(*more));
    int *nodes = malloc(((size_t)e->count + 1) * sizeof(*nodes));
    if (!more || !nodes)
        tb_fail(c->options->map, "follow", -1, strerror(ENOMEM));
    memcpy(nodes, e->nodes, (size_t)e->count * sizeof(*nodes));
    c->follows = more;
    c->follows[c->follow_count++] =
        (struct tb_follow){.job = c->job_number, .epoch = c->map.epoch, .at = since_start(r), .count = e->count, .nodes = nodes};
}

/* A map that cannot be used is told and the one before it goes on: the run need not die of a typing error. */
static void follow(struct run *r)
{
    struct tb_client *c = r->client;
    struct tb_complaint complaint;
    struct tb_map map;
    if (!tb_map_read(&map, c->options->map, c->clients, c->nodes, &complaint)) {
        if (r->rank == 0)
            fprintf(stderr, TB_PROGRAM ": %s; the map before it goes on\n", complaint.text);
        return;
    }
    if (map.epoch <= c->map.epoch) {
        tb_map_free(&map);
        return;
    }
    tb_map_free(&c->map);
    c->map = map;
    tb_channel_turn_to(r->channel, tb_map_node_of(&c->map, c->number));
    if (r->rank == 0)
        note_follow(r);
}

/* Renaming gives the name another inode, but a file system may give a number out again at once: so size and time count, too. */
static bool is_other(const struct stat *a, const struct stat *b)
{
    return a->st_ino != b->st_ino || a->st_size != b->st_size || a->st_mtim.tv_sec != b->st_mtim.tv_sec ||
           a->st_mtim.tv_nsec != b->st_mtim.tv_nsec;
}

/*
 * What was seen is noted before the file is read. A map that is renamed into place in between is then another one at the
 * next look, and is read again. The first look always reads; a map with the epoch in use changes nothing.
 */
static void look_at_map(struct run *r)
{
    struct stat now;
    if (!r->client->options->map || MPI_Wtime() - r->looked < LOOK_EVERY_S)
        return;
    r->looked = MPI_Wtime();
    if (stat(r->client->options->map, &now) || !is_other(&now, &r->map_seen))
        return;
    r->map_seen = now;
    follow(r);
}

/* Wrong bytes end all ranks: a bandwidth of bytes that are not the file's would be a wrong result. */
static void compare(void *reader, const struct tb_transfer *t, const void *data)
{
    struct run *r = reader;
    if (!t->check)
        return;
    if (!tb_content_holds(data, t->extent.size, r->file, t->extent.offset)) {
        fprintf(stderr, TB_PROGRAM ": client %d: the file does not hold what was written at offset %lld\n", r->client->number,
                (long long)t->extent.offset);
        MPI_Abort(MPI_COMM_WORLD, TB_EXIT_DATA);
    }
    r->validated += (int64_t)t->extent.size;
}

/* Content costs time within the measurement, so only a job that validates pays for it. Others send what the buffers hold. */
static size_t send_one(struct run *r, const struct tb_access *p, enum tb_operation operation, int64_t number)
{
    struct tb_transfer t = {
        .operation = operation,
        .direct = p->direct,
        .check = p->validate,
        .extent = tb_extent_of(p, r->ranks, r->rank, number),
    };
    void *data = tb_channel_buffer(r->channel);
    if (operation == TB_WRITE && r->validates)
        tb_content_put(data, t.extent.size, r->file, t.extent.offset);
    tb_channel_send(r->channel, &t);
    return t.extent.size;
}

/* Whether request number n is the same range of the same file in both. */
static bool same_requests(const struct tb_access *a, const struct tb_access *b)
{
    return a->shared == b->shared && a->strided == b->strided && a->total == b->total && a->request == b->request &&
           !strcmp(a->path, b->path);
}

static int64_t requests_due(const struct run *r, const struct tb_access *p)
{
    if (p->operation == TB_READ && r->written.access && same_requests(p, r->written.access))
        return r->written.count;
    return tb_requests_at(p, r->ranks, r->rank);
}

/*
 * The stonewall is looked at before a request and not in it: what was begun is finished, and its bytes and time count. So
 * does the time of a turn to another I/O node.
 */
static struct part send_all(struct run *r, const struct tb_access *p)
{
    int64_t due = requests_due(r, p), before = tb_channel_messages(r->channel);
    double began = MPI_Wtime();
    struct part part = {.began = began - r->client->zero, .stopped = -1};
    while (part.requests < due) {
        if (p->stonewall && MPI_Wtime() - began >= (double)p->stonewall) {
            part.stopped = MPI_Wtime() - began;
            break;
        }
        look_at_map(r);
        part.bytes += (int64_t)send_one(r, p, p->operation, part.requests++);
    }
    tb_channel_drain(r->channel);
    part.seconds = MPI_Wtime() - began;
    part.messages = tb_channel_messages(r->channel) - before;
    return part;
}

/* Of what was acknowledged, by each client its own, after the time was taken. */
static void read_back(struct run *r, const struct tb_access *p, int64_t requests)
{
    for (int64_t i = 0; i < requests; i++)
        send_one(r, p, TB_READ, i);
    tb_channel_drain(r->channel);
}

static int by_size(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Between two values in proportion. */
static double quantile(const double *sorted, int count, double share)
{
    double place = share * (count - 1);
    int low = (int)place, high = low + 1 < count ? low + 1 : low;
    return sorted[low] + (sorted[high] - sorted[low]) * (place - low);
}

/* What the clients needed, as FORGE tells it. The slowest one is the time of the whole. */
static void summarise(struct tb_outcome *o, double *seconds, int count)
{
    qsort(seconds, (size_t)count, sizeof(*seconds), by_size);
    for (int i = 0; i < count; i++)
        o->mean += seconds[i] / count;
    o->min = seconds[0];
    o->q1 = quantile(seconds, count, 0.25);
    o->median = quantile(seconds, count, 0.5);
    o->q3 = quantile(seconds, count, 0.75);
    o->max = seconds[count - 1];
}

/* The job's first client knows the whole. */
static void gather(struct run *r, struct tb_outcome outcome, const struct part *part)
{
    MPI_Comm comm = r->client->comm;
    int64_t mine[] = {part->requests, part->bytes, part->messages, part->validated}, all[4];
    double *seconds = tb_buffer((size_t)r->ranks * sizeof(*seconds));
    MPI_Reduce(mine, all, 4, MPI_INT64_T, MPI_SUM, 0, comm);
    MPI_Reduce(&part->began, &outcome.began, 1, MPI_DOUBLE, MPI_MIN, 0, comm);
    MPI_Reduce(&part->stopped, &outcome.stonewall_hit, 1, MPI_DOUBLE, MPI_MAX, 0, comm);
    MPI_Gather(&part->seconds, 1, MPI_DOUBLE, seconds, 1, MPI_DOUBLE, 0, comm);
    if (r->rank == 0) {
        outcome.requests = all[0];
        outcome.bytes = all[1];
        outcome.messages = all[2];
        outcome.validated = all[3];
        summarise(&outcome, seconds, r->ranks);
        r->client->outcomes[r->outcome_count++] = outcome;
    }
    free(seconds);
}

/* The barrier is the common start. Reading back comes after the time is taken, and its requests and messages are not counted. */
static void transfer(struct run *r, const struct tb_access *p, struct tb_outcome outcome)
{
    r->validated = 0;
    MPI_Barrier(r->client->comm);
    struct part part = send_all(r, p);
    if (p->operation == TB_WRITE)
        r->written = (struct written){p, part.requests};
    if (p->operation == TB_WRITE && p->validate)
        read_back(r, p, part.requests);
    part.validated = r->validated;
    gather(r, outcome, &part);
}

/*
 * No client uses it before all have opened it, as each read or write begins with a barrier (transfer). `file` tells a file
 * of one's own from the other clients': validated bytes that came from another client's file differ.
 */
static void open_file(struct run *r, const struct tb_access *p)
{
    char *name = tb_file_name(p, r->rank);
    if (!name)
        tb_fail(p->path, "open", -1, strerror(ENOMEM));
    r->file = p->shared ? 0 : r->rank;
    tb_channel_open(r->channel, name, p->direct);
    free(name);
}

static void run_pattern(struct run *r, const struct tb_access *p, struct tb_outcome outcome)
{
    if (p->operation == TB_OPEN)
        open_file(r, p);
    else if (p->operation == TB_CLOSE)
        tb_channel_close(r->channel);
    else
        transfer(r, p, outcome);
}

/*
 * A file may stay open from one pattern, phase or repetition to the next; tb_patterns_resolve refused what uses a file that
 * is not open.
 */
static void run_job(struct run *r)
{
    const struct tb_job *job = r->client->job;
    for (size_t i = 0; i < job->count; i++)
        for (int64_t n = 0; n < job->phases[i].repetitions; n++)
            for (size_t k = 0; k < job->phases[i].count; k++)
                run_pattern(r, &job->phases[i].patterns[k],
                            (struct tb_outcome){.phase = (int64_t)i, .repetition = n, .pattern = (int64_t)k});
}

static bool any_validates(const struct tb_job *job)
{
    bool any = false;
    for (size_t i = 0; i < job->count; i++)
        for (size_t k = 0; k < job->phases[i].count; k++)
            any |= job->phases[i].patterns[k].validate;
    return any;
}

void tb_client_run(struct tb_client *c)
{
    struct run r = {.client = c, .validates = any_validates(c->job)};
    MPI_Comm_rank(c->comm, &r.rank);
    MPI_Comm_size(c->comm, &r.ranks);
    struct tb_channel_settings settings = {
        .in_flight = c->options->in_flight,
        .nodes = c->nodes,
        .largest = (size_t)c->scenario->largest,
        .near = c->near,
        .fill = (char)('a' + c->number % 26),
        .wire = c->wire,
        .took = compare,
        .reader = &r,
    };
    r.channel = tb_channel_new(&settings, tb_map_node_of(&c->map, c->number));
    if (c->options->map && r.rank == 0)
        note_follow(&r);
    run_job(&r);
    tb_channel_free(r.channel);
}
