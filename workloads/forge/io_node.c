/*
 * The thread of an I/O node that talks MPI: it receives requests, gives them to the workers and sends their answers. Reads
 * and writes are received only where a buffer is free; the others wait at their clients, which is all the flow control
 * there is. It ends when each client said that it has.
 */
#include "io_node.h"

#include <stdlib.h>

enum { MOST_BUFFERS = 1024, POOL_BYTES = 256 << 20, LEAST_BUFFERS = 4 };

struct node {
    const struct tb_node_settings *settings;
    struct tb_workers *workers;
    struct tb_request *free;    /* of the pool: the last used first, as its bytes are warm */
    int pooled, most;           /* buffers that were made, and how many may be */
    int under_way, ended;       /* requests that have no answer yet; clients that ended */
    struct tb_request *sending; /* answers that MPI has not taken yet */
    struct tb_node_counts counts;
};

static struct tb_request *new_request(size_t bytes)
{
    struct tb_request *r = calloc(1, sizeof *r);
    if (!r)
        tb_fail("memory", "allocate", -1, "no room for a request");
    r->room = tb_room_new(bytes);
    return r;
}

static void drop(struct node *n, struct tb_request *r)
{
    if (r->from_pool) {
        r->next = n->free;
        n->free = r;
        return;
    }
    free(r->room);
    free(r);
}

/* NULL: all buffers are in use. They are made when they are needed first. */
static struct tb_request *from_pool(struct node *n)
{
    struct tb_request *r = n->free;
    if (r) {
        n->free = r->next;
        return r;
    }
    if (n->pooled == n->most)
        return NULL;
    n->pooled++;
    r = new_request(n->settings->largest);
    r->from_pool = true;
    return r;
}

static void count(struct node *n, const struct tb_message *m)
{
    n->counts.open += m->kind == TB_ASK_OPEN;
    n->counts.close += m->kind == TB_ASK_CLOSE;
    n->counts.read += m->kind == TB_ASK_READ;
    n->counts.write += m->kind == TB_ASK_WRITE;
    n->counts.read_bytes += m->kind == TB_ASK_READ ? (int64_t)m->size : 0;
    n->counts.write_bytes += m->kind == TB_ASK_WRITE ? (int64_t)m->size : 0;
}

/* What a ping asks is whether this thread runs. */
static void pong(struct node *n, int client)
{
    char alive = 1;
    MPI_Send(&alive, 1, MPI_BYTE, client, TB_TAG_PONG, n->settings->wire);
}

static void begin(struct node *n, struct tb_request *r, int client)
{
    const struct tb_message *m = tb_room_message(r->room);
    r->client = client;
    count(n, m);
    if (m->kind == TB_PING || m->kind == TB_END) {
        if (m->kind == TB_PING)
            pong(n, client);
        n->ended += m->kind == TB_END;
        drop(n, r);
        return;
    }
    n->under_way++;
    tb_workers_give(n->workers, r);
}

/* The size is asked for first, as a path's length differs; a probed message is no other thread's. */
static bool receive_control(struct node *n)
{
    MPI_Status status;
    MPI_Message message;
    int there, bytes;
    MPI_Improbe(MPI_ANY_SOURCE, TB_TAG_CONTROL, n->settings->wire, &there, &message, &status);
    if (!there)
        return false;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    struct tb_request *r = new_request((size_t)bytes);
    MPI_Mrecv(tb_room_message(r->room), bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE);
    begin(n, r, status.MPI_SOURCE);
    return true;
}

static bool receive_data(struct node *n)
{
    MPI_Status status;
    MPI_Message message;
    int there;
    struct tb_request *r = from_pool(n);
    if (!r)
        return false;
    MPI_Improbe(MPI_ANY_SOURCE, TB_TAG_DATA, n->settings->wire, &there, &message, &status);
    if (!there) {
        drop(n, r);
        return false;
    }
    MPI_Mrecv(tb_room_message(r->room), (int)(sizeof(struct tb_message) + n->settings->largest), MPI_BYTE, &message, MPI_STATUS_IGNORE);
    begin(n, r, status.MPI_SOURCE);
    return true;
}

/* A read's answer has its bytes after it, unless it failed. */
static void answer(struct node *n, struct tb_request *r)
{
    const struct tb_message *m = tb_room_message(r->room);
    size_t bytes = sizeof *m + (m->kind == TB_ASK_READ && !m->status ? m->size : 0);
    MPI_Isend(m, (int)bytes, MPI_BYTE, r->client, TB_TAG_ANSWER + (int)m->slot, n->settings->wire, &r->answer);
    r->next = n->sending;
    n->sending = r;
}

static bool answer_what_is_done(struct node *n)
{
    struct tb_request *r = tb_workers_done(n->workers);
    bool any = r != NULL;
    while (r) {
        struct tb_request *next = r->next;
        answer(n, r);
        r = next;
    }
    return any;
}

/* Short answers are gone at once; a read's waits for its client. */
static bool forget_sent(struct node *n)
{
    bool any = false;
    for (struct tb_request **at = &n->sending; *at;) {
        struct tb_request *r = *at;
        int gone;
        MPI_Test(&r->answer, &gone, MPI_STATUS_IGNORE);
        if (!gone) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        n->under_way--;
        drop(n, r);
        any = true;
    }
    return any;
}

static int most_buffers(const struct tb_node_settings *s)
{
    size_t fit = POOL_BYTES / s->largest;
    return fit < LEAST_BUFFERS ? LEAST_BUFFERS : fit > MOST_BUFFERS ? MOST_BUFFERS : (int)fit;
}

struct tb_node_counts tb_io_node_run(const struct tb_node_settings *s)
{
    struct node n = {.settings = s, .workers = tb_workers_start(s), .most = most_buffers(s)};
    for (int polls = 0; n.ended < s->clients || n.under_way;) {
        bool any = receive_data(&n);
        any |= receive_control(&n);
        any |= answer_what_is_done(&n);
        any |= forget_sent(&n);
        polls = any ? 0 : polls + 1;
        if (!any)
            tb_rest(polls);
    }
    tb_workers_stop(n.workers, &n.counts);
    while (n.free) {
        struct tb_request *r = n.free;
        n.free = r->next;
        free(r->room);
        free(r);
    }
    return n.counts;
}
