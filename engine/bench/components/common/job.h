/*
 * One measurement of a component: which system, how many operations, by how many
 * processes.  The system is started by the process that stays; a group of processes
 * of its own measures it, so whatever happens to the group, the system is stopped and
 * its folder removed.
 *
 * Each kind of operation is a phase.  Its operations are made in TB_PARTS equal parts,
 * each timed on its own: the first process prints a line of JSON with all rates, and with
 * the processor time that an operation took in the first process and in the server.
 */
#ifndef TB_COMPONENTS_JOB_H
#define TB_COMPONENTS_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "workers.h"

#define TB_PARTS 10
#define TB_JOB_FOLDER 1024

/* Exit statuses beside 0 and 1. */
enum { TB_JOB_REFUSED = 2, TB_JOB_SKIPPED = 77 };

struct tb_job {
    const char *program;
    const char *system;
    long operations; /* of each kind, by all processes together; a multiple of TB_PARTS and of the processes */
    int processes;   /* that ask */
    long depth;      /* requests that a process has under way at once; 1: it waits for each answer */
    char folder[TB_JOB_FOLDER];
    int server; /* process of the system's server; 0: it has none */
    int rank;   /* of this process in the group */
    struct tb_workers *workers;
};

/* What a program measures.  Functions end the process with tb_job_fail where something goes wrong. */
struct tb_job_of {
    const char *const *systems;                           /* their names, NULL after the last */
    int helpers;                                          /* processes of the group beside those that ask */
    int (*choose)(const struct tb_job *job, char **argv); /* first of all; NULL: nothing is to be chosen */
    int (*start)(struct tb_job *job);                     /* before the group.  Both: 0, or an exit status */
    void (*work)(struct tb_job *job);                     /* in each process of the group: its phases */
    void (*stop)(struct tb_job *job);                     /* after the group, also if start failed */
};

/* main's arguments: SYSTEM [-n OPERATIONS] [-p PROCESSES] [-b DEPTH].  Returns the exit status. */
int tb_job_main(int argc, char **argv, const struct tb_job_of *of);

/* Print "PROGRAM: SYSTEM: ..." and end with status 1. */
void tb_job_fail(const struct tb_job *job, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));
/* The same message; returns TB_JOB_SKIPPED, for a system that this machine does not have. */
int tb_job_skip(const struct tb_job *job, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Do operations [from, to) of this process. */
typedef void tb_job_part(struct tb_job *job, void *arg, long from, long to);

/* A phase without a clock: warm-up, checks.  All processes of the group begin and end it together. */
void tb_job_untimed(struct tb_job *job, tb_job_part *part, void *arg, long operations);
/*
 * A phase of `operations` of all processes that ask together, in parts.  `more` writes what else
 * the printed line says (", \"key\": value"), after the phase, in the first process; NULL: nothing.
 */
typedef void tb_job_more(void *arg, char *out, size_t size);
void tb_job_timed(struct tb_job *job, const char *operation, tb_job_part *part, void *arg, long operations, tb_job_more *more);

#endif
