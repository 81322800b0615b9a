/*
 * What a program asked to be done between the fork and the exec of posix_spawn. libc keeps it
 * in an object that only it can read, so each action is noted beside that object, too.
 */
#ifndef TB_SPAWN_ACTIONS_H
#define TB_SPAWN_ACTIONS_H

#include <spawn.h>
#include <stddef.h>
#include <sys/types.h>

enum tb_action_kind {
    TB_ACTION_OPEN,
    TB_ACTION_CLOSE,
    TB_ACTION_DUP,
    TB_ACTION_CHDIR,
    TB_ACTION_FCHDIR,
    TB_ACTION_CLOSE_FROM,
    TB_ACTION_TERMINAL,
};

struct tb_action {
    enum tb_action_kind kind;
    int fd, to; /* `to` of a dup alone */
    int flags;
    mode_t mode;
    char *path; /* as the program named it; NULL: the action has none */
};

struct tb_actions {
    const posix_spawn_file_actions_t *object;
    struct tb_actions *next;
    size_t n;
    struct tb_action *list;
};

/* NULL: nothing was added while this process had an instance. It stays until the program changes or destroys its object. */
const struct tb_actions *tb_actions_of(const posix_spawn_file_actions_t *object);

#endif
