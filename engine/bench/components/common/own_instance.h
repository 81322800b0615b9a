/*
 * An instance of the engine for one measurement: made by the process that stays, attached
 * by each process of the group, removed at the end.
 */
#ifndef TB_COMPONENTS_OWN_INSTANCE_H
#define TB_COMPONENTS_OWN_INSTANCE_H

#include "job.h"
#include "region/handle.h"

/* What it must have room for. */
struct tb_own_needs {
    uint32_t files;
    uint64_t memory;    /* bytes of the memory tier, beside metadata */
    uint64_t directory; /* bytes of the directory tier, in buffers of 4 KiB; 0: it has none */
};

/* 0 or an exit status; what is wrong is said. */
int tb_own_start(struct tb_job *job, const struct tb_own_needs *needs);
void tb_own_stop(struct tb_job *job);
/* In a process of the group. */
tb_engine *tb_own_join(struct tb_job *job);
/* Bytes of the region that are not the bytes of buffers. */
uint64_t tb_own_metadata(const tb_engine *e);

#endif
