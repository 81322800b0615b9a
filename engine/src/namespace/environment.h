/*
 * What a process's environment says of its files: TIERBENCH_MODE, and for an instance made
 * from a Hermes .conf the variables of Hermes' adapters. A .conf names no PFS and no mode,
 * so there each client says which paths it uses in which mode.
 */
#ifndef TB_ENVIRONMENT_H
#define TB_ENVIRONMENT_H

#include "region/handle.h"

#define TB_MODE_OUTSIDE ((enum tb_mode)(TB_MODE_BYPASS + 1)) /* of a client's own prefix: not managed */
#define TB_MAX_ROUTES 48u                                    /* prefixes of one client */

/*
 * The client's prefixes and when its closes flush: the configuration's, or the
 * environment's.  -EINVAL with `err` set: a variable's value is refused.
 */
int tb_environment_apply(tb_engine *e, struct tb_error *err);

/* The configuration's, for programs that manage an instance. */
int tb_environment_ignore(tb_engine *e);

/* This client reads and writes past the buffers: what others wrote until now goes to the PFS first. */
bool tb_environment_goes_past(const tb_engine *e);

/* HERMES_STOP_DAEMON: should the daemon end after the programs of this client? Hermes' default is yes. */
bool tb_environment_stops_daemon(void);

#endif
