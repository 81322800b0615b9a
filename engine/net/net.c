/*
 * The peers of a daemon (net.h): opened once all N nodes have proved the secret and hold the same list; kept by a thread that
 * sends signs of life, notices their absence, and calls lost peers again.
 */
#include "net/net.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/start/gather.h"
#include "net/start/greet.h"
#include "net/lanes.h"
#include "net/peer.h"

_Static_assert((int)TB_PAYLOAD_MAX == (int)TB_NET_BYTES_MAX, "what is promised is what a frame can carry");

#define SEEK_MS 1000 /* between calls to a node that is lost */
#define LINES_A_SECOND 10

struct tb_net {
    struct tb_net_options options;
    struct tb_proof_key key;
    struct tb_record own;
    int folder; /* of the records */
    struct tb_greeter greeter;
    bool has_greeter;
    struct tb_gather gather;
    struct tb_transport transport;
    struct tb_peer_common common;

    unsigned self, n;
    struct tb_peer **peers; /* NULL at `self` */

    pthread_mutex_t lock; /* of the start */
    pthread_cond_t changed;
    bool is_open; /* all nodes of the job are known: a connection that comes now is of a node that was lost */
    uint8_t digest[TB_DIGEST_BYTES];
    bool *agrees; /* by node: it told the same list */
    char refusal[256];

    uint64_t second; /* of `lines` of refusals, and those `unsaid` */
    unsigned lines, unsaid;

    pthread_t heart, seeker;
    bool has_heart, has_seeker;
    _Atomic bool ends;
};

static void say(const char *line)
{
    fprintf(stderr, "tierd: net: %s\n", line);
}

/* So many lines a second, then their number: a caller that knocks often does not fill a log. Only the greeter's thread comes here. */
static void refused(void *arg, const char *line)
{
    struct tb_net *net = arg;
    uint64_t second = tb_now_ns() / 1000000000u;
    if (second != net->second && net->unsaid)
        fprintf(stderr, "tierd: net: %u more connections were closed\n", net->unsaid);
    if (second != net->second)
        net->lines = net->unsaid = 0;
    net->second = second;
    if (++net->lines <= LINES_A_SECOND)
        say(line);
    else
        net->unsaid++;
}

/* Under the lock. The first refusal stays: later ones mostly follow from it. */
static void refuse_start(struct tb_net *net, const struct tb_peer *p, const char *why)
{
    if (!net->refusal[0])
        snprintf(net->refusal, sizeof(net->refusal), "node %s %s", p->record.node, why);
}

/*
 * Of another list: some of its nodes are not among ours. By the thread that reads the peer. Once the start is over,
 * nothing looks at the refusal.
 */
static void heard_of_start(void *arg, struct tb_peer *p, const uint8_t *digest, int64_t result)
{
    struct tb_net *net = arg;
    pthread_mutex_lock(&net->lock);
    if (!digest)
        refuse_start(net, p, result == -EEXIST ? "has a node of this name already" : "has all its nodes already");
    else if (memcmp(digest, net->digest, TB_DIGEST_BYTES))
        refuse_start(net, p, "starts with other nodes");
    else
        net->agrees[p->number] = true;
    pthread_cond_broadcast(&net->changed);
    pthread_mutex_unlock(&net->lock);
}

/* During the start a lost node ends the start; afterwards the other nodes go on and calls to it fail. */
static void lost(void *arg, struct tb_peer *p, const char *why)
{
    struct tb_net *net = arg;
    char line[256];
    snprintf(line, sizeof(line), "node %s is lost: %s", p->record.node, why);
    say(line);
    pthread_mutex_lock(&net->lock);
    if (!net->agrees[p->number])
        refuse_start(net, p, "ended during the start");
    pthread_cond_broadcast(&net->changed);
    pthread_mutex_unlock(&net->lock);
}

static const struct tb_peer_events events = {.start = heard_of_start, .lost = lost};

/* Says why, so that the start on the other side can end with that reason. */
static void turn_away(int fd, int why)
{
    uint8_t head[TB_FRAME_BYTES];
    tb_frame_put(&(struct tb_frame){.kind = TB_FRAME_REFUSED, .result = why}, head);
    if (send(fd, head, sizeof(head), MSG_NOSIGNAL) < 0)
        errno = 0; /* it learns of it by the end of the connection */
    close(fd);
}

/*
 * By name and start. A node of the same name with another start is a new process that knows nothing of what the old one
 * had, so it is not let in again.
 */
static struct tb_peer *peer_of(struct tb_net *net, const char *node, const uint8_t *start)
{
    for (unsigned i = 0; i < net->n; i++) {
        struct tb_peer *p = net->peers[i];
        if (p && strcmp(p->record.node, node) == 0 && memcmp(p->record.start, start, TB_NET_START_BYTES) == 0)
            return p;
    }
    return NULL;
}

