/*
 * The start: exactly N nodes that know the secret, each by a name of its own, are found and connected.
 */
#ifndef TB_NET_GATHER_H
#define TB_NET_GATHER_H

#include <pthread.h>
#include <stdbool.h>

#include "net/start/launcher.h"
#include "net/start/members.h"

struct tb_arrival {
    struct tb_record record;
    int fd; /* proved; -1: not yet */
    int rc; /* of the last try to call it */
};

struct tb_gather {
    const struct tb_proof_key *key;
    struct tb_record own;
    unsigned n_nodes;
    int peers;                    /* the folder */
    struct tb_launcher *launcher; /* NULL: none */
    pthread_mutex_t lock;
    struct tb_arrival *all; /* by name; this node is not among them */
    unsigned n;
    unsigned foreign; /* names in the folder that are of another start */
    char twice[160];  /* where this node's name came from a second time; empty: it did not */
    bool is_over;     /* no node is let in any more */
};

void tb_gather_begin(struct tb_gather *g);
/* A proved connection of a node that called. Not taken (and the caller's) where the start is over. */
bool tb_gather_arrived(struct tb_gather *g, int fd, const struct tb_hello *hello);
/* Until N nodes are connected. `all` has N-1 then, sorted by name, their connections the caller's. */
int tb_gather(struct tb_gather *g, int start_ms, struct tb_error *err);
void tb_gather_end(struct tb_gather *g);

#endif
