/*
 * user-defined (HPDC'18's schemas in XML, here rules in the configuration): the
 * first rule whose pattern matches the file's path and whose sizes hold the file,
 * as large as this write makes it, names the tiers in order of preference.  What
 * they have no room for, and files that no rule names, go from the top tier down.
 *
 * Patterns are compared when a file gets its name; the record keeps a bit for
 * each rule that matches.  Cost: one look at each rule and each tier.
 */
#include <fnmatch.h>

#include "buffer/slab.h"
#include "placement/placement.h"

_Static_assert(TB_MAX_RULES <= 32, "a bit for each rule");

static void note_name(tb_engine *e, struct tb_file *f, const char *path)
{
    const struct tb_config_placement *p = &e->header->config.placement;
    uint32_t matches = 0;
    for (uint32_t i = 0; i < p->n_rules; i++)
        if (fnmatch(p->rules[i].pattern, path, 0) == 0)
            matches |= 1u << i;
    f->placement = matches;
}

static const struct tb_config_rule *rule_for(const tb_engine *e, const struct tb_place_request *request)
{
    const struct tb_config_placement *p = &e->header->config.placement;
    const struct tb_file *f = &e->region.files[request->file];
    uint64_t size = f->size, end = request->offset + request->bytes;
    size = end > size ? end : size;
    for (uint32_t i = 0; i < p->n_rules; i++)
        if (f->placement & 1u << i && p->rules[i].at_least <= size && size <= p->rules[i].at_most)
            return &p->rules[i];
    return NULL;
}

static void place(tb_engine *e, const struct tb_place_request *request, struct tb_placement *out)
{
    const struct tb_config_rule *rule = rule_for(e, request);
    uint32_t n = e->header->config.n_tiers, first = rule ? rule->n_tiers : 0, order[2 * TB_MAX_TIERS];
    for (uint32_t i = 0; i < first; i++)
        order[i] = rule->tier[i];
    for (uint32_t i = 0; i < n; i++)
        order[first + i] = i;
    tb_placement_in_order(e, order, first + n, request->bytes, out);
}

const struct tb_placement_ops tb_placement_user_defined = {.name = "user-defined", .place = place, .note_name = note_name};
