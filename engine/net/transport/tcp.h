/* Plain TCP: the reference of all transports. */
#ifndef TB_NET_TCP_H
#define TB_NET_TCP_H

#include <sys/types.h>

#include "net/transport/transport.h"

extern const struct tb_transport_ops tb_transport_tcp;

/* All bytes through a lane's connection: 0, -ETIMEDOUT or -ECONNRESET. */
int tb_tcp_send(struct tb_lane *lane, const void *from, size_t n, uint64_t until_ns);
int tb_tcp_recv(struct tb_lane *lane, void *to, size_t n, uint64_t until_ns);

#endif
