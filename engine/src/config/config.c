/*
 * The keys of a tier configuration, their defaults, and the rules between them. The tables
 * say what a single value may be; config_rules says which values may go together.
 *
 * The order is: defaults, keys, what follows from them (fill_in), names that refer to each
 * other (tb_placement_resolve), rules. Each step may rely on those before it. The result is
 * one structure without pointers, so it is copied into the region as it is, and one digest
 * of its bytes says whether two processes mean the same.
 */
#include "config/config.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "config/byte_ranges.h"
#include "config/hermes_conf.h"
#include "config/nodes.h"
#include "config/placement.h"
#include "config/schedule_text.h"
#include "text/text.h"
#include "text/yaml.h"
#include "text/yaml_open.h"

/* In the order of their enums, ended by NULL: the tables of keys and the messages use the same lists. */
static const char *const mode_names[] = {"persistent-async", "persistent-sync", "scratch", "bypass", NULL};
static const char *const nodes_names[] = {"one", "several", "shared", NULL};
static const char *const namespace_names[] = {"eager", "deferred", NULL};
static const char *const fsync_names[] = {"tier", "pfs", "none", NULL};
static const char *const flush_names[] = {"on-close", "watermark", "manual", NULL};
static const char *const hint_names[] = {"normal", "sequential", "random", "once", "keep", NULL};
static const char *const medium_names[] = {"memory", "directory", "remote", NULL};

/* clang-format off: one line each */
#define NAME(names, at) (assert((size_t)(at) + 1 < sizeof(names) / sizeof((names)[0])), (names)[at])
const char *tb_mode_name(enum tb_mode mode)
{
    return NAME(mode_names, mode);
}
const char *tb_medium_name(enum tb_medium medium)
{
    return NAME(medium_names, medium);
}
const char *tb_fsync_name(enum tb_fsync fsync)
{
    return NAME(fsync_names, fsync);
}
const char *tb_flush_name(enum tb_flush_policy policy)
{
    return NAME(flush_names, policy);
}
/* clang-format on */

int tb_mode_parse(const char *text, enum tb_mode *out)
{
    for (int i = 0; mode_names[i]; i++)
        if (strcmp(text, mode_names[i]) == 0)
            return *out = (enum tb_mode)i, 0;
    return -EINVAL;
}

#define FIELD(member) TB_YAML_FIELD(struct tb_config, member)
#define TIER(member) TB_YAML_FIELD(struct tb_config_tier, member)

/*
 * `model:` or `profile:`, a file relative to the configuration or its keys, into a device and
 * the flag after it. The flag is set only after the whole device is read, so nothing is ever
 * modelled by half a device.
 */
static int read_device(struct tb_yaml *yaml, yaml_node_t *node, const char *path, struct tb_device *device, bool *given)
{
    char file[TB_PATH_MAX];
    const struct tb_yaml_key key = {path, TB_YAML_PATH, .offset = 0, .width = sizeof(file)};
    int rc;
    if (node->type == YAML_MAPPING_NODE)
        rc = tb_device_read_map(yaml, node, path, device);
    else if (!(rc = tb_yaml_value(yaml, &key, node, path, file)))
        rc = tb_device_read(file, device, yaml->err);
    *given = rc == 0;
    return rc;
}

/* A model slows the tier down; a profile only tells placement how fast it is. */
static int read_tier_model(struct tb_yaml *yaml, yaml_node_t *node, const char *path, void *target)
{
    struct tb_config_tier *tier = target;
    return read_device(yaml, node, path, &tier->model, &tier->modelled);
}

static int read_tier_profile(struct tb_yaml *yaml, yaml_node_t *node, const char *path, void *target)
{
    struct tb_config_tier *tier = target;
    return read_device(yaml, node, path, &tier->profile, &tier->profiled);
}

static int read_pfs_model(struct tb_yaml *yaml, yaml_node_t *node, const char *path, void *target)
{
    struct tb_config *c = target;
    return read_device(yaml, node, path, &c->pfs.model, &c->pfs.modelled);
}

static int read_pfs_profile(struct tb_yaml *yaml, yaml_node_t *node, const char *path, void *target)
{
    struct tb_config *c = target;
    return read_device(yaml, node, path, &c->pfs.profile, &c->pfs.profiled);
}

