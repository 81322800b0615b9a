/*
 * Which paths are whose: prefixes with their modes, the longest wins, and the
 * one translation of names of scratch mode.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "route.h"

static bool is_under(const char *path, const char *prefix, size_t length)
{
    return strncmp(path, prefix, length) == 0 && (path[length] == '/' || path[length] == 0);
}

/* A path that is in the shadow already (a working directory, what realpath gave): its prefix, NULL where it isn't. */
static const struct tb_config_prefix *shadowed(const tb_engine *e, const char *path)
{
    const struct tb_config *c = tb_config_of(e);
    size_t n = e->shadow_length;
    char *end;
    if (!is_under(path, e->shadow, n) || !path[n])
        return NULL;
    unsigned long i = strtoul(path + n + 1, &end, 10);
    return end > path + n + 1 && (*end == '/' || !*end) && i < c->n_prefixes ? &c->prefixes[i] : NULL;
}

struct tb_route tb_route_of(const tb_engine *e, const char *path)
{
    const struct tb_config *c = tb_config_of(e);
    struct tb_route best = {.prefix = shadowed(e, path), .length = 0};
    best.shadowed = best.prefix != NULL;
    for (uint32_t i = 0; i < c->n_prefixes && !best.shadowed; i++)
        if (e->prefix_length[i] > best.length && is_under(path, c->prefixes[i].prefix, e->prefix_length[i]))
            best = (struct tb_route){&c->prefixes[i], e->prefix_length[i], false};
    return best;
}

void tb_route_prepare(tb_engine *e)
{
    const struct tb_config *c = tb_config_of(e);
    e->shadow_length = strlen(e->shadow);
    for (uint32_t i = 0; i < c->n_prefixes; i++)
        e->prefix_length[i] = strlen(c->prefixes[i].prefix);
}

ssize_t tb_route_translate(const tb_engine *e, const struct tb_route *r, const char *path, char *out, size_t size)
{
    size_t n = strlen(path);
    if (r->prefix && r->prefix->mode == TB_MODE_SCRATCH && !r->shadowed)
        n = (size_t)snprintf(out, size, "%s/%u%s", e->shadow, (unsigned)(r->prefix - e->header->config.prefixes), path + r->length);
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
