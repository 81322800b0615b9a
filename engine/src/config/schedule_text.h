/*
 * A schedule: a text file that names, in order, the ranges that will be read.
 *
 *   # PATH OFFSET LENGTH       bytes; PATH absolute, or relative to the PFS
 *   input/mesh.h5 0 1048576
 *
 * The daemon prefetches them in that order as far as room allows: it waits while there is
 * none, and goes on when readers have used what is there. If the file of a range is not
 * there when its turn comes, the range is passed over.
 */
#ifndef TB_CONFIG_SCHEDULE_TEXT_H
#define TB_CONFIG_SCHEDULE_TEXT_H

#include "config/config.h"

struct tb_range {
    char *path;
    uint64_t offset, length;
};

struct tb_schedule {
    uint32_t n, at; /* ranges, and which is being prefetched */
    struct tb_range *range;
    int fd;        /* of its file through the engine, -1: not opened yet */
    uint64_t next; /* byte of it */
};

/* The configuration's schedule; 0, or -EINVAL / -errno with `err` naming file and line.  None is an empty one. */
int tb_schedule_read(const struct tb_config *config, struct tb_schedule *out, struct tb_error *err);
void tb_schedule_free(struct tb_schedule *s);

#endif
