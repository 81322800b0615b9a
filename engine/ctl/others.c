/*
 * Two instances over one folder of the PFS: each serves what it has in its own tiers, so a program of the one reads old bytes of what the
 * other has not flushed, and of two writes of one file the later flush counts. That may be wanted, as by jobs that have folders of their own
 * below one prefix. So it is told, and not refused.
 */
#include "others.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "instance/instance.h"

static bool is_inside(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    return strncmp(path, folder, n) == 0 && (!path[n] || path[n] == '/' || (n && folder[n - 1] == '/'));
}

static bool meet(const struct tb_config_prefix *a, const struct tb_config_prefix *b)
{
    bool apart = a->mode == TB_MODE_BYPASS || b->mode == TB_MODE_BYPASS || (a->mode == TB_MODE_SCRATCH && b->mode == TB_MODE_SCRATCH);
    return !apart && (is_inside(a->prefix, b->prefix) || is_inside(b->prefix, a->prefix));
}

/* The longer one of two prefixes that meet: what both have. NULL: they have nothing in common. */
static const char *in_common(const struct tb_config *a, const struct tb_config *b)
{
    for (uint32_t i = 0; i < a->n_prefixes; i++)
        for (uint32_t k = 0; k < b->n_prefixes; k++)
            if (meet(&a->prefixes[i], &b->prefixes[k]))
                return is_inside(a->prefixes[i].prefix, b->prefixes[k].prefix) ? a->prefixes[i].prefix : b->prefixes[k].prefix;
    return NULL;
}

static bool is_other(const struct tb_instance_info *info, const char *name)
{
    const char *outer = getenv("TIERBENCH_INSTANCE");
    return info->daemon_alive && !info->ends && strcmp(info->name, name) != 0 && !(outer && strcmp(info->name, outer) == 0);
}

/* `c` is room for its configuration. */
static void name_other(const struct tb_config *own, const char *name, const struct tb_instance_info *info, struct tb_config *c)
{
    if (!is_other(info, name) || tb_instance_config_of(info->name, c) || c->several_nodes || c->by_environment)
        return;
    const char *folder = in_common(own, c);
    if (folder)
        fprintf(stderr,
                "tierctl: instances %s and %s both have %s: each reads what the other has flushed, and of two writes of one file the later "
                "flush counts; programs that share files need one instance\n",
                name, info->name, folder);
}

void ctl_name_others(const char *name)
{
    struct tb_config *c = calloc(2, sizeof(*c));
    struct tb_instance_info *all = NULL;
    bool alone = !c || tb_instance_config_of(name, c) || c->several_nodes || c->by_environment;
    int n = alone ? 0 : tb_instance_list(&all);
    for (int i = 0; i < n; i++)
        name_other(c, name, &all[i], c + 1);
    free(all);
    free(c);
}
