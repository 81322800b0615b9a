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
#include "borrow.h"
#include "copies/orphans.h"
#include "copies/save.h"
#include "copies/store.h"
#include "flush/queue.h"
#include "layer/layer.h"
#include "net/net.h"
#include "keeper.h"
#include "lend.h"
#include "fetch/known.h"
#include "let_go.h"
#include "owed.h"
#include "region/clients.h"
#include "region/counters.h"
#include "relay.h"
#include "shared/borrow.h"
#include "shared/local.h"
#include "shared/requests.h"

#define RELAYS TB_REQUESTS   /* of requests about files: each has a thread, so that no commit waits for what is read ahead; */
#define CARRIERS TB_REQUESTS /* and about bytes of remote buffers */
#define SHOW_NS 200000000    /* between looks at the other nodes, a few at a time */
#define SHOW_AT_ONCE 16u
#define START_MS 60000
#define ANSWER_MS 8000
#define GRACE_SECONDS 10 /* for the other nodes to begin their end, too */

struct peers {
    tb_engine *engine;
    struct tb_net *net;
    struct lend *lend;
    _Atomic uint64_t lent[TB_NET_NODES_MAX]; /* what each other node uses of that, as it told last */
    _Atomic uint64_t answered;               /* messages of other nodes, those about the nodes' state left out */
    _Atomic bool stop, ended;
    pthread_t relay[RELAYS + CARRIERS], show;
    uint32_t n_relays;
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

/* What this node has at `from` is counted first, as the sums are of the same look. */
static void state_of_borrowed(struct peers *p, unsigned from, struct tb_wire_state *s)
{
    struct borrowed here, all, lost;
    borrow_of(p->engine, from, &here);
    borrow_all(&all, &lost);
    s->here = here.used;
    s->here_dirty = here.dirty;
    s->borrows = all.used;
    s->lost = lost.dirty;
    s->lends = lend_bytes(p->lend);
    for (unsigned i = 0; i < tb_net_count(p->net); i++)
        s->lent += p->lent[i];
}

/* It may be asked before this node has joined. */
static int64_t state_here(struct peers *p, unsigned from, void *answer, size_t room)
{
    const struct tb_header *h = p->engine->header;
    struct tb_wire_state s = {.extents = keeper_count(),
                              .kept_bytes = keeper_bytes(),
                              .answered = p->answered,
                              .copies = copies_bytes(),
                              .copies_most = h->config.copies_memory,
                              .ends = tb_client_is_closed(p->engine) || p->ended,
                              .ended = p->ended};
    if (room < sizeof(s) || !p->net)
        return -EAGAIN;
    for (uint32_t t = 0; t < h->config.n_tiers; t++)
        s.dirty += tb_tier_dirty(h, t);
    state_of_borrowed(p, from, &s);
    memcpy(answer, &s, sizeof(s));
    return sizeof(s);
}

/* The node after this one has the first piece of what is lent: so each has its own. It may be asked before this node has joined. */
static int64_t lend_here(struct peers *p, unsigned from, const struct tb_wire *w, size_t n, void *answer, size_t room)
{
    if (!p->net)
        return -EAGAIN;
    unsigned nodes = tb_net_count(p->net), borrower = (from + nodes - tb_net_self(p->net) - 1) % nodes;
    return w->op == TB_WIRE_PUT ? lend_put(p->lend, borrower, w, w + 1, n - sizeof(*w)) : lend_get(p->lend, borrower, w, answer, room);
}

/* What does not look like a request is an error to the node that sent it, and nothing here. */
static int64_t serve(void *arg, unsigned from, const void *request, size_t n, void *answer, size_t room)
{
    struct peers *p = arg;
    const struct tb_wire *w = request;
    if (n < sizeof(*w))
        return -EPROTO;
    p->answered += w->op != TB_WIRE_STATE && from != p->engine->header->asking.self;
    switch (w->op) {
    case TB_WIRE_LOOK:
    case TB_WIRE_WHERE:
    case TB_WIRE_COMMIT:
    case TB_WIRE_GONE:
    case TB_WIRE_END:
    case TB_WIRE_CUT:
    case TB_WIRE_REMOVE: return keeper_answer(from, w, w + 1, n - sizeof(*w), answer, room);
    case TB_WIRE_COPY:
    case TB_WIRE_WHERE_COPY:
    case TB_WIRE_READ_COPY: return copies_answer(from, w, w + 1, n - sizeof(*w), answer, room);
    case TB_WIRE_READ: return read_here(p->engine, w, answer, room);
    case TB_WIRE_LET_GO: known_forget(&w->file); return let_go_answer(p->engine, w, n, answer, room);
    case TB_WIRE_LOSE: known_forget(&w->file); return tb_local_lose(p->engine, &w->file);
    case TB_WIRE_FLUSH: return flush_here(p->engine, w);
    case TB_WIRE_DIRTY: return orphans_answer(p->engine, p->net, w, answer, room);
    case TB_WIRE_STATE: return state_here(p, from, answer, room);
    case TB_WIRE_PUT:
    case TB_WIRE_GET: return lend_here(p, from, w, n, answer, room);
    case TB_WIRE_RETURN: return borrow_return(from), 0;
    default: return -EPROTO;
    }
}

/*
 * Several at once: a request that waits for one node holds up none for another. Takes and answers without a lock of its
 * own: a request's state says which side has it (shared/requests.c).
 */
static void *relay_loop(void *arg)
{
    struct peers *p = arg;
    size_t room = p->engine->region.request_bytes - sizeof(struct tb_request);
    while (!p->stop) {
        struct tb_request *r = tb_request_take(p->engine, TB_DESK_FILES);
        if (r)
            tb_request_answer(r, relay_request(p->engine, p->net, r->bytes, r->n, room));
    }
    return NULL;
}

/*
 * Apart from those above, which may wait at another node for a chunk, and its holder for bytes of a remote buffer. A carrier waits for
 * nothing but another node's memory.
 */
static void *carrier_loop(void *arg)
{
    struct peers *p = arg;
    size_t room = p->engine->region.request_bytes - sizeof(struct tb_request);
    while (!p->stop) {
        struct tb_request *r = tb_request_take(p->engine, TB_DESK_BYTES);
        if (r)
            tb_request_answer(r, borrow_request(p->engine, p->net, r->bytes, r->n, room));
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
    if (alive)
        p->lent[i] = s.here;
    if (i >= TB_NODES_SHOWN)
        return;
    snprintf(a->node[i].name, sizeof(a->node[i].name), "%s", tb_net_name(p->net, i));
    a->node[i].is_alive = alive;
    if (!alive)
        return;
    a->node[i].dirty = s.dirty;
    a->node[i].extents = s.extents;
    a->node[i].kept_bytes = s.kept_bytes;
    a->node[i].answered = s.answered;
    a->node[i].lends = s.lends;
    a->node[i].lent = s.lent;
    a->node[i].borrows = s.borrows;
    a->node[i].lost = s.lost;
    a->node[i].copies = s.copies;
    a->node[i].copies_most = s.copies_most;
}

/* What a node had in this one's memory belongs to no node any more when it is given back. */
static void look_at_borrower(struct peers *p, unsigned i)
{
    unsigned nodes = tb_net_count(p->net), borrower = (i + nodes - tb_net_self(p->net) - 1) % nodes;
    if (!lend_look(p->lend, borrower, tb_net_is_alive(p->net, i), tb_now_ns()))
        return;
    p->lent[i] = 0;
    fprintf(stderr, "tierd: node %s is lost for %d s: the memory that was lent to it is given back\n", tb_net_name(p->net, i),
            LEND_SECONDS);
}

/* Of many nodes a few at a time, so that the cost does not grow with their number. */
static void *show_loop(void *arg)
{
    struct peers *p = arg;
    unsigned n = tb_net_count(p->net);
    for (unsigned at = 0; !p->stop;) {
        uint32_t alive = 0;
        owed_deliver(p->engine, p->net, NULL); /* of commits that no client asks for any more */
        for (unsigned i = 0; i < n && i < SHOW_AT_ONCE; i++)
            show_node(p, at++ % n);
        borrow_look(p->engine, p->net);
        copies_look(p->engine, p->net);
        for (unsigned i = 0; i < n; i++) {
            alive += (uint32_t) !!tb_net_is_alive(p->net, i);
            look_at_borrower(p, i);
        }
        p->engine->header->asking.n_alive = alive;
        p->engine->header->asking.n_nodes = n;
        nanosleep(&(struct timespec){0, SHOW_NS}, NULL);
    }
    return NULL;
}

/* What was started is counted, so that end_threads joins just that. */
static int begin_threads(struct peers *p)
{
    const struct tb_config *c = &p->engine->header->config;
    bool remote = tb_config_remote_tier(c) < c->n_tiers;
    uint32_t n = RELAYS + (remote ? CARRIERS : 0);
    int rc = 0;
    while (p->n_relays < n && !(rc = pthread_create(&p->relay[p->n_relays], NULL, p->n_relays < RELAYS ? relay_loop : carrier_loop, p)))
        p->n_relays++;
    if (!rc && !(rc = pthread_create(&p->show, NULL, show_loop, p)))
        p->shows = true;
    return -rc;
}

/* A thread looks at `stop` between two requests, so each ends the request that it has. */
static void end_threads(struct peers *p)
{
    p->stop = true;
    for (uint32_t i = 0; i < p->n_relays; i++)
        pthread_join(p->relay[i], NULL);
    if (p->shows)
        pthread_join(p->show, NULL);
}

/* Before the node joins: one that can't lend is not there. */
static int begin_lending(struct peers *p, unsigned n_nodes, struct tb_error *err)
{
    const struct tb_config *c = &p->engine->header->config;
    uint32_t t = tb_config_remote_tier(c);
    uint64_t section = tb_borrow_section(c, &p->engine->header->layout, n_nodes);
    if (t < c->n_tiers && n_nodes < 2) {
        snprintf(err->text, sizeof(err->text),
                 "%.800s: tiers[%u].medium: remote needs other nodes to lend their memory, and the job has one node", c->file, t);
        return -EINVAL;
    }
    int rc = lend_begin(section, n_nodes, &p->lend);
    if (rc)
        snprintf(err->text, sizeof(err->text), "%.700s: tiers[%u].capacity: no memory for the %llu MiB that this node lends to others: %s",
                 c->file, t, (unsigned long long)(section * (n_nodes - 1) >> 20) + 1, strerror(-rc));
    return rc;
}

/* Before the node joins, as others may send at once then. */
static int begin_copies(struct peers *p, unsigned n_nodes, struct tb_error *err)
{
    const struct tb_config *c = &p->engine->header->config;
    copies_set_limit(c->copies_memory);
    if (c->copies < 2 || n_nodes > 1)
        return 0;
    snprintf(err->text, sizeof(err->text), "%.800s: copies: 2 needs a second node, and the job has one node; allowed: 1", c->file);
    return -EINVAL;
}

/*
 * `net` is stored when all nodes are there; until then a request of another node is told to come again (state_here).
 * n_nodes is stored last: clients wait for it.
 */
static int begin(struct peers *p, const char *folder, unsigned n_nodes, struct tb_error *err)
{
    struct tb_header *h = p->engine->header;
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
    int rc = begin_copies(p, n_nodes, err);
    rc = rc ? rc : begin_lending(p, n_nodes, err);
    rc = rc ? rc : tb_net_open(&o, &net, err);
    if (!rc)
        h->asking.self = tb_net_self(net);
    p->net = net;
    rc = rc ? rc : borrow_begin(p->engine, net);
    rc = rc ? rc : begin_threads(p);
    if (!rc)
        h->asking.n_nodes = n_nodes; /* the instance can be used from now on */
    if (rc && !err->text[0])
        snprintf(err->text, sizeof(err->text), "cannot join the other nodes: %s", strerror(-rc));
    return rc;
}

/* Its threads use the rest. */
static void close_net(struct peers *p)
{
    if (p->net)
        tb_net_close(p->net);
    borrow_end(p->engine);
    lend_end(p->lend);
    free(p);
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
        close_net(p);
        return rc;
    }
    *out = p;
    return 0;
}

/* A node that lives, with what it says of itself. One that has bytes here, and is not ending, is asked to take them back. */
static bool ask_for_end(struct peers *p, unsigned i, struct tb_wire_state *s)
{
    struct tb_wire w = {.op = TB_WIRE_RETURN};
    if (i == tb_net_self(p->net) || !ask_state(p, i, s))
        return false;
    if (s->here_dirty && !s->ends)
        tb_net_call(p->net, i, &w, sizeof(w), NULL, 0);
    return true;
}

/* It has something left and is ending it, or may be about to; or it has bytes here that are nowhere else. */
static bool is_needed_by(struct peers *p, unsigned i, bool grace)
{
    struct tb_wire_state s;
    return ask_for_end(p, i, &s) && !s.ended && (s.ends || grace || s.here_dirty);
}

static bool is_needed(struct peers *p, bool grace)
{
    bool is = false;
    for (unsigned i = 0; i < tb_net_count(p->net); i++)
        is |= is_needed_by(p, i, grace);
    return is;
}

uint64_t peers_bring_home(tb_engine *e, struct peers *p)
{
    return p ? borrow_bring_home(e) : 0;
}

int peers_save_copies(struct peers *p)
{
    return p ? copies_save(p->engine, p->net, false) : 0;
}

uint64_t peers_unsaved(struct peers *p)
{
    return p ? copies_unsaved(p->net) : 0;
}

static bool has_bytes_here(struct peers *p)
{
    struct tb_wire_state s;
    bool any = false;
    for (unsigned i = 0; i < tb_net_count(p->net); i++)
        any |= ask_for_end(p, i, &s) && s.here_dirty;
    return any;
}

void peers_stay(struct peers *p, bool (*ends)(void *arg), void *arg)
{
    while (p && lend_bytes(p->lend) && has_bytes_here(p) && !ends(arg))
        nanosleep(&(struct timespec){0, SHOW_NS}, NULL);
}

/*
 * Other nodes may still need this one as the keeper of their files. So it stays as long as one of them is ending, and in
 * the first seconds as long as one of them has not ended.
 */
int peers_end(struct peers *p)
{
    if (!p)
        return 0;
    uint64_t until = tb_now_ns() + GRACE_SECONDS * 1000000000ull;
    p->ended = true;
    while (is_needed(p, tb_now_ns() < until))
        nanosleep(&(struct timespec){0, SHOW_NS / 10}, NULL);
    if (copies_save(p->engine, p->net, true))
        return -EIO;
    end_threads(p);
    close_net(p);
    return 0;
}