static const struct tb_yaml_key prefix_keys[] = {
    {"prefix", TB_YAML_PATH, .required = true, TB_YAML_FIELD(struct tb_config_prefix, prefix)},
    {"mode", TB_YAML_CHOICE, .required = true, TB_YAML_FIELD(struct tb_config_prefix, mode), .choices = mode_names},
    {0},
};

/* `mode: M` is one prefix, the PFS's path. It is known only when all is read, so an empty prefix is kept until then. */
static int read_mode(struct tb_yaml *yaml, yaml_node_t *node, const char *path, void *target)
{
    struct tb_config *c = target;
    const struct tb_yaml_key word = {"mode", TB_YAML_CHOICE, TB_YAML_FIELD(struct tb_config, prefixes[0].mode), .choices = mode_names};
    const struct tb_yaml_key list = {"mode",
                                     TB_YAML_LIST,
                                     .offset = offsetof(struct tb_config, prefixes),
                                     .width = sizeof(struct tb_config_prefix),
                                     .min = 1,
                                     .max = TB_MAX_PREFIXES,
                                     .keys = prefix_keys,
                                     .count_offset = offsetof(struct tb_config, n_prefixes)};
    c->n_prefixes = 1;
    return tb_yaml_value(yaml, node->type == YAML_SEQUENCE_NODE ? &list : &word, node, path, target);
}

static const struct tb_yaml_key pfs_keys[] = {
    {"path", TB_YAML_PATH, .required = true, FIELD(pfs.path)},
    {"model", TB_YAML_CUSTOM, .read = read_pfs_model},
    {"profile", TB_YAML_CUSTOM, .read = read_pfs_profile},
    {0},
};

static const char *const huge_names[] = {"auto", "never", NULL};

static const struct tb_yaml_key region_keys[] = {
    {"directory", TB_YAML_PATH, FIELD(region.directory)},
    {"page", TB_YAML_SIZE, FIELD(region.page)},
    {"huge_pages", TB_YAML_CHOICE, FIELD(region.huge_pages), .choices = huge_names},
    {0},
};

static const struct tb_yaml_key network_keys[] = {
    {"folder", TB_YAML_PATH, FIELD(network.folder)},
    {"interface", TB_YAML_TEXT, FIELD(network.interface)},
    {"provider", TB_YAML_TEXT, FIELD(network.provider)},
    {0},
};

/* Watermarks are shares of a tier. That low is not above high is a rule between two keys, so it is not said here. */
static const struct tb_yaml_key flush_keys[] = {
    {"policy", TB_YAML_CHOICE, FIELD(flush.policy), .choices = flush_names},
    {"background", TB_YAML_FLAG, FIELD(flush.background)},
    {"threads", TB_YAML_COUNT, FIELD(flush.threads), .min = 1, .max = 64},
    {"high", TB_YAML_FRACTION, FIELD(flush.high)},
    {"low", TB_YAML_FRACTION, FIELD(flush.low)},
    {0},
};

static const struct tb_yaml_key organizer_keys[] = {
    {"enabled", TB_YAML_FLAG, FIELD(organizer.enabled)},   {"high", TB_YAML_FRACTION, FIELD(organizer.high)},
    {"low", TB_YAML_FRACTION, FIELD(organizer.low)},       {"prefetch", TB_YAML_SIZE, FIELD(organizer.prefetch)},
    {"schedule", TB_YAML_PATH, FIELD(organizer.schedule)}, {0},
};

static const struct tb_yaml_key hint_keys[] = {
    {"prefix", TB_YAML_PATH, .required = true, TB_YAML_FIELD(struct tb_config_hint, prefix)},
    {"hint", TB_YAML_CHOICE, .required = true, TB_YAML_FIELD(struct tb_config_hint, hint), .choices = hint_names},
    {0},
};

/* A unit is a block; so a buffer is at most 2^20 blocks, and the product below fits 64 bits. */
static const struct tb_yaml_key slab_keys[] = {
    {"units", TB_YAML_COUNT, .required = true, TB_YAML_FIELD(struct tb_config_slab, units), .min = 1, .max = 1u << 20},
    {"share", TB_YAML_FRACTION, .required = true, TB_YAML_FIELD(struct tb_config_slab, share)},
    {0},
};

