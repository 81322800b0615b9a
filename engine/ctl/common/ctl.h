/* What the commands share: messages, picking an instance, starting a daemon. */
#ifndef TB_CTL_H
#define TB_CTL_H

#include <jansson.h>

#include "base/wait.h"
#include "instance/instance.h"

#define EXIT_NO_INSTANCE 1
#define EXIT_BAD_INPUT 2
#define EXIT_DRAIN_FAILED 3

/* One line on stderr, "tierctl: ..."; returns EXIT_BAD_INPUT. */
int ctl_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* For commands whose result is what they print: 0, or EXIT_BAD_INPUT, said, where stdout did not take all of it. */
int ctl_output_ends(void);

/* Attach to the instance named, or to the only one; prints what is wrong and returns the exit status otherwise. */
int ctl_attach(const char *name, tb_engine **out);

/* The same to read only: waits for no other process. */
int ctl_look(const char *name, tb_engine **out);

/* Wait until the instance can be attached to. Prints what is wrong and returns 1 if no process makes it. */
int ctl_await(const char *name);

/* A name for an instance of this configuration: its file name without suffix. */
void ctl_default_name(const char *config, char *out, size_t size);

/*
 * "run-PID-8 DIGITS" for a private instance, with the host if nodes share tiers. The name
 * is new, also after a reboot, when process numbers begin anew, and no other user can know
 * it beforehand.
 */
void ctl_run_name(const char *host, char *out, size_t size);

struct ctl_daemon {
    const char *config, *fragment, *mode; /* the last two may be NULL */
    char name[64];
    bool is_owned; /* it ends with this process: see ctl_tell_daemon */
    long pid;
    int owner; /* what this process holds for as long as it lives */
};
/* Start tierd and wait until its instance is ready; otherwise prints its message and returns the exit status. */
int ctl_start_daemon(struct ctl_daemon *daemon);
/* To the daemon that this process owns: "program PID", or "keep", it is to stay when this process ends. */
void ctl_tell_daemon(const struct ctl_daemon *daemon, const char *format, ...) __attribute__((format(printf, 2, 3)));
/*
 * Tell the daemon to end and wait for it.  0, or EXIT_DRAIN_FAILED where it could not end in order, with the command that
 * tries again.
 */
int ctl_stop_daemon(tb_engine *engine, const char *retry);

/* Drain with progress on stderr, failures named; 0 or EXIT_DRAIN_FAILED with the command that retries. */
int ctl_drain(tb_engine *engine, const char *retry);

/* Seconds on a clock that does not jump. */
double ctl_now(void);
/* A file next to this program: ../lib/NAME or ./NAME. */
void ctl_sibling(const char *relative, char *out, size_t size);

void ctl_progress(void *arg, const char *what, uint64_t done, uint64_t total);

/* A tb_wait_listener: one line after 1, 2, 4, 8 ... seconds of a wait for another process. */
void ctl_say_wait(void *arg, int pid, double seconds, bool in_vain);
/* Another one, of the main thread: it ends this process where a wait is in vain, */
void ctl_give_up(void *arg, int pid, double seconds, bool in_vain);
/* with 3 or this exit status. */
void ctl_gives_up_with(int status);

/*
 * Refuse a file that an option names to be written, before anything is done: it is replaced whole by a rename, which a
 * directory does not take, and which would remove a device or a fifo. 0, or EXIT_BAD_INPUT, said.
 */
int ctl_check_output(const char *option, const char *file);

#endif
