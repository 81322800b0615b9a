/*
 * The lanes between this node and a peer: those that it calls by, made as they are needed and kept, and those that the peer
 * calls by, each with a thread that serves it.
 */
#ifndef TB_NET_LANES_H
#define TB_NET_LANES_H

#include "net/peer.h"

/* As tb_net_call. */
int64_t tb_lanes_call(struct tb_peer *p, const void *request, size_t n, void *answer, size_t room);
/* A proved connection for calls of the peer's own: a thread serves them. */
void tb_lanes_serve(struct tb_peer *p, int fd, const uint8_t session[TB_NET_PROOF_BYTES]);
/* Under the peer's lock: all that is under way on them ends. */
void tb_lanes_break(struct tb_peer *p);
/* Waits for their threads; the peer is lost and takes no more. */
void tb_lanes_stop(struct tb_peer *p);

#endif
