/*
 * What all ranks tell rank 0 after the run, and what it prints of that: how many I/O nodes there were, each read and write
 * with its bandwidth, and what each I/O node did.
 */
#include "message.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* One more than asked for, as calloc of none may give NULL. */
static void *room_for(size_t count, size_t size)
{
    void *room = calloc(count + 1, size);
    if (!room)
        tb_fail("report", "gather", -1, strerror(ENOMEM));
    return room;
}

/*
 * From the rank `from`, which gives `mine`, to rank 0, which keeps it at `at`. All go in the same order on both ranks, and
 * MPI keeps the order of messages between two ranks, so they need no numbers. Structures go as bytes (message.h says why
 * they can).
 */
static void bring(const struct tb_world *w, int from, const void *mine, void *at, size_t bytes)
{
    if (w->rank == 0 && from == 0)
        memcpy(at, mine, bytes);
    else if (w->rank == from)
        MPI_Send(mine, (int)bytes, MPI_BYTE, 0, TB_TAG_RESULT, w->comm);
    else if (w->rank == 0)
        MPI_Recv(at, (int)bytes, MPI_BYTE, from, TB_TAG_RESULT, w->comm, MPI_STATUS_IGNORE);
}

static void bring_nodes(struct tb_report *r, const struct tb_node_counts *mine)
{
    for (int i = 0; i < (int)r->scenario->forwarders; i++)
        bring(&r->world, i, mine, &r->nodes[i], sizeof(*mine));
}

/*
 * On rank 0 one longer, with the I/O nodes of that map. The pointer in what came is the sender's and is replaced before the
 * list comes.
 */
static void bring_follow(struct tb_report *r, int from, const struct tb_follow *mine)
{
    struct tb_follow got = {0};
    bring(&r->world, from, mine, &got, sizeof(got));
    if (r->world.rank == 0)
        got.nodes = room_for((size_t)got.count, sizeof(*got.nodes));
    size_t bytes = (size_t)(mine ? mine->count : got.count) * sizeof(*got.nodes);
    bring(&r->world, from, mine ? mine->nodes : NULL, got.nodes, bytes);
    if (r->world.rank != 0)
        return;
    struct tb_follow *more = realloc(r->follows, (r->follow_count + 1) * sizeof(*more));
    if (!more)
        tb_fail("report", "gather", -1, strerror(ENOMEM));
    r->follows = more;
    r->follows[r->follow_count++] = got;
}

/*
 * Of a job's first client. The number of rows is known from the scenario on both sides; that of followed maps is sent
 * before them.
 */
static void bring_job(struct tb_report *r, size_t job, int from, const struct tb_client *c)
{
    const struct tb_client *mine = r->world.rank == from ? c : NULL;
    size_t transfers = (size_t)tb_transfers_of(&r->scenario->jobs[job]);
    int64_t follows = mine ? (int64_t)mine->follow_count : 0;
    if (r->world.rank == 0)
        r->outcomes[job] = room_for(transfers, sizeof(**r->outcomes));
    bring(&r->world, from, mine ? mine->outcomes : NULL, r->world.rank == 0 ? r->outcomes[job] : NULL, transfers * sizeof(**r->outcomes));
    bring(&r->world, from, &follows, &follows, sizeof(follows));
    for (int64_t i = 0; (mine || r->world.rank == 0) && i < follows; i++)
        bring_follow(r, from, mine ? &mine->follows[i] : NULL);
    bring(&r->world, from, mine ? &mine->nodes_used : NULL, r->world.rank == 0 ? &r->job_nodes[job] : NULL, sizeof(int));
}

/* In the order of the ranks, so that rank 0 waits for one at a time and the others send when they have ended. */
void tb_report_gather(struct tb_report *r, const struct tb_client *client, const struct tb_node_counts *counts)
{
    const struct tb_scenario *s = r->scenario;
    int first = (int)s->forwarders;
    r->nodes = room_for((size_t)s->forwarders, sizeof(*r->nodes));
    r->outcomes = room_for(s->count, sizeof(struct tb_outcome *));
    r->job_nodes = room_for(s->count, sizeof(*r->job_nodes));
    bring_nodes(r, counts);
    for (size_t j = 0; j < s->count; j++) {
        bring_job(r, j, first, client);
        first += (int)s->jobs[j].clients;
    }
}

/* The bytes of all by the time of the slowest: a client that ended early does not make it look faster. */
double tb_bandwidth(const struct tb_outcome *o)
{
    return o->max > 0 ? (double)o->bytes / TB_MIB / o->max : 0;
}

/* Rows are in the order of the run: all patterns of a repetition come before the next repetition. */
void tb_report_each(const struct tb_report *r, tb_visit *visit, void *with)
{
    for (size_t j = 0; j < r->scenario->count; j++) {
        const struct tb_job *job = &r->scenario->jobs[j];
        for (int64_t i = 0; i < tb_transfers_of(job); i++) {
            const struct tb_outcome *o = &r->outcomes[j][i];
            visit(with, (int64_t)j, &job->phases[o->phase].patterns[o->pattern], o);
        }
    }
}

static void print_one(void *with, int64_t job, const struct tb_access *p, const struct tb_outcome *o)
{
    (void)job;
    fprintf(with, "%s %s %s: %lld bytes in %lld of %lld requests, %.6f s, %.2f MiB/s, %lld messages", tb_operation_name(p->operation),
            p->shared ? "shared" : "individual", p->strided ? "strided" : "contiguous", (long long)o->bytes, (long long)o->requests,
            (long long)tb_requests_of(p), o->max, tb_bandwidth(o), (long long)o->messages);
    if (o->stonewall_hit >= 0)
        fprintf(with, ", stonewall after %.2f s", o->stonewall_hit);
    if (p->validate)
        fprintf(with, ", %lld bytes validated", (long long)o->validated);
    fputc('\n', with);
}

/* For people: one line a read or write, one an I/O node. Programs read forge-result.json. */
void tb_report_print(const struct tb_report *r, FILE *out)
{
    const struct tb_scenario *s = r->scenario;
    fprintf(out, TB_PROGRAM "-" TB_VERSION ": %d ranks on %d nodes, %lld I/O nodes, %lld clients\n", r->world.tasks, r->world.nodes,
            (long long)s->forwarders, (long long)(r->world.tasks - s->forwarders));
    fprintf(out, "Scenario: %s\n", r->options->scenario);
    tb_report_each(r, print_one, out);
    for (int64_t i = 0; i < s->forwarders; i++) {
        const struct tb_node_counts *n = &r->nodes[i];
        fprintf(out,
                "I/O node %lld: %lld opens, %lld reads, %lld writes, %lld closes, %lld bytes read, %lld bytes written, %lld in place\n",
                (long long)i, (long long)n->open, (long long)n->read, (long long)n->write, (long long)n->close, (long long)n->read_bytes,
                (long long)n->write_bytes, (long long)n->in_place);
    }
}

void tb_report_free(struct tb_report *r)
{
    for (size_t i = 0; i < r->follow_count; i++)
        free(r->follows[i].nodes);
    for (size_t j = 0; j < r->scenario->count; j++)
        free(r->outcomes[j]);
    free(r->follows);
    free(r->outcomes);
    free(r->nodes);
    free(r->job_nodes);
}
