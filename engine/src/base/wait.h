/*
 * Waits for another process. A process that waits over a second for a lock or a claim says
 * for which process it waits, each second, so that a stopped or hung process gets a name.
 *
 * The wait is written to the client's record in the region, where `tierctl status` reads
 * it, and told to the listener of this process. The awaited process may itself wait for
 * another one, as its record says. A wait is in vain if the last process of that chain has
 * been stopped (SIGSTOP, a debugger) for 30 s. The listener decides what to do then; the
 * wait itself goes on.
 */
#ifndef TB_WAIT_H
#define TB_WAIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* In the record of a client: its latest wait. */
struct tb_wait_note {
    _Atomic int pid; /* that is waited for; 0: none */
    _Atomic uint64_t since_ns;
};

struct tb_wait {
    uint64_t since_ns, told_ns; /* CLOCK_MONOTONIC; 0: not begun, nothing told */
    uint64_t stopped_ns;        /* since when the awaited process was seen stopped; 0: it is not */
};

#define TB_WAIT_SECONDS 1
#define TB_WAIT_STOPPED_SECONDS 30

/* This process from here on, and where its waits are noted; NULL: nowhere. */
void tb_wait_identify(int pid, struct tb_wait_note *note);
/* No longer there. */
void tb_wait_forget(const struct tb_wait_note *note);
int tb_wait_own_pid(void);

/* For which process another one waits, 0: for none; asked of what `of` is about. */
typedef int tb_wait_next(const void *of, int pid);
/* How to learn for which processes other processes wait, until `of` is forgotten. */
void tb_wait_know(tb_wait_next *next, const void *of);
void tb_wait_know_no_more(const void *of);

/*
 * Called in the thread that waits, each second.  A thread that waits for another one of this process is told where that
 * one waits in vain, and for which process. The thread's own listener is told once more when such a wait is over, with `pid` 0
 * and not in vain.
 */
typedef void tb_wait_listener(void *arg, int pid, double seconds, bool in_vain);
/* One for the process, and one for the calling thread; NULL: none. */
void tb_wait_listen(tb_wait_listener *listener, void *arg);
void tb_wait_listen_here(tb_wait_listener *listener, void *arg);

/* Called at each look of a wait, with the awaited process. Tells about it once a second. */
void tb_wait_go_on(struct tb_wait *wait, int pid);
void tb_wait_end(const struct tb_wait *wait);

/* "process 12 (python3, stopped)", or "process 12 (tierd), which waits for process 34 (python3, stopped)" */
void tb_wait_describe(int pid, char *out, size_t size);
/* It is stopped, or the process at the end of its chain of waits is. */
bool tb_wait_is_for_stopped(int pid);

#endif
