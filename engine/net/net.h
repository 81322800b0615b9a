/*
 * The peers of one daemon: exactly N nodes that proved each other the same secret, and requests with their answers between
 * them. The only part of the project that opens the network; tierd alone uses it, and only with `nodes: shared`.
 */
#ifndef TB_NET_NET_H
#define TB_NET_NET_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct tb_net;

enum { TB_NET_NODES_MAX = 4096, TB_NET_BYTES_MAX = 1 << 20 }; /* a request's or an answer's payload */

/*
 * Serves one request of node `from` (by the network's own threads, several at once). Puts up to `room` bytes into `answer`.
 * Returns their number, or -errno, which the caller's tb_net_call returns. May be called before tb_net_open has returned.
 */
typedef int64_t tb_net_serve(void *arg, unsigned from, const void *request, size_t n, void *answer, size_t room);

struct tb_net_options {
    const char *folder;    /* shared by all nodes: the secret and peers/; a folder of the instance's own */
    const char *instance;  /* all nodes have the same */
    const char *node;      /* this node's name: host name */
    unsigned n_nodes;      /* exactly so many; 1 is allowed only where the caller knows it (never a default) */
    const char *interface; /* bound to, NULL: the address of the host name; "lo" on one machine */
    const char *provider;  /* "tcp" (the reference) or libfabric's: "tcp;ofi_rxm", "shm", "verbs", "cxi", "efa" */
    int start_ms, answer_ms;
    tb_net_serve *serve;
    void *arg;
};

/* Returns when all nodes are connected and proved, or says in `err` which node is missing, came twice, or was refused. */
int tb_net_open(const struct tb_net_options *options, struct tb_net **net, struct tb_error *err);
unsigned tb_net_self(const struct tb_net *net);
unsigned tb_net_count(const struct tb_net *net);
const char *tb_net_name(const struct tb_net *net, unsigned node);
/* False from the moment its connection ended or no heartbeat came for answer_ms. */
int tb_net_is_alive(const struct tb_net *net, unsigned node);
/*
 * Thread-safe. The answer's length, or -errno: what the peer's serve returned, -EHOSTDOWN for a node that is lost,
 * -ETIMEDOUT after answer_ms. To oneself it is served at once, without the network.
 */
int64_t tb_net_call(struct tb_net *net, unsigned node, const void *request, size_t n, void *answer, size_t room);
void tb_net_close(struct tb_net *net);

#endif
