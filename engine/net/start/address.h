/*
 * Where a node listens: an address of one interface, as text that another node can use.
 */
#ifndef TB_NET_ADDRESS_H
#define TB_NET_ADDRESS_H

#include "base/error.h"
#include "net/proof/frame.h"

/* Listens on a free port of the interface (NULL: of the address of the host name). A descriptor, or -errno and why. */
int tb_net_listen(const char *interface, struct tb_net_address *own, struct tb_error *err);
/* A connected socket, or -errno: -ETIMEDOUT after `ms`. From the host `own`, so that both ends are on the one interface. */
int tb_net_connect(const struct tb_net_address *to, const struct tb_net_address *own, int ms);
/* Of a connection's other end, for messages. */
void tb_net_describe_other(int fd, char *out, int size);

#endif