/* The process calls again, so its last connection is no more, whatever is known of it here. */
static void came_back(struct tb_peer *p, int fd)
{
    char line[128];
    tb_peer_lose(p, "it calls again");
    if (!tb_peer_adopt(p, fd))
        return;
    snprintf(line, sizeof(line), "node %s is back", p->record.node);
    say(line);
}

/*
 * By the greeter's thread alone. Before all nodes are known a connection belongs to the start. Afterwards it is of a node
 * that was lost and comes back, or a new lane of one that is here.
 */
static void arrived(void *arg, int fd, const struct tb_hello *hello, const uint8_t key[TB_NET_PROOF_BYTES])
{
    struct tb_net *net = arg;
    char line[160];
    if (hello->purpose == TB_FOR_LIFE && tb_gather_arrived(&net->gather, fd, hello))
        return;
    pthread_mutex_lock(&net->lock);
    struct tb_peer *p = net->is_open ? peer_of(net, hello->from, hello->from_start) : NULL;
    pthread_mutex_unlock(&net->lock);
    if (p)
        return hello->purpose == TB_FOR_LIFE ? came_back(p, fd) : tb_lanes_serve(p, fd, key);
    snprintf(line, sizeof(line), "node %s is refused: it is none of those that the instance began with", hello->from);
    say(line);
    turn_away(fd, -ENOSPC);
}

/* Calls go one way only, as at the start: the other node waits to be called. */
static void call_again(struct tb_net *net, struct tb_peer *p)
{
    struct tb_hello hello;
    if (strcmp(net->own.node, p->record.node) > 0)
        return;
    tb_peer_hello(p, TB_FOR_LIFE, &hello);
    int fd = tb_greet(&net->key, &p->record.address, &net->own.address, &hello, TB_GREET_MS, NULL);
    if (fd >= 0)
        came_back(p, fd);
}

static void nap(int ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000l}, NULL);
}

/* Four signs of life in the time of an answer, so one that is late costs nothing. */
static void look_after(struct tb_net *net, struct tb_peer *p, bool was_asleep)
{
    const struct tb_frame sign = {.kind = TB_FRAME_BEAT};
    if (was_asleep)
        p->heard_ns = tb_now_ns();
    if (tb_now_ns() - p->said_ns >= (uint64_t)net->options.answer_ms * 250000u)
        tb_peer_say(p, &sign, NULL);
    tb_peer_lose_silent(p);
}

/* A process that was stopped itself has heard no other node, which does not mean that the others are lost. */
static void *beat(void *arg)
{
    struct tb_net *net = arg;
    int step_ms = net->options.answer_ms / 8 + 1;
    uint64_t last = tb_now_ns();
    while (!net->ends) {
        uint64_t now = tb_now_ns();
        for (unsigned i = 0; i < net->n; i++)
            if (net->peers[i])
                look_after(net, net->peers[i], now - last > (uint64_t)step_ms * 4000000u);
        last = now;
        nap(step_ms);
    }
    return NULL;
}

/* A thread of its own: a call to a node that is cut off takes seconds, and the beats must go on. */
static void *seek(void *arg)
{
    struct tb_net *net = arg;
    for (int step = 0; !net->ends; step++) {
        nap(SEEK_MS / 10);
        for (unsigned i = 0; i < net->n && step % 10 == 0 && !net->ends; i++)
            if (net->peers[i] && !tb_peer_is_alive(net->peers[i]))
                call_again(net, net->peers[i]);
    }
    return NULL;
}

static int start_threads(struct tb_net *net)
{
    int rc = -pthread_create(&net->heart, NULL, beat, net);
    net->has_heart = !rc;
    if (!rc)
        rc = -pthread_create(&net->seeker, NULL, seek, net);
    net->has_seeker = !rc;
    return rc;
}

static struct tb_peer *make_peer(struct tb_net *net, const struct tb_record *r, unsigned number)
{
    struct tb_peer *p = calloc(1, sizeof(*p));
    if (!p)
        return NULL;
    *p = (struct tb_peer){.record = *r, .number = number, .common = &net->common};
    if (tb_peer_start(p) == 0)
        return p;
    free(p);
    return NULL;
}

/* Numbers are the order of the names, so all nodes have the same. */
static int make_peers(struct tb_net *net)
{
    struct tb_gather *g = &net->gather;
    net->self = 0;
    while (net->self < g->n && strcmp(g->all[net->self].record.node, net->own.node) < 0)
        net->self++;
    for (unsigned i = 0; i < g->n; i++) {
        unsigned number = i + (i >= net->self);
        if (!(net->peers[number] = make_peer(net, &g->all[i].record, number)))
            return -ENOMEM;
    }
    return 0;
}

/*
 * Of names and starts in the order of the names. Two nodes agree only if they mean the same processes, not only the same
 * machines.
 */
