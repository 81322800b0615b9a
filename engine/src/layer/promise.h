/*
 * What an fsync promises (`fsync:` of the configuration), made true for one file.
 *
 *   pfs   every dirty byte is on the PFS, synced
 *   tier  every dirty byte is in a directory tier, synced, and a synced journal
 *         record says where; where no tier has room, the file goes to the PFS
 *   none  nothing (scratch)
 */
#ifndef TB_PROMISE_H
#define TB_PROMISE_H

#include "layer/data.h"

int tb_promise_keep(struct tb_target *t);

#endif
