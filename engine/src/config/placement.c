/*
 * The keys under `placement:`: the policies' names, their options, and the rules between
 * them. It knows no policy's code: that is in a room above, and the table of policies
 * (config/policies.h) gives both rooms names and numbers of one source.
 */
#include "config/placement.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define NAME(number, code, name, hermes) [TB_POLICY_##number] = name,
#define HERMES(number, code, name, hermes) [TB_POLICY_##number] = hermes,
static const char *const policy_names[] = {TB_POLICIES(NAME)[TB_N_POLICIES] = NULL};
static const char *const hermes_names[] = {TB_POLICIES(HERMES)};

const char *tb_policy_name(enum tb_policy policy)
{
    assert((size_t)policy < TB_N_POLICIES);
    return policy_names[policy];
}

/* Only the beta's own policies have a name there; the others cannot be chosen by a Hermes file. */
int tb_placement_hermes(const char *name, enum tb_policy *out)
{
    for (enum tb_policy p = 0; p < TB_N_POLICIES; p++)
        if (hermes_names[p] && strcmp(name, hermes_names[p]) == 0)
            return *out = p, 0;
    return -EINVAL;
}

/* `unit: file`, or a size. The whole file is a unit that no offset reaches the end of; 0 is kept for "not said". */
static int read_unit(struct tb_yaml *yaml, yaml_node_t *node, const char *path, void *target)
{
    struct tb_config *c = target;
    const struct tb_yaml_key size = {path, TB_YAML_SIZE, TB_YAML_FIELD(struct tb_config, placement.unit)};
    if (node->type == YAML_SCALAR_NODE && strcmp((const char *)node->data.scalar.value, "file") == 0)
        return c->placement.unit = UINT64_MAX, 0;
    int rc = tb_yaml_value(yaml, &size, node, path, target);
    if (!rc && c->placement.unit == 0)
        rc = tb_yaml_refuse(yaml, node, path, "0; allowed: `file`, or a size of 1 B or more");
    return rc;
}

/* Names are kept as they are written, and become numbers when all tiers are known (resolve_rule). */
static int read_rule_tiers(struct tb_yaml *yaml, yaml_node_t *node, const char *path, void *target)
{
    struct tb_config_rule *rule = target;
    if (node->type != YAML_SEQUENCE_NODE)
        return tb_yaml_refuse(yaml, node, path, "allowed: a list of tiers' names");
    for (yaml_node_item_t *i = node->data.sequence.items.start; i < node->data.sequence.items.top; i++) {
        const struct tb_yaml_key name = {path, TB_YAML_TEXT, .width = TB_NAME_MAX};
        if (rule->n_tiers == TB_MAX_TIERS)
            return tb_yaml_refuse(yaml, node, path, "allowed: at most %d names", TB_MAX_TIERS);
        int rc = tb_yaml_value(yaml, &name, yaml_document_get_node(&yaml->document, *i), path, rule->name[rule->n_tiers]);
        if (rc)
            return rc;
        rule->n_tiers++;
    }
    return rule->n_tiers ? 0 : tb_yaml_refuse(yaml, node, path, "an empty list; allowed: at least one tier's name");
}

/* A rule without a pattern matches every path; one without an upper size matches every size. */
static void start_rule(void *element)
{
    struct tb_config_rule *rule = element;
    strcpy(rule->pattern, "*");
    rule->at_most = UINT64_MAX;
}

static const struct tb_yaml_key rule_keys[] = {
    {"pattern", TB_YAML_TEXT, TB_YAML_FIELD(struct tb_config_rule, pattern)},
    {"size_at_least", TB_YAML_SIZE, TB_YAML_FIELD(struct tb_config_rule, at_least)},
    {"size_at_most", TB_YAML_SIZE, TB_YAML_FIELD(struct tb_config_rule, at_most)},
    {"tiers", TB_YAML_CUSTOM, .required = true, .read = read_rule_tiers},
    {0},
};

/* A key that the chosen policy does not use is read all the same, and refused by the rules: then its line is known. */
const struct tb_yaml_key tb_placement_keys[] = {
    {"policy", TB_YAML_CHOICE, TB_YAML_FIELD(struct tb_config, placement.policy), .choices = policy_names},
    {"unit", TB_YAML_CUSTOM, .read = read_unit},
    {"units", TB_YAML_PATH, TB_YAML_FIELD(struct tb_config, placement.units)},
    {"rules", TB_YAML_LIST, .offset = offsetof(struct tb_config, placement.rules), .width = sizeof(struct tb_config_rule), .min = 1,
     .max = TB_MAX_RULES, .keys = rule_keys, .count_offset = offsetof(struct tb_config, placement.n_rules), .start = start_rule},
    {0},
};

/* The first of that name; the rules of tiers see to it that there is one only. */
static bool find_tier(const struct tb_config *c, const char *name, uint32_t *out)
{
    for (*out = 0; *out < c->n_tiers; ++*out)
        if (strcmp(c->tiers[*out].name, name) == 0)
            return true;
    return false;
}

/*
 * Names become numbers here, once all tiers are known: rules may be written before the tiers
 * in the file. Placement then compares no text.
 */
static int resolve_rule(struct tb_config *c, uint32_t i, struct tb_finding *found)
{
    struct tb_config_rule *rule = &c->placement.rules[i];
    assert(i < TB_MAX_RULES && rule->n_tiers <= TB_MAX_TIERS);
    for (uint32_t t = 0; t < rule->n_tiers; t++)
        if (!find_tier(c, rule->name[t], &rule->tier[t])) {
            snprintf(found->key, sizeof(found->key), "placement.rules[%u].tiers", i);
            snprintf(found->text, sizeof(found->text), "%s; allowed: names under tiers", rule->name[t]);
            return -EINVAL;
        }
    if (rule->at_least <= rule->at_most)
        return 0;
    snprintf(found->key, sizeof(found->key), "placement.rules[%u].size_at_most", i);
    snprintf(found->text, sizeof(found->text), "%llu bytes is below size_at_least; allowed: size_at_least <= size_at_most",
             (unsigned long long)rule->at_most);
    return -EINVAL;
}

/* A key that the policy does not use is refused, because the user would expect it to do something. */
static int misplaced(struct tb_finding *found, const char *which, const char *allowed)
{
    snprintf(found->key, sizeof(found->key), "placement.%s", which);
    snprintf(found->text, sizeof(found->text), "%s", allowed);
    return -EINVAL;
}

/* Rules between the keys. What a single key may be was checked while it was read. */
int tb_placement_resolve(struct tb_config *c, struct tb_finding *found)
{
    struct tb_config_placement *p = &c->placement;
    if (p->n_rules && p->policy != TB_POLICY_USER_DEFINED)
        return misplaced(found, "rules", "allowed with policy user-defined only");
    if (!p->n_rules && p->policy == TB_POLICY_USER_DEFINED)
        return misplaced(found, "rules", "is missing; policy user-defined needs at least one rule");
    if (p->unit && p->policy != TB_POLICY_DATA_LOCALITY)
        return misplaced(found, "unit", "allowed with policy data-locality only");
    if (p->units[0] && p->policy != TB_POLICY_DATA_LOCALITY)
        return misplaced(found, "units", "allowed with policy data-locality only");
    int rc = 0;
    for (uint32_t i = 0; i < p->n_rules && !rc; i++)
        rc = resolve_rule(c, i, found);
    return rc;
}