static void make_digest(struct tb_net *net)
{
    crypto_generichash_state s;
    crypto_generichash_init(&s, NULL, 0, TB_DIGEST_BYTES);
    for (unsigned i = 0; i < net->n; i++) {
        const struct tb_record *r = i == net->self ? &net->own : &net->peers[i]->record;
        crypto_generichash_update(&s, (const uint8_t *)r->node, sizeof(r->node));
        crypto_generichash_update(&s, r->start, sizeof(r->start));
    }
    crypto_generichash_final(&s, net->digest, TB_DIGEST_BYTES);
}

/*
 * Each peer takes over the connection of the start as its life. The arrival's descriptor is set to -1, so that
 * tb_gather_end does not close it, too.
 */
static void tell_list(struct tb_net *net)
{
    const struct tb_frame f = {.kind = TB_FRAME_LIST, .bytes = TB_DIGEST_BYTES};
    for (unsigned i = 0; i < net->n; i++)
        if (net->peers[i]) {
            struct tb_arrival *a = &net->gather.all[i - (i > net->self)];
            tb_peer_adopt(net->peers[i], a->fd);
            a->fd = -1;
            tb_peer_say(net->peers[i], &f, net->digest);
        }
}

static bool all_agree(const struct tb_net *net)
{
    unsigned n = 0;
    for (unsigned i = 0; i < net->n; i++)
        n += net->agrees[i];
    return n == net->n;
}

/* No node starts before all others have told that they start with the same nodes: so two halves never start apart. */
static int agree(struct tb_net *net, struct tb_error *err)
{
    uint64_t until_ns = tb_now_ns() + (uint64_t)net->options.start_ms * 1000000u;
    struct timespec until = {(time_t)(until_ns / 1000000000u), (long)(until_ns % 1000000000u)};
    int late = 0;
    tell_list(net);
    pthread_mutex_lock(&net->lock);
    net->agrees[net->self] = true;
    while (!all_agree(net) && !net->refusal[0] && !late)
        late = pthread_cond_clockwait(&net->changed, &net->lock, CLOCK_MONOTONIC, &until);
    for (unsigned i = 0; i < net->n && late && !net->refusal[0]; i++)
        if (!net->agrees[i])
            refuse_start(net, net->peers[i], "did not tell in time with which nodes it starts");
    snprintf(err->text, sizeof(err->text), "%s", net->refusal);
    pthread_mutex_unlock(&net->lock);
    return err->text[0] ? -ECONNREFUSED : 0;
}

/* The listener runs before the first record is written: a node that reads the record can call at once. */
static int listen_for_peers(struct tb_net *net, struct tb_error *err)
{
    int fd = tb_net_listen(net->options.interface, &net->own.address, err);
    if (fd < 0)
        return fd;
    net->greeter = (struct tb_greeter){.key = &net->key, .listener = fd, .arrived = arrived, .refused = refused, .arg = net};
    strcpy(net->greeter.name, net->own.node);
    memcpy(net->greeter.start, net->own.start, sizeof(net->greeter.start));
    int rc = tb_greeter_start(&net->greeter);
    net->has_greeter = !rc;
    if (rc)
        close(fd);
    return rc;
}

static int find_all(struct tb_net *net, struct tb_error *err)
{
    net->gather.own = net->own;
    int rc = tb_gather(&net->gather, net->options.start_ms, err);
    if (!rc)
        rc = make_peers(net);
    if (rc)
        return rc;
    make_digest(net);
    pthread_mutex_lock(&net->lock);
    net->is_open = true;
    pthread_mutex_unlock(&net->lock);
    return agree(net, err);
}

/*
 * The order matters: the secret before anything is said, the record's own data before the listener can hand out a
 * connection, and threads last, when all peers are there. What fails on the way is undone by tb_net_close, which can close
 * a half-opened network.
 */
static int begin(struct tb_net *net, struct tb_error *err)
{
    if (net->n == 1)
        return 0;
    if (sodium_init() < 0)
        return -EIO;
    int rc = tb_net_secret_read(net->options.folder, net->key.secret, err);
    if (rc)
        return rc;
    if ((net->folder = tb_members_open(net->options.folder, err)) < 0)
        return net->folder;
    tb_record_begin(net->options.node, &net->own);
    net->gather.own = net->own; /* before any peer can call */
    net->gather.peers = net->folder;
    rc = listen_for_peers(net, err);
    if (!rc)
        rc = tb_transport_open(&net->transport, net->options.provider, &net->own.address, err);
    if (!rc)
        rc = find_all(net, err);
    return rc ? rc : start_threads(net);
}

