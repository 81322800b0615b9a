/*
 * The network side of the daemon (peers.h). Threads of the network serve other nodes: as the keeper of files, and from this
 * node's buffers. Nothing that they do waits for another node. Threads of our own take the clients' requests, and one
 * shows how the nodes are.
 */
#include "peers.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "flush/queue.h"
#include "layer/layer.h"
#include "net/net.h"
#include "keeper.h"
#include "let_go.h"
#include "owed.h"
#include "region/clients.h"
#include "relay.h"
#include "shared/local.h"
#include "shared/requests.h"

#define RELAYS 4
#define SHOW_NS 200000000 /* between looks at the other nodes, a few at a time */
#define SHOW_AT_ONCE 16u
#define START_MS 60000
#define ANSWER_MS 8000
#define GRACE_SECONDS 10 /* for the other nodes to begin their end, too */

struct peers {
    tb_engine *engine;
    struct tb_net *net;
    _Atomic bool stop, ended;
    pthread_t relay[RELAYS], show;
    int n_relays;
    bool shows;
};

/* From buffers only, so it never asks another node. The device model is paid after the lock is dropped. */
static int64_t read_here(tb_engine *e, const struct tb_wire *w, char *to, size_t room)
{
    if (w->lo >= w->hi || w->hi - w->lo > room)
        return -EPROTO;
    tb_layer_enter();
    int rc = tb_local_read(e, &w->file, w->lo, w->hi, to);
    tb_layer_leave(true);
    return rc ? rc : (int64_t)(w->hi - w->lo);
}

/* By the flush threads: the node that asks looks at the keeper for its end. */
static int64_t flush_here(tb_engine *e, const struct tb_wire *w)
{
    uint32_t file = tb_local_find(e, &w->file);
    if (file != TB_NONE)
        tb_flush_queue(e, file);
    return 0;
}

/* It may be asked before this node has joined. */
static int64_t state_here(const struct peers *p, void *answer, size_t room)
{
    const struct tb_header *h = p->engine->header;
    struct tb_wire_state s = {.extents = keeper_count(), .ends = tb_client_is_closed(p->engine) || p->ended, .ended = p->ended};
    if (room < sizeof(s) || !p->net)
        return -EAGAIN;
    for (uint32_t t = 0; t < h->config.n_tiers; t++)
        s.dirty += h->tier[t].dirty;
    memcpy(answer, &s, sizeof(s));
    return sizeof(s);
}

/* What does not look like a request is an error to the node that sent it, and nothing here. */
static int64_t serve(void *arg, unsigned from, const void *request, size_t n, void *answer, size_t room)
{
    struct peers *p = arg;
    const struct tb_wire *w = request;
    if (n < sizeof(*w))
        return -EPROTO;
    switch (w->op) {
    case TB_WIRE_LOOK:
    case TB_WIRE_WHERE:
    case TB_WIRE_COMMIT:
    case TB_WIRE_GONE:
    case TB_WIRE_END:
    case TB_WIRE_CUT:
    case TB_WIRE_REMOVE: return keeper_answer(from, w, w + 1, n - sizeof(*w), answer, room);
    case TB_WIRE_READ: return read_here(p->engine, w, answer, room);
    case TB_WIRE_LET_GO: return let_go_answer(p->engine, w, n, answer, room);
    case TB_WIRE_LOSE: return tb_local_lose(p->engine, &w->file);
    case TB_WIRE_FLUSH: return flush_here(p->engine, w);
    case TB_WIRE_STATE: return state_here(p, answer, room);
    default: return -EPROTO;
    }
}

/*
 * Several at once: a request that waits for one node holds up none for another. Takes and answers without a lock of its
 * own: a request's state says who has it (shared/requests.c).
 */
static void *relay_loop(void *arg)
{
    struct peers *p = arg;
    size_t room = p->engine->region.request_bytes - sizeof(struct tb_request);
    while (!p->stop) {
        struct tb_request *r = tb_request_take(p->engine);
        if (r)
            tb_request_answer(r, relay_request(p->engine, p->net, r->bytes, r->n, room));
    }
    return NULL;
}

static bool ask_state(struct peers *p, unsigned node, struct tb_wire_state *out)
{
    struct tb_wire w = {.op = TB_WIRE_STATE};
    return tb_net_is_alive(p->net, node) && tb_net_call(p->net, node, &w, sizeof(w), out, sizeof(*out)) == sizeof(*out);
}

