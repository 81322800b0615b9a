/* Requirements in XML: read, written as YAML, and read again with the same rules. */
#include "fuzz.h"

#include <string.h>

#include "config/write.h"
#include "requirements/requirements.h"

/* Variables of the environment in a pattern are replaced when YAML is read. */
static bool has_variable(const struct tb_config_placement *p)
{
    for (uint32_t i = 0; i < p->n_rules; i++)
        if (strstr(p->rules[i].pattern, "${"))
            return true;
    return false;
}

static void check_same(const struct tb_config_placement *a, const struct tb_config_placement *b)
{
    fuzz_check(a->n_rules == b->n_rules);
    for (uint32_t i = 0; i < a->n_rules; i++) {
        const struct tb_config_rule *x = &a->rules[i], *y = &b->rules[i];
        fuzz_check(strcmp(x->pattern, y->pattern) == 0 && x->at_least == y->at_least && x->at_most == y->at_most);
        fuzz_check(x->n_tiers == y->n_tiers);
        for (uint32_t t = 0; t < x->n_tiers; t++)
            fuzz_check(strcmp(x->name[t], y->name[t]) == 0);
    }
}

/* Tiers t0 to t7, of which a requirement names some. */
static void start(struct tb_config *c)
{
    memset(c, 0, sizeof(*c));
    c->version = 1;
    c->max_files = 64;
    c->n_prefixes = 1;
    c->fsync = TB_FSYNC_PFS;
    c->flush.threads = 1;
    strcpy(c->pfs.path, "/pfs");
    c->n_tiers = TB_MAX_TIERS;
    for (uint32_t t = 0; t < c->n_tiers; t++) {
        struct tb_config_tier *tier = &c->tiers[t];
        snprintf(tier->name, sizeof(tier->name), "t%u", t);
        tier->medium = t ? TB_MEDIUM_DIRECTORY : TB_MEDIUM_MEMORY;
        snprintf(tier->path, sizeof(tier->path), "/t%u", t);
        tier->capacity = 16u << 20;
        tier->block = 4096;
        tier->n_slabs = 1;
        tier->slabs[0] = (struct tb_config_slab){1, 1};
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct tb_config made, again;
    static char out[sizeof(fuzz_folder) + 8];
    struct tb_error err;
    const char *path = fuzz_file(data, size);
    start(&made);
    int rc = ctl_requirements_read(path, true, &made, &err);
    fuzz_check(rc == 0 || err.text[0]);
    if (rc || has_variable(&made.placement))
        return 0;
    snprintf(out, sizeof(out), "%s/out", fuzz_folder);
    fuzz_check(tb_config_write(&made, out, &err) == 0);
    fuzz_check(tb_config_read(out, &again, &err) == 0);
    unlink(out);
    check_same(&made.placement, &again.placement);
    return 0;
}
