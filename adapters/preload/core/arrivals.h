/*
 * Files that are staged in when they are asked for first (docs/stage.md): tierctl's mover
 * brings them while the program runs, and what the program names before it came is waited
 * for.
 */
#ifndef TB_PRELOAD_ARRIVALS_H
#define TB_PRELOAD_ARRIVALS_H

/* Once a process, when it attaches: later an allocator may hold its lock, and this asks for memory. */
void tb_arrivals_read_environment(void);
/* An absolute name: it is there, or never comes, when this returns. Called inside. */
void tb_arrival_await(const char *name);

#endif
