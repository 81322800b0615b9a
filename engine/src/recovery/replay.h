/*
 * Replay of one journal: what its records still promise, put on the PFS.
 * The region is gone; the slab files and the journal are all there is.
 */
#ifndef TB_REPLAY_H
#define TB_REPLAY_H

#include "base/report.h"
#include "instance/instance.h"

struct tb_replay {
    const struct tb_config *config;
    const struct tb_layout *layout;
    const char *host, *name;   /* of the instance */
    uint64_t id;               /* of the instance, as its lease says */
    struct tb_io *io;          /* to the PFS */
    struct tb_io *const *tier; /* to the directory tiers */
    tb_file_reporter *report;
    void *arg;
    int *n_lost;      /* counts files that another program removed or replaced: their bytes are kept (journal/lost.h) */
    bool *is_foreign; /* set where the journal is another configuration's: then nothing was flushed */
};

/*
 * Flush every range that no newer record covers, if its bytes match their checksum and its
 * file is still the one recorded. 0 when all of it is on the PFS. -EBADMSG if records or
 * bytes were damaged (each is reported, none is flushed), or the first error.
 */
int tb_replay(const struct tb_replay *r);

#endif
