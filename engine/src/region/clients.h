/*
 * The records of the clients, and whether they live.
 *
 * A record holds the process number, the time when that process started, and which program
 * it runs, because numbers are used again and a process may execute another program.
 */
#ifndef TB_REGION_CLIENTS_H
#define TB_REGION_CLIENTS_H

#include "region/handle.h"

#define TB_CLIENT_BURIED UINT64_MAX /* the start time of a client that is known to be dead */
/* -EUSERS no slot is free. A program: -EINPROGRESS the instance is being ended, -ENOENT it is no more. */
int tb_client_register(tb_engine *e, bool is_tool);
/* It is being ended, or is no more: no program registers. */
bool tb_client_is_closed(const tb_engine *e);
/* It is no more: all of it is on the PFS, or was given up. */
bool tb_client_is_over(const tb_engine *e);
/* One of the first `n` slots in this process's name, or TB_NONE. */
uint32_t tb_client_take_slot(tb_engine *e, uint32_t n);

bool tb_client_is_alive(const struct tb_client *c);
/* The process itself lives, whatever program it runs by now. */
bool tb_client_runs(const struct tb_client *c);
/* What a dead client claimed, any client may claim. */
bool tb_slot_is_dead(const tb_engine *e, uint32_t slot);
/* It ended between two of its calls, and told them all: there is nothing half done. */
bool tb_client_was_in_no_call(const struct tb_client *c);

/* Is the daemon of this region alive?  (A robust lock it holds for life.) */
bool tb_daemon_is_alive(struct tb_header *h);

#endif
