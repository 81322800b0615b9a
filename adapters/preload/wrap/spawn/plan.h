/*
 * The actions of one posix_spawn, with the names and descriptors that they have at that moment.
 */
#ifndef TB_SPAWN_PLAN_H
#define TB_SPAWN_PLAN_H

#include <limits.h>
#include <spawn.h>

struct tb_actions;

struct tb_plan {
    const posix_spawn_file_actions_t *given;
    const struct tb_actions *of;      /* NULL: what was given is used as it is */
    posix_spawn_file_actions_t fresh; /* else this is */
    int *mine;                        /* of each action the descriptor that was opened here for it; -1: none */
    int directory;                    /* where the child is after the actions so far */
    int highest;                      /* no action touches a descriptor above it */
};

/* 0, or the error with which an action fails: then there is nothing to end. */
int tb_plan_make(struct tb_plan *plan, const posix_spawn_file_actions_t *given);
const posix_spawn_file_actions_t *tb_plan_actions(const struct tb_plan *plan);
/* The program's name from where the child is by then, in `room` (PATH_MAX bytes), or as it was given. */
const char *tb_plan_program(const struct tb_plan *plan, const char *path, char *room);
/* After the spawn, however it went. */
void tb_plan_end(struct tb_plan *plan);

#endif
