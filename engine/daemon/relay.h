/* What a client of this node asks of others, asked for it: daemon/peers.h. */
#ifndef TB_DAEMON_RELAY_H
#define TB_DAEMON_RELAY_H

#include "net/net.h"
#include "region/handle.h"
#include "shared/wire.h"

/* Of a keeper. */
struct relay_answer {
    struct tb_told told;
    struct tb_wire_extent extent[TB_WIRE_MOST];
};

/*
 * The answer goes to `bytes`, which holds the request of `n` bytes. Its length, or -errno; -EAGAIN: a node lets go of bytes or
 * flushes them, ask again.
 */
int64_t relay_request(tb_engine *e, struct tb_net *net, char *bytes, size_t n, size_t room);
/* A call about [w->lo, w->hi) of the file to that node failed: in the log, and for `tierctl status`. */
void relay_say_lost(tb_engine *e, const struct tb_net *net, const struct tb_wire *w, unsigned node, int64_t rc);
/* 0 with the answer of the file's keeper, whole as far as its lengths go, or what a client is told: -ESTALE, -EAGAIN, -EIO. */
int relay_ask_keeper(tb_engine *e, struct tb_net *net, const void *request, size_t n, struct relay_answer *answer);
/* The node that keeps the list of which node has which bytes of the file. */
unsigned relay_keeper(const struct tb_net *net, const struct tb_wire_file *file);

#endif
