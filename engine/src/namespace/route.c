/*
 * Which paths are managed, and in which mode: prefixes, the longest wins.
 *
 * Under a Hermes configuration scratch prefixes hold all that is new. A name that the file
 * system has already (the program's input, a message of another program), and that the
 * shadow has not, is the file system's.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "namespace/environment.h"
#include "namespace/route.h"
#include "region/handle.h"

static bool is_under(const char *path, const char *prefix, size_t length)
{
    return strncmp(path, prefix, length) == 0 && (path[length] == '/' || path[length] == 0);
}

static bool is_there(const tb_engine *e, const char *path, bool directories)
{
    struct stat st;
    return e->base->ops->stat(e->base, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && (directories || !S_ISDIR(st.st_mode));
}

/* A name that is new belongs to the shadow; directories are the file system's wherever it has them. */
static bool is_outside(const tb_engine *e, const struct tb_route *r, const char *path)
{
    char shadow[PATH_MAX];
    return tb_config_of(e)->by_environment && r->prefix->mode == TB_MODE_SCRATCH &&
           (size_t)snprintf(shadow, sizeof(shadow), "%s/0%s", e->shadow, path) < sizeof(shadow) && !is_there(e, shadow, false) &&
           is_there(e, path, true);
}

struct tb_route tb_route_within(const tb_engine *e, const char *path)
{
    struct tb_route best = {.prefix = NULL, .length = 0};
    for (uint32_t i = 0; i < e->n_prefixes; i++)
        if ((!best.prefix || e->prefix_length[i] > best.length) && is_under(path, e->prefixes[i].prefix, e->prefix_length[i]))
            best = (struct tb_route){&e->prefixes[i], e->prefix_length[i]};
    if (best.prefix && best.prefix->mode == TB_MODE_OUTSIDE)
        best = (struct tb_route){NULL, 0};
    return best;
}

struct tb_route tb_route_of(const tb_engine *e, const char *path)
{
    struct tb_route r = tb_route_within(e, path);
    return r.prefix && is_outside(e, &r, path) ? (struct tb_route){NULL, 0} : r;
}

/* Lengths are computed once; "/" counts as empty, so that every path lies below it. */
int tb_route_prepare(tb_engine *e, const struct tb_config_prefix *prefixes, uint32_t n)
{
    size_t *length = realloc(e->prefix_length, n * sizeof(*length) + 1);
    if (!length)
        return -ENOMEM;
    e->prefix_length = length;
    e->prefixes = prefixes;
    e->n_prefixes = n;
    e->shadow_length = strlen(e->shadow);
    for (uint32_t i = 0; i < n; i++)
        e->prefix_length[i] = strcmp(prefixes[i].prefix, "/") == 0 ? 0 : strlen(prefixes[i].prefix);
    return 0;
}

/* NULL: libc serves the path. In bypass mode the chain of the PFS does, so that models and traces see it. */
struct tb_io *tb_engine_route(tb_engine *e, const char *path, enum tb_mode *mode)
{
    const struct tb_route r = tb_route_of(e, path);
    if (!r.prefix)
        return NULL;
    if (mode)
        *mode = r.prefix->mode;
    return r.prefix->mode == TB_MODE_BYPASS ? e->pfs : &e->io;
}
