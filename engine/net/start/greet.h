/*
 * How a connection begins: both sides prove the secret, and nothing else is said before that. A connection that has not proved
 * it within TB_GREET_MS is closed, and so is the oldest of those that wait when there are too many: so connections without the
 * secret keep no node out.
 */
#ifndef TB_NET_GREET_H
#define TB_NET_GREET_H

#include <pthread.h>
#include <stdint.h>

#include "base/error.h"
#include "net/start/address.h"
#include "net/proof/proof.h"

enum { TB_GREET_MS = 2000, TB_GREET_WAITING = 64 };

/* A connection that proved itself: it is `arrived`'s from then on. Called by the greeter's thread, one at a time. */
typedef void tb_net_arrived(void *arg, int fd, const struct tb_hello *hello, const uint8_t key[TB_NET_PROOF_BYTES]);
typedef void tb_net_refused(void *arg, const char *line);

struct tb_greeter {
    const struct tb_proof_key *key;
    char name[TB_NET_NAME_MAX];
    uint8_t start[TB_NET_START_BYTES];
    int listener; /* closed by tb_greeter_stop */
    tb_net_arrived *arrived;
    tb_net_refused *refused;
    void *arg;
    int wake[2];
    pthread_t thread;
};

/* The caller has filled in all above `wake`. */
int tb_greeter_start(struct tb_greeter *g);
void tb_greeter_stop(struct tb_greeter *g);

/* The caller's side: a proved socket, or -errno: -EACCES the other side did not prove the secret. Draws hello's nonce. Both
 * sides have the same `session` then, of this connection alone (NULL: it is not wanted). */
int tb_greet(const struct tb_proof_key *key, const struct tb_net_address *to, const struct tb_net_address *own, struct tb_hello *hello,
             int ms, uint8_t session[TB_NET_PROOF_BYTES]);

#endif