static const struct tb_yaml_key tier_keys[] = {
    {"name", TB_YAML_TEXT, .required = true, TIER(name)},
    {"medium", TB_YAML_CHOICE, .required = true, TIER(medium), .choices = medium_names},
    {"path", TB_YAML_PATH, TIER(path)},
    {"capacity", TB_YAML_SIZE, .required = true, TIER(capacity)},
    {"block", TB_YAML_SIZE, TIER(block)},
    {"slabs", TB_YAML_LIST, .offset = offsetof(struct tb_config_tier, slabs), .width = sizeof(struct tb_config_slab), .min = 1,
     .max = TB_MAX_SLABS, .keys = slab_keys, .count_offset = offsetof(struct tb_config_tier, n_slabs)},
    {"model", TB_YAML_CUSTOM, .read = read_tier_model},
    {"profile", TB_YAML_CUSTOM, .read = read_tier_profile},
    {"shared", TB_YAML_FLAG, TIER(shared)},
    {0},
};

static int read_stage(struct tb_yaml *yaml, yaml_node_t *node, const char *path, struct tb_config_stage *stage)
{
    const struct tb_yaml_key map = {"stage", TB_YAML_MAP, .keys = tb_stage_keys};
    tb_stage_defaults(stage);
    return tb_yaml_value(yaml, &map, node, path, stage);
}

static int read_stage_out(struct tb_yaml *yaml, yaml_node_t *node, const char *path, void *target)
{
    return read_stage(yaml, node, path, &((struct tb_config *)target)->stage_out);
}

static int read_stage_in(struct tb_yaml *yaml, yaml_node_t *node, const char *path, void *target)
{
    return read_stage(yaml, node, path, &((struct tb_config *)target)->stage_in);
}

/*
 * `version` has one allowed value: a file of a later version is refused, and not read by
 * half. The limits of the counts bound the size of the region's tables.
 */
static const struct tb_yaml_key config_keys[] = {
    {"version", TB_YAML_COUNT, .required = true, FIELD(version), .min = 1, .max = 1},
    {"max_files", TB_YAML_COUNT, FIELD(max_files), .min = 64, .max = 1u << 24},
    {"max_clients", TB_YAML_COUNT, FIELD(max_clients), .min = 64, .max = 1u << 14},
    {"pfs", TB_YAML_MAP, .required = true, .keys = pfs_keys},
    {"region", TB_YAML_MAP, .keys = region_keys},
    {"mode", TB_YAML_CUSTOM, .read = read_mode},
    {"fsync", TB_YAML_CHOICE, FIELD(fsync), .choices = fsync_names},
    {"namespace", TB_YAML_CHOICE, FIELD(deferred), .choices = namespace_names},
    {"nodes", TB_YAML_CHOICE, FIELD(several_nodes), .choices = nodes_names},
    {"network", TB_YAML_MAP, .keys = network_keys},
    {"copies", TB_YAML_COUNT, FIELD(copies), .min = 1, .max = 2},
    {"copies_memory", TB_YAML_SIZE, FIELD(copies_memory)},
    {"allow_volatile", TB_YAML_FLAG, FIELD(allow_volatile)},
    {"flush", TB_YAML_MAP, .keys = flush_keys},
    {"placement", TB_YAML_MAP, .keys = tb_placement_keys},
    {"organizer", TB_YAML_MAP, .keys = organizer_keys},
    {"hints", TB_YAML_LIST, .offset = offsetof(struct tb_config, hints), .width = sizeof(struct tb_config_hint), .min = 1,
     .max = TB_MAX_PREFIXES, .keys = hint_keys, .count_offset = offsetof(struct tb_config, n_hints)},
    {"tiers", TB_YAML_LIST, .required = true, .offset = offsetof(struct tb_config, tiers), .width = sizeof(struct tb_config_tier), .min = 1,
     .max = TB_MAX_TIERS, .keys = tier_keys, .count_offset = offsetof(struct tb_config, n_tiers)},
    {"stage_out", TB_YAML_CUSTOM, .read = read_stage_out},
    {"stage_in", TB_YAML_CUSTOM, .read = read_stage_in},
    {0},
};

