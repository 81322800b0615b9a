/*
 * user-defined (HPDC'18's schemas in XML, here rules in the configuration): the
 * first rule that fits the file, by the pattern of its path and by the size that
 * this write gives it, names the tiers in order of preference.  What
 * they have no room for, and files that no rule names, go from the top tier down.
 *
 * Patterns are compared when a file gets its name; the record keeps a bit for
 * each rule that matches.  Cost: one look at each rule and each tier.
 */
#include <fnmatch.h>

#include "placement/policy.h"

_Static_assert(TB_MAX_RULES <= 32, "a bit for each rule");

static uint32_t note_name(const struct tb_config_placement *p, const char *path)
{
    uint32_t matches = 0;
    for (uint32_t i = 0; i < p->n_rules; i++)
        if (fnmatch(p->rules[i].pattern, path, 0) == 0)
            matches |= 1u << i;
    return matches;
}

static const struct tb_config_rule *rule_for(const struct tb_config_placement *p, const struct tb_placed_write *w)
{
    uint64_t end = w->offset + w->bytes, size = end > w->file.size ? end : w->file.size;
    for (uint32_t i = 0; i < p->n_rules; i++)
        if (w->file.memory & 1u << i && p->rules[i].at_least <= size && size <= p->rules[i].at_most)
            return &p->rules[i];
    return NULL;
}

static void place(const struct tb_hierarchy *h, const struct tb_placed_write *w, struct tb_policy_state *state, struct tb_placement *out)
{
    (void)state;
    const struct tb_config_rule *rule = rule_for(h->tiers->settings, w);
    uint32_t n = h->tiers->n, first = rule ? rule->n_tiers : 0, order[2 * TB_MAX_TIERS];
    for (uint32_t i = 0; i < first; i++)
        order[i] = rule->tier[i];
    for (uint32_t i = 0; i < n; i++)
        order[first + i] = i;
    tb_placement_in_order(h, order, first + n, w->bytes, out);
}

const struct tb_placement_ops tb_placement_user_defined = {.needs = TB_KNOW_ROOMS, .place = place, .note_name = note_name};
