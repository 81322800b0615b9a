/* status --watch: an instance as it lives. */
#ifndef TB_WATCH_H
#define TB_WATCH_H

#include "common/ctl.h"

/*
 * Look every `seconds` until SIGINT, SIGTERM, the end of the instance or of the
 * reader: redrawn in place on a terminal, else a line a look (a JSON document
 * where `json`).  Returns the exit status; the caller detaches.
 */
int ctl_watch(tb_engine *engine, double seconds, bool json);

#endif
