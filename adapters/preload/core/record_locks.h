/*
 * The program's record locks (fcntl, lockf), and the engine's own descriptors of backing files.
 *
 * The problem: POSIX drops all record locks of a process on a file as soon as the process closes any descriptor of that
 * file, and the engine opens and closes backing files inside the program's process.
 *
 * The idea: files on which the program may hold record locks are marked, before the kernel is asked for the first.
 * The engine's own descriptor of a marked file is kept when the engine closes it, and given again when the engine
 * opens the file next, so one or two are kept for each file.  The mark goes when the program itself closes a descriptor
 * of the file: its locks go then, and the kept ones are closed.  A child of fork holds no locks and keeps nothing; a
 * program that is executed inherits the locks, so it also inherits what is kept, and marks what it finds locked.
 *
 * Limits: a close that no wrapper sees (libc's own, of its streams) leaves the mark and what is kept; a lock on a
 * directory is lost when the engine reads that directory; without /proc an executed program finds no marks.
 */
#ifndef TB_RECORD_LOCKS_H
#define TB_RECORD_LOCKS_H

#include <stdbool.h>
#include <sys/types.h>

struct tb_lock_mark;

/* Before the kernel is asked for a lock on `fd`: its file is marked.  NULL where there is nothing to mark. */
struct tb_lock_mark *tb_lock_asks(int fd);
/* After the kernel's answer. */
void tb_lock_asked(struct tb_lock_mark *mark);

/*
 * Around a call by which the program's `fd` is closed or replaced: where its file is marked, no other thread's lock
 * comes between, and what is kept is closed.  NULL: it is not marked, and need not be ended.
 */
struct tb_lock_mark *tb_locks_go_begin(int fd);
void tb_locks_go_end(struct tb_lock_mark *mark, bool closed);
/* Of several descriptors, those of marked files alone. */
bool tb_locks_are_marked(int fd);

/* The engine's own descriptor: opened above those that programs number, closed or kept.  As operations of a chain. */
int tb_own_open(const char *path, int flags, mode_t mode);
int tb_own_close(int fd);

/* Around a call that executes another program in this process; when it returns, it has failed. */
bool tb_locks_exec_begin(void);
void tb_locks_exec_end(bool begun);
/* What an executed program inherited. */
void tb_locks_adopt(void);

/* Around a fork. */
void tb_locks_before_fork(void);
void tb_locks_in_parent(void);
void tb_locks_in_child(void);

#endif
