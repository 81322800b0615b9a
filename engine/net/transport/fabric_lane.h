/* What goes over one lane of libfabric: see fabric.h. */
#ifndef TB_NET_FABRIC_LANE_H
#define TB_NET_FABRIC_LANE_H

#include "net/transport/fabric.h"

/* Memory that the provider may use: `*mr` NULL where it asks for no registration. */
int tb_fabric_register(struct tb_fabric_lane *l, const void *memory, size_t n, uint64_t access, bool always, struct fid_mr **mr);
/* The slots are open for messages from here on. */
int tb_fabric_post_all(struct tb_fabric_lane *l);
int tb_fabric_send(struct tb_lane *lane, const struct tb_frame *head, const void *payload, uint64_t until_ns);
int tb_fabric_recv(struct tb_lane *lane, struct tb_frame *head, void *payload, size_t room, uint64_t until_ns);
int tb_fabric_read_remote(struct tb_lane *lane, const struct tb_remote *from, void *to, size_t n, uint64_t until_ns);

#endif
