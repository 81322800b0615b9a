/* A remote tier as a place to be measured: through the daemon of a running instance, as its programs reach it. */
#ifndef TB_CTL_BORROWED_H
#define TB_CTL_BORROWED_H

#include "common/measure.h"

/*
 * Attaches to the instance and takes free buffers of the tier of that name, which no program uses then. 0, or the exit status, which is
 * said. If this process is killed the buffers are free again.
 */
int ctl_borrow_begin(const char *instance, const char *tier, struct measure_calls *out);
void ctl_borrow_end(struct measure_calls *calls);

#endif
