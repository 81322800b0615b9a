/*
 * The site's own Darshan: where it has to leave its logs, and fetching them.
 */
#ifndef TB_CTL_DARSHAN_SITE_H
#define TB_CTL_DARSHAN_SITE_H

#include "darshan/job.h"

/* The site's runtime: where it has to leave its logs, and fetching them. */
void trace_site_environment(const struct ctl_trace *trace, char *const *command);
bool trace_site_fetch(const struct ctl_trace *trace, int *rc); /* false: it left none, or not of all that count */

#endif
