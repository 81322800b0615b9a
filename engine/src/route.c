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
    size_t n = strlen(e->shadow);
    char *end;
    if (!is_under(path, e->shadow, n) || !path[n])
        return NULL;
    unsigned long i = strtoul(path + n + 1, &end, 10);
    return end > path + n + 1 && (*end == '/' || !*end) && i < c->n_prefixes ? &c->prefixes[i] : NULL;
}

const struct tb_config_prefix *tb_route_prefix(const tb_engine *e, const char *path)
{
    const struct tb_config *c = tb_config_of(e);
    const struct tb_config_prefix *best = shadowed(e, path);
    if (best)
        return best;
    for (uint32_t i = 0; i < c->n_prefixes; i++) {
        const struct tb_config_prefix *p = &c->prefixes[i];
        if (is_under(path, p->prefix, strlen(p->prefix)) && (!best || strlen(p->prefix) > strlen(best->prefix)))
            best = p;
    }
    return best;
}

struct tb_io *tb_engine_route(tb_engine *e, const char *path, enum tb_mode *mode)
{
    const struct tb_config_prefix *p = tb_route_prefix(e, path);
    if (!p)
        return NULL;
    if (mode)
        *mode = p->mode;
    return p->mode == TB_MODE_BYPASS ? e->pfs : &e->io;
}

ssize_t tb_engine_translate(tb_engine *e, const char *path, char *out, size_t size)
{
    const struct tb_config_prefix *p = tb_route_prefix(e, path);
    int n = p && p->mode == TB_MODE_SCRATCH && !shadowed(e, path)
                ? snprintf(out, size, "%s/%u%s", e->shadow, (unsigned)(p - e->header->config.prefixes), path + strlen(p->prefix))
                : snprintf(out, size, "%s", path);
    return (size_t)n < size ? n : -ENAMETOOLONG;
}
