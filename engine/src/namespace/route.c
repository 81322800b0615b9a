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
#include "text/text.h"

static bool is_there(const tb_engine *e, const char *path, bool directories)
{
    struct stat st;
    return TB_IO(e->base, stat, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && (directories || !S_ISDIR(st.st_mode));
}

/* A name that is new belongs to the shadow; directories are the file system's wherever it has them. */
static bool is_outside(const tb_engine *e, const struct tb_route *r, const char *path)
{
    char shadow[PATH_MAX];
    return r->prefix->mode == TB_MODE_SCRATCH && tb_config_of(e)->by_environment &&
           (size_t)snprintf(shadow, sizeof(shadow), "%s/0%s", e->shadow, path) < sizeof(shadow) && !is_there(e, shadow, false) &&
           is_there(e, path, true);
}

/* Of the prefixes alone, by the lengths that are known. NULL: the path is not managed. */
static const struct tb_engine_io *longest(const tb_engine *e, const char *path)
{
    const struct tb_engine_io *best = NULL;
    for (uint32_t i = 0; i < e->n_prefixes; i++) {
        const struct tb_route *r = &e->routed[i].route;
        if ((!best || r->length > best->route.length) && (!r->length || tb_path_begins(path, r->prefix->prefix, r->length)))
            best = &e->routed[i];
    }
    return best && best->route.prefix->mode != TB_MODE_OUTSIDE ? best : NULL;
}

struct tb_route tb_route_of(const tb_engine *e, const char *path)
{
    const struct tb_engine_io *p = longest(e, path);
    bool outside = p && is_outside(e, &p->route, path);
    return outside || !p ? (struct tb_route){.is_outside = outside} : p->route;
}

struct tb_route tb_route_given(struct tb_io *io, const char *path)
{
    const struct tb_engine_io *layer = (const struct tb_engine_io *)io;
    return layer->route.prefix ? layer->route : tb_route_of(layer->engine, path);
}

struct tb_route tb_route_answered(const tb_engine *e, const struct tb_io *chain, const char *path)
{
    if (chain && chain != e->pfs)
        return ((const struct tb_engine_io *)chain)->route;
    const struct tb_engine_io *p = longest(e, path);
    bool is_file_systems = !chain && p && tb_config_of(e)->by_environment;
    return is_file_systems || !p ? (struct tb_route){.is_outside = is_file_systems} : p->route;
}

/* Lengths are computed once; "/" counts as empty, so that every path is below it. */
int tb_route_prepare(tb_engine *e, const struct tb_config_prefix *prefixes, uint32_t n)
{
    struct tb_engine_io *routed = realloc(e->routed, (n + 1) * sizeof(*routed));
    if (!routed)
        return -ENOMEM;
    e->routed = routed;
    e->prefixes = prefixes;
    e->n_prefixes = n;
    e->shadow_length = strlen(e->shadow);
    for (uint32_t i = 0; i < n; i++) {
        routed[i] = e->any;
        routed[i].route.prefix = &prefixes[i];
        routed[i].route.length = strcmp(prefixes[i].prefix, "/") == 0 ? 0 : strlen(prefixes[i].prefix);
    }
    return 0;
}

/* NULL: libc serves the path. In bypass mode the chain of the PFS does, so that models and traces see it. */
struct tb_io *tb_engine_route(tb_engine *e, const char *path, enum tb_mode *mode)
{
    const struct tb_engine_io *p = longest(e, path);
    if (!p || is_outside(e, &p->route, path))
        return NULL;
    if (mode)
        *mode = p->route.prefix->mode;
    return p->route.prefix->mode == TB_MODE_BYPASS ? e->pfs : &e->routed[p - e->routed].io;
}
