#ifndef TB_INSTANCE_BACKGROUND_H
#define TB_INSTANCE_BACKGROUND_H

#include "region/handle.h"

/*
 * Background work, run by the daemon: flush threads, repair of dead clients, statistics samples.  It ends by itself
 * after the first; the second waits for that.  -ETIMEDOUT: what is left of it waits in vain for a process that is
 * stopped (base/wait.h): then a detach does nothing, and the same call waits again.
 */
int tb_background_start(tb_engine *engine);
void tb_background_end(tb_engine *engine);
int tb_background_stop(tb_engine *engine);

#endif
