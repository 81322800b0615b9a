/* The keys under `placement:` and the rules between them. */
#ifndef TB_CONFIG_PLACEMENT_H
#define TB_CONFIG_PLACEMENT_H

#include "config/config.h"
#include "text/yaml.h"

/* `placement:` into a struct tb_config. */
extern const struct tb_yaml_key tb_placement_keys[];

/* What is wrong between values: the key it is told of, and the text. */
struct tb_finding {
    char key[128], text[512];
};

/* Turn the tiers' names in rules into numbers; 0, or -EINVAL with what is wrong. */
int tb_placement_resolve(struct tb_config *config, struct tb_finding *found);

/* The policy that Hermes 0.1 calls `name`; -EINVAL for another. */
int tb_placement_hermes(const char *name, enum tb_policy *out);

const char *tb_policy_name(enum tb_policy policy);

#endif
