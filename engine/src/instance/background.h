#ifndef TB_INSTANCE_BACKGROUND_H
#define TB_INSTANCE_BACKGROUND_H

#include "region/handle.h"

/* Background work, run by the daemon: flush threads, repair of dead clients, statistics samples. */
int tb_background_start(tb_engine *engine);
void tb_background_stop(tb_engine *engine);

#endif