/* All bytes are set, also padding: the digest is made of the whole structure. */
void tb_config_defaults(struct tb_config *c)
{
    memset(c, 0, sizeof(*c));
    c->version = 1;
    c->max_files = 65536;
    c->max_clients = 256;
    c->copies = 1;
    c->n_prefixes = 1;
    c->flush.threads = 2;
    c->flush.high = 0.8;
    c->flush.low = 0.5;
    c->organizer.enabled = true;
    c->organizer.high = 0.9;
    c->organizer.low = 0.7;
    c->organizer.prefetch = 8u << 20;
}

/* Rules know keys and no files: the caller, which has the document, adds file and line to what they found. */
static int find_wrong(struct tb_finding *found, const char *key, const char *format, ...) __attribute__((format(printf, 3, 4)));

static int find_wrong(struct tb_finding *found, const char *key, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    snprintf(found->key, sizeof(found->key), "%.127s", key);
    vsnprintf(found->text, sizeof(found->text), format, args);
    va_end(args);
    return -EINVAL;
}

/*
 * Shares may sum to less than 1: the rest of the tier is not used. They may pass 1 by what
 * adding decimal fractions in binary makes of them. A share that holds no buffer is refused,
 * because the user expects buffers of that size; a share of 0 says that there are none.
 */
static int slab_rules(const struct tb_config_tier *t, const char *key, struct tb_finding *found)
{
    char at[160];
    double sum = 0;
    for (uint32_t s = 0; s < t->n_slabs; s++) {
        unsigned long long size = (unsigned long long)t->block * t->slabs[s].units;
        snprintf(at, sizeof(at), "%s.slabs[%u].share", key, s);
        sum += t->slabs[s].share;
        if (sum > 1.0 + 1e-9)
            return find_wrong(found, at, "%g: the shares of the tier's slabs sum to %g; allowed: at most 1", t->slabs[s].share, sum);
        if (t->slabs[s].share > 0 && (double)t->capacity * t->slabs[s].share < (double)size)
            return find_wrong(found, at, "%g of %llu bytes holds no buffer of %llu bytes; allowed: slabs that fit the tier",
                              t->slabs[s].share, (unsigned long long)t->capacity, size);
    }
    return 0;
}

/*
 * A tier below the PFS's path would be buffered itself: writing a slab would need buffers,
 * which are in the slab. Names must differ, because rules of placement and reports use them.
 */
static int tier_rules(const struct tb_config *c, uint32_t i, bool needs_path, struct tb_finding *found)
{
    const struct tb_config_tier *t = &c->tiers[i];
    char key[64], at[128];
    assert(i < c->n_tiers && c->n_tiers <= TB_MAX_TIERS);
    snprintf(key, sizeof(key), "tiers[%u]", i);
    snprintf(at, sizeof(at), "%s.block", key);
    if (t->block == 0 || t->block % TB_BLOCK_MIN)
        return find_wrong(found, at, "%u bytes; allowed: a multiple of %u bytes", t->block, TB_BLOCK_MIN);
    snprintf(at, sizeof(at), "%s.slabs", key);
    if (!t->n_slabs)
        return find_wrong(found, at, "is missing; needed where block is given: a list of {units, share}");
    snprintf(at, sizeof(at), "%s.name", key);
    for (uint32_t k = 0; k < i; k++)
        if (strcmp(c->tiers[k].name, t->name) == 0)
            return find_wrong(found, at, "%s: tiers[%u] has this name; allowed: one name for one tier", t->name, k);
    snprintf(at, sizeof(at), "%s.path", key);
    if (t->medium != TB_MEDIUM_DIRECTORY && t->path[0])
        return find_wrong(found, at, "%s: a %s tier has no path", t->path, tb_medium_name(t->medium));
    if (t->medium == TB_MEDIUM_DIRECTORY && !t->path[0] && needs_path)
        return find_wrong(found, at, "is missing; a directory tier needs one");
    if (t->path[0] && c->pfs.path[0] && tb_path_is_under(t->path, c->pfs.path))
        return find_wrong(found, at, "%s is under pfs.path %s; allowed: a place outside the PFS", t->path, c->pfs.path);
    return slab_rules(t, key, found);
}

