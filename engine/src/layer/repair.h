/*
 * What a killed client leaves: buffers taken and not published, descriptions it held, its
 * slot. Repair is run by the background work, and by a process that attaches to an
 * instance that has lost its daemon.
 */
#ifndef TB_REPAIR_H
#define TB_REPAIR_H

#include "region/handle.h"

/* Repair after every client that is dead; returns how many there were. */
int tb_repair(tb_engine *e);

#endif