static int check(const struct tb_net_options *o, struct tb_error *err)
{
    err->text[0] = 0;
    if (o->n_nodes < 1 || o->n_nodes > TB_NET_NODES_MAX)
        snprintf(err->text, sizeof(err->text), "number of nodes %u: allowed are 1 to %d", o->n_nodes, TB_NET_NODES_MAX);
    else if (!tb_net_name_is_valid(o->node))
        snprintf(err->text, sizeof(err->text), "name of this node '%.80s': allowed are 1 to 64 letters, digits, '.', '_' and '-'", o->node);
    else if (strlen(o->instance) >= sizeof(((struct tb_proof_key *)0)->instance))
        snprintf(err->text, sizeof(err->text), "name of the instance: allowed are 255 bytes");
    else if (o->start_ms < 1 || o->answer_ms < 1)
        snprintf(err->text, sizeof(err->text), "times for the start (%d ms) and an answer (%d ms): allowed is 1 ms or more", o->start_ms,
                 o->answer_ms);
    return err->text[0] ? -EINVAL : 0;
}

static struct tb_net *make(const struct tb_net_options *o)
{
    struct tb_net *net = calloc(1, sizeof(*net));
    if (!net)
        return NULL;
    *net = (struct tb_net){.options = *o, .n = o->n_nodes, .folder = -1};
    snprintf(net->key.instance, sizeof(net->key.instance), "%s", o->instance);
    snprintf(net->own.node, sizeof(net->own.node), "%s", o->node);
    net->peers = calloc(net->n, sizeof(struct tb_peer *));
    net->agrees = calloc(net->n, sizeof(bool));
    pthread_mutex_init(&net->lock, NULL);
    pthread_cond_init(&net->changed, NULL);
    net->gather = (struct tb_gather){.key = &net->key, .n_nodes = net->n};
    tb_gather_begin(&net->gather);
    net->common = (struct tb_peer_common){&net->key, &net->own, &net->transport, &net->options, &events, net};
    return net;
}

int tb_net_open(const struct tb_net_options *options, struct tb_net **out, struct tb_error *err)
{
    int rc = check(options, err);
    struct tb_net *net = rc ? NULL : make(options);
    if (!rc && !net)
        rc = -ENOMEM;
    if (!rc)
        rc = net->peers && net->agrees ? begin(net, err) : -ENOMEM;
    if (rc && !err->text[0])
        snprintf(err->text, sizeof(err->text), "the network cannot be opened: %s", strerror(-rc));
    if (rc && net)
        tb_net_close(net);
    *out = rc ? NULL : net;
    return rc;
}

/*
 * The threads that use the peers end before the peers are freed. The greeter is the last of them: until then it can still
 * hand a connection to a peer.
 */
static void stop_threads(struct tb_net *net)
{
    net->ends = true;
    if (net->has_heart)
        pthread_join(net->heart, NULL);
    if (net->has_seeker)
        pthread_join(net->seeker, NULL);
    if (net->has_greeter)
        tb_greeter_stop(&net->greeter);
}

static void stop_peers(struct tb_net *net)
{
    for (unsigned i = 0; net->peers && i < net->n; i++)
        if (net->peers[i]) {
            tb_peer_stop(net->peers[i]);
            free(net->peers[i]);
        }
}

/*
 * The peers end before their transport does. The record goes too, unless another process has taken the name in the
 * meantime. The key is wiped, so that it is in no later core dump.
 */
void tb_net_close(struct tb_net *net)
{
    stop_threads(net);
    stop_peers(net);
    tb_transport_end(&net->transport);
    if (net->folder >= 0) {
        tb_members_remove(net->folder, &net->key, &net->own);
        close(net->folder);
    }
    tb_gather_end(&net->gather);
    pthread_mutex_destroy(&net->lock);
    pthread_cond_destroy(&net->changed);
    sodium_memzero(&net->key, sizeof(net->key));
    free(net->agrees);
    free(net->peers);
    free(net);
}

unsigned tb_net_self(const struct tb_net *net)
{
    return net->self;
}

unsigned tb_net_count(const struct tb_net *net)
{
    return net->n;
}

const char *tb_net_name(const struct tb_net *net, unsigned node)
{
    return node == net->self ? net->own.node : net->peers[node]->record.node;
}

int tb_net_is_alive(const struct tb_net *net, unsigned node)
{
    return node == net->self || tb_peer_is_alive(net->peers[node]);
}

/*
 * To this node itself the request is served by the caller's own thread, so a node that keeps a file asks itself without a
 * message.
 */
int64_t tb_net_call(struct tb_net *net, unsigned node, const void *request, size_t n, void *answer, size_t room)
{
    if (node >= net->n || n > TB_NET_BYTES_MAX)
        return -EINVAL;
    if (room > TB_NET_BYTES_MAX)
        room = TB_NET_BYTES_MAX;
    if (node == net->self)
        return net->options.serve(net->options.arg, node, request, n, answer, room);
    return tb_lanes_call(net->peers[node], request, n, answer, room);
}
