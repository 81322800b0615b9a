/*
 * Signals of `tierctl run`: none ends it before the bytes are on the PFS.
 *
 * Problem: the terminal goes, the batch system warns, the user presses ^C twice; by
 * default each ends tierctl, and what the program wrote stays in an instance that
 * no command is left to drain.
 *
 * Idea: while the program runs, signals are passed on to it, and its end is waited
 * for.  After that they are answered with one line, and the drain goes on.  Before
 * there is a program they wait.  What the caller had ignored (nohup) stays ignored.
 *
 * Limit: SIGKILL.  Then the daemon sees that its owner is gone (daemon/owner.h).
 */
#ifndef TB_CTL_SIGNALS_H
#define TB_CTL_SIGNALS_H

#include <sys/types.h>

/* Before the daemon is started: from here on signals wait. */
void ctl_signals_hold(const char *instance);
/* In the child, before it executes the program: everything as the caller of tierctl had it. */
void ctl_signals_give_back(void);
/* There is a program: signals are passed on to it. */
void ctl_signals_pass_to(pid_t program);
/* The same for a process that the terminal tells nothing, as it is not in its foreground: keys too. */
void ctl_signals_pass_all_to(pid_t process);
/* It has ended: signals are answered. */
void ctl_signals_program_ended(void);

#endif
