/*
 * How far the movers of a log are, as Spectral's users know it: "Enqueued:N Dequeued:N
 * Done:N" whenever that has grown, on a terminal with a bar, the rate and the time left.
 */
#ifndef TB_CTL_PROGRESS_H
#define TB_CTL_PROGRESS_H

#include <stdbool.h>

#include "stage/log/ledger.h"

struct ctl_stage_progress {
    struct tb_ledger *ledger;
    const char *host; /* the files of this host's mover must have been moved at the end; NULL: those of all movers */
    const char *from; /* its folder; NULL: it had a list */
    double start, told;
    uint64_t bytes_before;
    char line[200];
};

/* Other movers write into the same log, of other nodes and of other jobs, and may go on after this one has ended. */
void ctl_progress_begin(struct ctl_stage_progress *progress, struct tb_ledger *ledger, const char *host, const char *from);
/* Print what is new. At most a line a second, unless `last`. */
void ctl_progress_show(struct ctl_stage_progress *progress, bool last);
/*
 * "All files moved", or which are not and why. 0 or EXIT_DRAIN_FAILED. Not `complete`: the movers were stopped, so there may be
 * files that the log does not know; or the one mover says that it could not move all.
 */
int ctl_progress_end(struct ctl_stage_progress *progress, bool complete);

#endif