/* Nodes lend their memory to nodes that they talk to. One such tier is enough: buffers of all sizes may be in it. */
static int remote_rules(const struct tb_config *c, struct tb_finding *found)
{
    char at[64];
    uint32_t first = tb_config_remote_tier(c);
    snprintf(at, sizeof(at), "tiers[%u].medium", first);
    if (first < c->n_tiers && c->several_nodes != TB_NODES_SHARED)
        return find_wrong(found, at,
                          "remote is other nodes' memory, and with nodes: %s they do not talk to each other; allowed: with nodes: shared",
                          nodes_names[c->several_nodes]);
    for (uint32_t t = first + 1; t < c->n_tiers; t++)
        if (c->tiers[t].medium == TB_MEDIUM_REMOTE) {
            snprintf(at, sizeof(at), "tiers[%u].medium", t);
            return find_wrong(found, at, "remote: tiers[%u] is remote, too; allowed: one such tier", first);
        }
    return 0;
}

/*
 * What was promised must be possible: a tier to keep it in, and a mode that flushes. Deferred
 * names are known to one node only, so other nodes would not find the files.
 */
static int promise_rules(const struct tb_config *c, struct tb_finding *found)
{
    bool scratch_only = true, directory = false, async = false;
    for (uint32_t i = 0; i < c->n_prefixes; i++)
        async |= c->prefixes[i].mode == TB_MODE_PERSISTENT_ASYNC;
    if (c->deferred && c->several_nodes)
        return find_wrong(found, "namespace", "deferred; allowed with nodes: %s: eager", nodes_names[c->several_nodes]);
    if (c->deferred && !async)
        return find_wrong(found, "namespace", "deferred; allowed in mode persistent-async only: eager");
    for (uint32_t i = 0; i < c->n_prefixes; i++)
        scratch_only &= c->prefixes[i].mode == TB_MODE_SCRATCH;
    for (uint32_t t = 0; t < c->n_tiers; t++)
        directory |= c->tiers[t].medium == TB_MEDIUM_DIRECTORY;
    if (c->fsync == TB_FSYNC_NONE && !scratch_only)
        return find_wrong(found, "fsync", "none; allowed in mode scratch only: tier or pfs");
    if (c->fsync == TB_FSYNC_TIER && !directory && !scratch_only)
        return find_wrong(found, "fsync", "tier; allowed where a tier has medium directory (the journal's place), else: pfs");
    if (c->flush.low > c->flush.high)
        return find_wrong(found, "flush.low", "%g is above flush.high %g; allowed: low <= high", c->flush.low, c->flush.high);
    if (c->organizer.low > c->organizer.high)
        return find_wrong(found, "organizer.low", "%g is above organizer.high %g; allowed: low <= high", c->organizer.low,
                          c->organizer.high);
    return 0;
}

/* A page size that is no power of two exists on no system. 0: the file system's own. */
static int region_rules(const struct tb_config *c, struct tb_finding *found)
{
    uint64_t page = c->region.page;
    if (page & (page - 1) || (page && page < TB_BLOCK_MIN) || page > 1u << 30)
        return find_wrong(found, "region.page", "%llu bytes; allowed: a power of two from 4KiB to 1GiB", (unsigned long long)page);
    return 0;
}

static int nodes_rules(const struct tb_config *c, struct tb_finding *found)
{
    char text[200];
    const char *key = tb_nodes_wrong(c, nodes_names[c->several_nodes], text, sizeof(text));
    return key ? find_wrong(found, key, "%s", text) : 0;
}

static int stage_rules(const struct tb_config_stage *stage, const char *section, struct tb_finding *found)
{
    char text[700], at[64];
    const char *key;
    if (!stage->from[0] || !tb_stage_rules(stage, &key, text, sizeof(text)))
        return 0;
    snprintf(at, sizeof(at), "%s.%s", section, key);
    return find_wrong(found, at, "%s", text);
}

