#ifndef TB_PRELOAD_ATTACH_H
#define TB_PRELOAD_ATTACH_H

#include <tierbench/engine.h>

/* The engine, attached on first use; NULL where this process has none. */
tb_engine *tb_adapter_engine(void);
/* What this process may not use although its parent could: it was forked into another PID namespace.  NULL: it was not. */
tb_engine *tb_adapter_foreign(void);
/* The engine is told of this thread's call, if the process had one when the call began: for tb_enter and tb_leave. */
void tb_call_begins(void);
void tb_call_ends(void);
/* Before a child that no handler of pthread_atfork sees: it shares this process's slot, so the count of calls says nothing from here on. */
void tb_adapter_bare_fork(void);
/* Past the buffers of an instance that lives the program would read old bytes, and write what is written over: says so and ends it. */
_Noreturn void tb_end_program(const char *what, const char *why);

#endif