/* Of a lost node what it said last. */
static void show_node(struct peers *p, unsigned i)
{
    struct tb_asking *a = &p->engine->header->asking;
    struct tb_wire_state s = {0};
    bool alive = ask_state(p, i, &s);
    if (i >= TB_NODES_SHOWN)
        return;
    snprintf(a->node[i].name, sizeof(a->node[i].name), "%s", tb_net_name(p->net, i));
    a->node[i].is_alive = alive;
    if (!alive)
        return;
    a->node[i].dirty = s.dirty;
    a->node[i].extents = s.extents;
}

/* Of many nodes a few at a time, so that the cost does not grow with their number. */
static void *show_loop(void *arg)
{
    struct peers *p = arg;
    unsigned n = tb_net_count(p->net);
    for (unsigned at = 0; !p->stop;) {
        uint32_t alive = 0;
        owed_deliver(p->engine, p->net, NULL); /* of commits whose client does not ask any more */
        for (unsigned i = 0; i < n && i < SHOW_AT_ONCE; i++)
            show_node(p, at++ % n);
        for (unsigned i = 0; i < n; i++)
            alive += (uint32_t) !!tb_net_is_alive(p->net, i);
        p->engine->header->asking.n_alive = alive;
        p->engine->header->asking.n_nodes = n;
        nanosleep(&(struct timespec){0, SHOW_NS}, NULL);
    }
    return NULL;
}

/* What was started is counted, so that end_threads joins just that. */
static int begin_threads(struct peers *p)
{
    int rc = 0;
    while (p->n_relays < RELAYS && !(rc = pthread_create(&p->relay[p->n_relays], NULL, relay_loop, p)))
        p->n_relays++;
    if (!rc && !(rc = pthread_create(&p->show, NULL, show_loop, p)))
        p->shows = true;
    return -rc;
}

static void end_threads(struct peers *p)
{
    p->stop = true;
    for (int i = 0; i < p->n_relays; i++)
        pthread_join(p->relay[i], NULL);
    if (p->shows)
        pthread_join(p->show, NULL);
}

/*
 * `net` is stored when all nodes are there; until then a request of another node is told to come again (state_here).
 * n_nodes is stored last: clients wait for it.
 */
static int begin(struct peers *p, const char *folder, unsigned n_nodes, struct tb_error *err)
{
    const struct tb_header *h = p->engine->header;
    struct tb_net_options o = {.folder = folder,
                               .instance = h->name,
                               .node = h->host,
                               .n_nodes = n_nodes,
                               .interface = h->config.network.interface[0] ? h->config.network.interface : NULL,
                               .provider = h->config.network.provider,
                               .start_ms = START_MS,
                               .answer_ms = ANSWER_MS,
                               .serve = serve,
                               .arg = p};
    struct tb_net *net = NULL;
    int rc = tb_net_open(&o, &net, err);
    p->net = net;
    rc = rc ? rc : begin_threads(p);
    if (!rc)
        p->engine->header->asking.n_nodes = n_nodes; /* the instance can be used from now on */
    if (rc && !err->text[0])
        snprintf(err->text, sizeof(err->text), "cannot join the other nodes: %s", strerror(-rc));
    return rc;
}

/* After an error all threads are ended before the network is closed, since they use it. */
int peers_begin(tb_engine *e, const char *folder, unsigned n_nodes, struct peers **out, struct tb_error *err)
{
    struct peers *p = calloc(1, sizeof(*p));
    if (!p)
        return -ENOMEM;
    p->engine = e;
    int rc = begin(p, folder, n_nodes, err);
    if (rc) {
        end_threads(p);
        if (p->net)
            tb_net_close(p->net);
        free(p);
        return rc;
    }
    *out = p;
    return 0;
}

/* Another node that lives has something left and is ending it, or may be about to. */
static bool is_needed(struct peers *p, bool grace)
{
    for (unsigned i = 0; i < tb_net_count(p->net); i++) {
        struct tb_wire_state s;
        if (i != tb_net_self(p->net) && ask_state(p, i, &s) && !s.ended && (s.ends || grace))
            return true;
    }
    return false;
}

/*
 * Other nodes may still need this one as the keeper of their files. So it stays as long as one of them is ending, and in
 * the first seconds as long as one of them has not ended.
 */
void peers_end(struct peers *p)
{
    if (!p)
        return;
    uint64_t until = tb_now_ns() + GRACE_SECONDS * 1000000000ull;
    p->ended = true;
    while (is_needed(p, tb_now_ns() < until))
        nanosleep(&(struct timespec){0, SHOW_NS / 10}, NULL);
    end_threads(p);
    tb_net_close(p->net);
    free(p);
}
