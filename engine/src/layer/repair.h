/*
 * What a killed client leaves behind: buffers taken and not published,
 * descriptions it held, its slot.  Run by the background work, and by whoever
 * attaches to an instance whose daemon is dead.
 */
#ifndef TB_REPAIR_H
#define TB_REPAIR_H

#include "region/handle.h"

/* Repair after every client that is dead; returns how many there were. */
int tb_repair(tb_engine *e);

#endif
