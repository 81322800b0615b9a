/*
 * Attaching to an instance that is there.
 */
#ifndef TB_INSTANCE_ATTACH_H
#define TB_INSTANCE_ATTACH_H

#include "region/handle.h"

/* As tb_instance_attach, for a process that holds the lease alone (and gives it away here): every other client is dead. */
int tb_client_attach_alone(const char *name, int lease, struct tb_io *base, tb_engine **out);

/* As tb_engine_attach, for the engine's own programs: works when no other program could attach any more. */
int tb_instance_attach(const char *name, struct tb_io *base, tb_engine **out);

/* To read counters and names: takes no part, and waits for no other process. */
int tb_instance_look(const char *name, struct tb_io *base, tb_engine **out);

#endif
