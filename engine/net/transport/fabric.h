/* libfabric: messages and reads of remote memory by the providers that supercomputers have. */
#ifndef TB_NET_FABRIC_H
#define TB_NET_FABRIC_H

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>

#include "net/transport/transport.h"

enum {
    TB_FABRIC_INLINE = 8 << 10, /* a larger payload is read by the side that gets the message */
    TB_FABRIC_SLOT = 64 + TB_FABRIC_INLINE,
    TB_FABRIC_POSTED = 4, /* messages that can come before they are taken */
};

struct tb_fabric {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
};

/* One operation under way. The context is libfabric's, and first. */
struct tb_fabric_op {
    struct fi_context2 context;
    bool is_done;
    int rc;
    size_t n;
};

struct tb_fabric_lane {
    struct tb_fabric *fabric;
    struct tb_lane *lane;
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fid_av *av;
    bool waits; /* its queue can be waited on; else it is looked at again and again */
    fi_addr_t other;
    struct tb_fabric_op out, in[TB_FABRIC_POSTED];
    unsigned next;             /* of `in` */
    uint64_t n_sent, n_taken;  /* messages, so that none counts twice */
    struct fid_mr *slots_mr;   /* of `slots`, where the provider wants that */
    struct fid_mr *offered_mr; /* of what the last message offered */
    struct fid_mr *broken_mr;  /* of a read that failed: its end, and that of the lane, is when the endpoint is closed */
    const void *offered;
    size_t n_offered;
    uint8_t slots[TB_FABRIC_POSTED + 1][TB_FABRIC_SLOT]; /* the last is for what goes out */
};

extern const struct tb_transport_ops tb_transport_fabric;

#endif
