/*
 * What carries messages from clients to the daemon: what each system gives to the one loop
 * of messages.c.
 */
#ifndef TB_COMPONENTS_CARRIER_H
#define TB_COMPONENTS_CARRIER_H

#include "common/job.h"

/* A message says that client `client` has something of its place `place` for the daemon. */
struct tb_message {
    uint32_t client, place;
};

struct tb_carrier {
    int (*start)(struct tb_job *job); /* 0, or an exit status */
    void (*stop)(struct tb_job *job);
    /* In each process of the group; all are called before the first message.  The daemon's comes first. */
    void (*join_daemon)(struct tb_job *job);
    void (*join_client)(struct tb_job *job);
    void (*send)(struct tb_job *job, uint32_t place); /* by a client */
    /* By the daemon: the next message; waits for it. */
    struct tb_message (*receive)(struct tb_job *job);
};

extern const struct tb_carrier tb_carrier_engine, tb_carrier_nats;

#endif
