/*
 * A job's storage as its directives ask for it: folders below one place, the variables that
 * name them, and the pairs that are staged in and out.
 *
 * A job has PLACE/JOB/striped, .../private-HOST and .../NAME; what is persistent is in
 * PLACE/persistent/NAME. Striped and named folders are shared by the nodes of a job where PLACE
 * is.
 */
#ifndef TB_CTL_JOB_H
#define TB_CTL_JOB_H

#include <stdbool.h>

#include "config/stage.h"
#include "staging/directives.h"
#include "staging/pairs.h"

#define JOB_VARIABLES 64

struct stage_job {
    struct directives directives;
    const char *place, *id;
    bool is_away; /* the place is not on this node: what is in it cannot be checked */
    struct {
        char name[32 + DIRECTIVE_NAME_MAX], value[PATH_MAX];
    } variable[JOB_VARIABLES];
    int n_variables;
    struct pairs in, out;
    struct tb_config_stage settings; /* by profile= */
};

/* All but the work is done: read, resolved, checked. 0, or EXIT_BAD_INPUT, said. */
int stage_job_read(struct stage_job *job, const char *script, const char *word, const char *place, const char *id);
/* The same as before a job starts: places, rooms and clashes too. */
int stage_job_check(struct stage_job *job);
/*
 * Make its folders, and those that are persistent, each with a mark. Phases find the folder again, also on another node; with
 * `is_new` one that is there is refused, because an earlier job may have left in it what could not be staged out.
 */
int stage_job_set_up(const struct stage_job *job, bool is_new);
/* Before files are staged out: what took them at the set-up is mounted still. 0, or EXIT_DRAIN_FAILED, said. */
int stage_job_check_places(const struct stage_job *job);
/* To standard output, for a shell; and into this process's environment. */
void stage_job_print_variables(const struct stage_job *job);
void stage_job_set_variables(const struct stage_job *job);
/* Remove what is the job's, and what it destroys: folders with the mark and no others. */
int stage_job_tear_down(const struct stage_job *job);
void stage_job_free(struct stage_job *job);

#endif
