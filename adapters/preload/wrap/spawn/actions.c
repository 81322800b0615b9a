/*
 * The functions that fill libc's object of actions (wrap/spawn/actions.h). libc is asked first,
 * so that it refuses what it refuses. An action that could not be noted was not added: the
 * program is told so, and the spawn goes by the notes.
 */
#include "wrap/spawn/actions.h"

#include <stdlib.h>
#include <string.h>

#include "core/adapter.h"
#include "core/fork_lock.h"

static struct tb_actions *all;
TB_FORK_LOCK(actions)

static struct tb_actions **find(const posix_spawn_file_actions_t *object)
{
    struct tb_actions **link = &all;
    while (*link && (*link)->object != object)
        link = &(*link)->next;
    return link;
}

const struct tb_actions *tb_actions_of(const posix_spawn_file_actions_t *object)
{
    lock_actions();
    const struct tb_actions *found = *find(object);
    unlock_actions();
    return found;
}

/* An object that was never destroyed may lie where a new one begins. */
static void forget(const posix_spawn_file_actions_t *object)
{
    lock_actions();
    struct tb_actions **link = find(object), *gone = *link;
    if (gone)
        *link = gone->next;
    unlock_actions();
    for (size_t i = 0; gone && i < gone->n; i++)
        free(gone->list[i].path);
    free(gone ? gone->list : NULL);
    free(gone);
}

/* Room for one more; the first makes the object known. NULL: no memory. */
static struct tb_action *grow(const posix_spawn_file_actions_t *object)
{
    struct tb_actions **link = find(object);
    if (!*link && (*link = calloc(1, sizeof(**link))))
        (*link)->object = object;
    struct tb_actions *a = *link;
    struct tb_action *list = a ? realloc(a->list, (a->n + 1) * sizeof(*list)) : NULL;
    if (!list)
        return NULL;
    a->list = list;
    return &list[a->n];
}

/* As libc's functions: 0 or the error. A process that may not use its instance notes too: its names are looked at when it spawns. */
static int note(const posix_spawn_file_actions_t *object, struct tb_action action, const char *path)
{
    if (tb_inside || (!tb_adapter_engine() && !tb_adapter_foreign()))
        return 0;
    action.path = path ? strdup(path) : NULL;
    lock_actions();
    struct tb_action *place = path && !action.path ? NULL : grow(object);
    if (place) {
        *place = action;
        (*find(object))->n++;
    }
    unlock_actions();
    if (!place)
        free(action.path);
    return place ? 0 : ENOMEM;
}

TB_WRAPPER int posix_spawn_file_actions_init(posix_spawn_file_actions_t *object)
{
    forget(object);
    return REAL(posix_spawn_file_actions_init)(object);
}

TB_WRAPPER int posix_spawn_file_actions_destroy(posix_spawn_file_actions_t *object)
{
    forget(object);
    return REAL(posix_spawn_file_actions_destroy)(object);
}

#define ADDS(name, parameters, libc, path, ...)                               \
    int name parameters;                                                      \
    TB_WRAPPER int name parameters                                            \
    {                                                                         \
        int rc = REAL(name) libc;                                             \
        return rc ? rc : note(object, (struct tb_action){__VA_ARGS__}, path); \
    }
#define OBJECT posix_spawn_file_actions_t *object
ADDS(posix_spawn_file_actions_addopen, (OBJECT, int fd, const char *path, int flags, mode_t mode), (object, fd, path, flags, mode), path,
     .kind = TB_ACTION_OPEN, .fd = fd, .flags = flags, .mode = mode)
ADDS(posix_spawn_file_actions_addclose, (OBJECT, int fd), (object, fd), NULL, .kind = TB_ACTION_CLOSE, .fd = fd)
ADDS(posix_spawn_file_actions_adddup2, (OBJECT, int fd, int to), (object, fd, to), NULL, .kind = TB_ACTION_DUP, .fd = fd, .to = to)
ADDS(posix_spawn_file_actions_addchdir_np, (OBJECT, const char *path), (object, path), path, .kind = TB_ACTION_CHDIR)
ADDS(posix_spawn_file_actions_addfchdir_np, (OBJECT, int fd), (object, fd), NULL, .kind = TB_ACTION_FCHDIR, .fd = fd)
ADDS(posix_spawn_file_actions_addclosefrom_np, (OBJECT, int fd), (object, fd), NULL, .kind = TB_ACTION_CLOSE_FROM, .fd = fd)
/* What only a newer libc has is called by a program of that libc alone. */
ADDS(posix_spawn_file_actions_addtcsetpgrp_np, (OBJECT, int fd), (object, fd), NULL, .kind = TB_ACTION_TERMINAL, .fd = fd)
ADDS(posix_spawn_file_actions_addchdir, (OBJECT, const char *path), (object, path), path, .kind = TB_ACTION_CHDIR)
ADDS(posix_spawn_file_actions_addfchdir, (OBJECT, int fd), (object, fd), NULL, .kind = TB_ACTION_FCHDIR, .fd = fd)