/* `needs_path`: a directory tier must have its path now. A file for Hermes may leave it out. */
static int config_rules(const struct tb_config *c, bool needs_path, struct tb_finding *found)
{
    int rc = 0;
    for (uint32_t i = 0; i < c->n_tiers && !rc; i++)
        rc = tier_rules(c, i, needs_path, found);
    if (!rc)
        rc = remote_rules(c, found);
    if (!rc)
        rc = region_rules(c, found);
    if (!rc)
        rc = nodes_rules(c, found);
    if (!rc)
        rc = stage_rules(&c->stage_out, "stage_out", found);
    if (!rc && c->stage_out.when != TB_STAGE_AT_START)
        rc = find_wrong(found, "stage_out.when", "open; allowed: start; stage_in may have open");
    if (!rc)
        rc = stage_rules(&c->stage_in, "stage_in", found);
    return rc ? rc : promise_rules(c, found);
}

#define HUGE_PAGE (2u << 20) /* of most machines */

#define DEFAULT_BLOCK 4096u

/* In blocks of 4 KiB: most of the room is for streams, some for small files and for ends of files.  A directory gets no buffers
 * of 4 KiB, nor does other nodes' memory: a device and a network are slow with them, and memory in front of it has them. */
static const struct tb_config_slab memory_slabs[] = {{1, 0.05}, {16, 0.25}, {256, 0.7}};
static const struct tb_config_slab other_slabs[] = {{16, 0.2}, {256, 0.8}};

/* A tier that says neither block nor slabs.  Slabs count in blocks, so a block without slabs is refused (tier_rules). */
static void fill_in_slabs(struct tb_config_tier *t)
{
    bool memory = t->medium == TB_MEDIUM_MEMORY;
    if (!t->block && !t->n_slabs) {
        t->n_slabs = memory ? sizeof(memory_slabs) / sizeof(*memory_slabs) : sizeof(other_slabs) / sizeof(*other_slabs);
        memcpy(t->slabs, memory ? memory_slabs : other_slabs, t->n_slabs * sizeof(*t->slabs));
    }
    if (!t->block)
        t->block = DEFAULT_BLOCK;
}

/*
 * What follows from what was said: the empty prefix is the PFS's path; scratch promises
 * nothing; a directory for the region is for its huge pages; tiers have slabs. Before the rules, so that they
 * see what will count.
 */
static void fill_in(struct tb_config *c)
{
    bool scratch_only = true;
    if (c->region.directory[0] && !c->region.page)
        c->region.page = HUGE_PAGE;
    for (uint32_t i = 0; i < c->n_prefixes; i++) {
        if (!c->prefixes[i].prefix[0])
            snprintf(c->prefixes[i].prefix, sizeof(c->prefixes[i].prefix), "%s", c->pfs.path);
        scratch_only &= c->prefixes[i].mode == TB_MODE_SCRATCH;
    }
    if (scratch_only)
        c->fsync = TB_FSYNC_NONE;
    if (c->several_nodes == TB_NODES_SHARED && !c->network.provider[0])
        snprintf(c->network.provider, sizeof(c->network.provider), "tcp");
    tb_copies_fill_in(c);
    for (uint32_t t = 0; t < c->n_tiers; t++)
        fill_in_slabs(&c->tiers[t]);
}

/*
 * Schedule and units are read here only to refuse wrong ones early; the daemon reads them
 * again. They need the finished configuration: paths are checked against its prefixes. A
 * rule's message gets its line from the document, so that stays open until then.
 */
static int read_yaml(const char *file, struct tb_config *out, struct tb_error *err)
{
    struct tb_yaml yaml;
    struct tb_finding found;
    tb_config_defaults(out);
    int rc = tb_yaml_open(&yaml, file, err);
    if (rc)
        return rc;
    rc = tb_yaml_read(&yaml, config_keys, out);
    if (!rc) {
        fill_in(out);
        rc = tb_placement_resolve(out, &found);
        if (!rc)
            rc = config_rules(out, true, &found);
        if (rc)
            snprintf(err->text, sizeof(err->text), "%.300s:%u: %s: %s", file, tb_yaml_line(&yaml, found.key), found.key, found.text);
    }
    tb_yaml_close(&yaml);
    struct tb_schedule schedule;
    if (!rc && (rc = tb_schedule_read(out, &schedule, err)) == 0)
        tb_schedule_free(&schedule);
    struct tb_unit_range *ranges;
    if (!rc && (rc = tb_units_read(out, &ranges, err)) == 0)
        free(ranges);
    return rc;
}

