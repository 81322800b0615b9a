/*
 * Which paths are whose: prefixes with their modes, the longest wins, and the
 * one translation of names of scratch mode.
 *
 * Under a Hermes configuration scratch prefixes hold all that is new: a name
 * that the file system has already (the program's input, a message of another
 * program) and the shadow has not is the file system's.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "environment.h"
#include "route.h"

static bool is_under(const char *path, const char *prefix, size_t length)
{
    return strncmp(path, prefix, length) == 0 && (path[length] == '/' || path[length] == 0);
}

/* A path that is in the shadow already (a working directory, what realpath gave): its prefix, NULL where it isn't. */
static const struct tb_config_prefix *shadowed(const tb_engine *e, const char *path)
{
    size_t n = e->shadow_length;
    char *end;
    if (!is_under(path, e->shadow, n) || !path[n])
        return NULL;
    unsigned long i = strtoul(path + n + 1, &end, 10);
    return end > path + n + 1 && (*end == '/' || !*end) && i < e->n_prefixes ? &e->prefixes[i] : NULL;
}

static bool is_there(const tb_engine *e, const char *path, bool directories)
{
    struct stat st;
    return e->base->ops->stat(e->base, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && (directories || !S_ISDIR(st.st_mode));
}

/* A name that is new belongs to the shadow; directories are the file system's wherever it has them. */
static bool is_outside(const tb_engine *e, const struct tb_route *r, const char *path)
{
    char shadow[TB_PATH_MAX];
    return tb_config_of(e)->by_environment && r->prefix->mode == TB_MODE_SCRATCH && !r->shadowed &&
           tb_route_translate(e, r, path, shadow, sizeof(shadow)) > 0 && !is_there(e, shadow, false) && is_there(e, path, true);
}

struct tb_route tb_route_within(const tb_engine *e, const char *path)
{
    struct tb_route best = {.prefix = shadowed(e, path), .length = 0};
    best.shadowed = best.prefix != NULL;
    for (uint32_t i = 0; i < e->n_prefixes && !best.shadowed; i++)
        if ((!best.prefix || e->prefix_length[i] > best.length) && is_under(path, e->prefixes[i].prefix, e->prefix_length[i]))
            best = (struct tb_route){&e->prefixes[i], e->prefix_length[i], false};
    if (best.prefix && best.prefix->mode == TB_MODE_OUTSIDE)
        best = (struct tb_route){NULL, 0, false};
    return best;
}

struct tb_route tb_route_of(const tb_engine *e, const char *path)
{
    struct tb_route r = tb_route_within(e, path);
    return r.prefix && is_outside(e, &r, path) ? (struct tb_route){NULL, 0, false} : r;
}

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

/* Clients that choose their own prefixes share one shadow, in which names stand whole. */
static size_t shadow_name(const tb_engine *e, const struct tb_route *r, const char *path, char *out, size_t size)
{
    bool whole = tb_config_of(e)->by_environment;
    unsigned number = whole ? 0 : (unsigned)(r->prefix - e->prefixes);
    return (size_t)snprintf(out, size, "%s/%u%s", e->shadow, number, path + (whole ? 0 : r->length));
}

ssize_t tb_route_translate(const tb_engine *e, const struct tb_route *r, const char *path, char *out, size_t size)
{
    size_t n = strlen(path);
    if (r->prefix && r->prefix->mode == TB_MODE_SCRATCH && !r->shadowed)
        n = shadow_name(e, r, path, out, size);
    else if (n < size)
        memcpy(out, path, n + 1);
    return n < size ? (ssize_t)n : -ENAMETOOLONG;
}

struct tb_io *tb_engine_route(tb_engine *e, const char *path, enum tb_mode *mode)
{
    const struct tb_route r = tb_route_of(e, path);
    if (!r.prefix)
        return NULL;
    if (mode)
        *mode = r.prefix->mode;
    return r.prefix->mode == TB_MODE_BYPASS ? e->pfs : &e->io;
}

ssize_t tb_engine_translate(tb_engine *e, const char *path, char *out, size_t size)
{
    const struct tb_route r = tb_route_of(e, path);
    return tb_route_translate(e, &r, path, out, size);
}
