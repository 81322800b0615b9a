#ifndef TB_PRELOAD_ATTACH_H
#define TB_PRELOAD_ATTACH_H

#include <sys/types.h>

#include <tierbench/engine.h>

/* The engine, attached on first use; NULL where this process has none. */
tb_engine *tb_adapter_engine(void);
/* The same for a call with this path: not attached yet, and not for what an allocator reads while it begins. */
tb_engine *tb_adapter_engine_for(const char *path);
/* What this process may not use although its parent could: it was forked into another PID namespace, or by clone.  NULL: it was not. */
tb_engine *tb_adapter_foreign(void);
/* The engine is told of this thread's call, if the process had one when the call began: for tb_enter and tb_leave. */
void tb_call_begins(void);
void tb_call_ends(void);
/*
 * Around a fork for which libc calls no handler. `leaves`: the child can use neither slot nor locks (tb_engine_atfork_leaves).
 * False: there is nothing to do, and `ends` is not called. `made` is what the fork returned, 0 in the child.
 */
bool tb_fork_begins(bool leaves);
void tb_fork_ends(pid_t made);
/* A fork failed, and its handlers have run. */
void tb_fork_failed(void);
/* Past the buffers of an instance that lives the program would read old bytes, and write what is written over: says so and ends it. */
_Noreturn void tb_end_program(const char *what, const char *why);

#endif