/* By the name alone: both formats are text, and a wrong guess would give messages about the wrong format. */
static bool is_hermes(const char *file)
{
    const char *dot = strrchr(file, '.');
    return dot && strcmp(dot, ".conf") == 0;
}

/*
 * The file's absolute path is kept: it names the configuration in the lease and the journal,
 * so that `recover` finds it without being told. A Hermes file has no lines left here, so its
 * rules are told without one.
 */
static int finish(const char *file, struct tb_config *out, struct tb_error *err)
{
    struct tb_finding found;
    char path[PATH_MAX];
    snprintf(out->file, sizeof(out->file), "%.1000s", realpath(file, path) ? path : file);
    if (!is_hermes(file))
        return 0;
    int rc = config_rules(out, false, &found);
    if (rc)
        snprintf(err->text, sizeof(err->text), "%.300s: %s: %s", file, found.key, found.text);
    return rc;
}

int tb_config_read(const char *file, struct tb_config *out, struct tb_error *err)
{
    int rc = is_hermes(file) ? tb_hermes_read(file, NULL, out, err) : read_yaml(file, out, err);
    return rc ? rc : finish(file, out, err);
}

int tb_config_read_merged(const char *base, const char *fragment, struct tb_config *out, struct tb_error *err)
{
    if (!is_hermes(base) || !is_hermes(fragment)) {
        snprintf(err->text, sizeof(err->text), "%.300s: a fragment is merged over a .conf file only; given: %.300s", fragment, base);
        return -EINVAL;
    }
    int rc = tb_hermes_read(base, fragment, out, err);
    return rc ? rc : finish(base, out, err);
}

/*
 * For `--mode`: one mode for all prefixes, with the fsync promise that fits it. Deferred names
 * and `fsync: none` go with some modes only: they are taken back rather than refused, because
 * the user asked for the mode. All else that does not fit is refused by the rules.
 */
int tb_config_set_mode(struct tb_config *c, const char *text, struct tb_error *err)
{
    enum tb_mode mode;
    struct tb_finding found;
    if (c->by_environment) {
        snprintf(err->text, sizeof(err->text),
                 "%.300s: --mode: %.100s; with a Hermes .conf the mode is the programs': ADAPTER_MODE, "
                 "or TIERBENCH_MODE, in their environment",
                 c->file, text);
        return -EINVAL;
    }
    if (tb_mode_parse(text, &mode)) {
        snprintf(err->text, sizeof(err->text), "--mode: %.100s; allowed: persistent-async, persistent-sync, scratch, bypass", text);
        return -EINVAL;
    }
    assert(c->n_prefixes > 0 && c->n_prefixes <= TB_MAX_PREFIXES);
    for (uint32_t i = 0; i < c->n_prefixes; i++)
        c->prefixes[i].mode = mode;
    if (mode != TB_MODE_PERSISTENT_ASYNC)
        c->deferred = false;
    if (mode == TB_MODE_SCRATCH)
        c->fsync = TB_FSYNC_NONE;
    else if (mode == TB_MODE_BYPASS || c->fsync == TB_FSYNC_NONE)
        c->fsync = TB_FSYNC_PFS;
    int rc = config_rules(c, true, &found);
    if (rc)
        snprintf(err->text, sizeof(err->text), "%.300s: %s: %s", c->file, found.key, found.text);
    return rc;
}

/* The same steps for every command, so that `plan`, `start` and `recover` get the same digest. */
int tb_config_read_for_instance(const char *file, const char *fragment, const char *mode, struct tb_config *out, struct tb_error *err)
{
    int rc = fragment ? tb_config_read_merged(file, fragment, out, err) : tb_config_read(file, out, err);
    if (!rc && mode)
        rc = tb_config_set_mode(out, mode, err);
    if (!rc && out->by_environment)
        out->fsync = TB_FSYNC_PFS;
    return rc;
}

/*
 * Equal digests mean the same layout and the same promises. Recovery compares them before it
 * believes a journal. The whole structure counts, with its padding, which tb_config_defaults
 * cleared: a field that is added counts without a line here.
 */
uint64_t tb_config_digest(const struct tb_config *c)
{
    struct tb_config shape = *c;
    memset(shape.file, 0, sizeof(shape.file)); /* wherever it is */
    return XXH3_64bits(&shape, sizeof(shape));
}
