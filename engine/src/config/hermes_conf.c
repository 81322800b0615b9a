/*
 * Hermes 0.1 beta configurations: `key = value;`, lists in braces, # comments. Devices
 * become tiers, fastest first, in the order of the file; a mount point "" is memory. The
 * beta promised nothing of an fsync, so an import is a scratch configuration. Keys that
 * mean nothing here (RPC, arenas) are known and passed over.
 */
#include "config/hermes_conf.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/placement.h"
#include "text/sizes.h"
#include "text/text.h"

#define MAX_VALUES 128
#define NUMBER_MAX 1e12
#define MAX_FILES 4096 /* small enough for the 16 MiB memory devices of the beta's examples */

struct value { /* a flat list with where each inner list starts */
    unsigned line;
    int n, n_groups;
    char text[MAX_VALUES][256];
    int group[MAX_VALUES];
    bool given;
};

/* Those that mean something here; key_names has them in this order. */
enum key {
    NUM_DEVICES,
    CAPACITIES,
    BLOCK_SIZES,
    NUM_SLABS,
    UNIT_SIZES,
    PERCENTAGES,
    BANDWIDTHS,
    LATENCIES,
    MOUNT_POINTS,
    SHARED,
    POLICY,
    N_KEYS
};

static const char *const key_names[N_KEYS] = {
    "num_devices",     "capacities_mb", "block_sizes_kb", "num_slabs",        "slab_unit_sizes",          "desired_slab_percentages",
    "bandwidths_mbps", "latencies_us",  "mount_points",   "is_shared_device", "default_placement_policy",
};

/* Keys of the beta that mean nothing here. They are known by name, so that a misspelled key is still refused. */
static const char *const passed_over[] = {
    "swap_mount",
    "buffer_pool_arena_percentage",
    "metadata_arena_percentage",
    "transfer_window_arena_percentage",
    "transient_arena_percentage",
    "max_buckets_per_node",
    "max_vbuckets_per_node",
    "system_view_state_update_interval_ms",
    "num_buffer_organizer_retries",
    "default_rr_split",
    "rpc_server_host_file",
    "rpc_server_base_name",
    "rpc_server_suffix",
    "rpc_protocol",
    "rpc_domain",
    "rpc_port",
    "buffer_organizer_port",
    "rpc_host_number_range",
    "rpc_num_threads",
    "buffer_pool_shmem_name",
    "max_memory_mb",
    "host_names",
    "bo_num_threads",
    "path_exclusions",
    "path_inclusions",
    NULL,
};

/* `at` only moves forward, and `line` with it: there is no step back over a new line. */
struct reader {
    const char *file, *at;
    unsigned line;
    struct value *values;
    struct tb_error *err;
};

/* One message: file, line, what is wrong, the text there. The text is cut: without it the rest of the file would follow. */
static int refuse(struct reader *r, const char *what, const char *text)
{
    snprintf(r->err->text, sizeof(r->err->text), "%.400s:%u: %s: %.200s", r->file, r->line, what, text);
    return -EINVAL;
}

/* Blanks, new lines and comments may be between any two words of the format. */
static void skip_space(struct reader *r)
{
    for (; *r->at && (isspace((unsigned char)*r->at) || *r->at == '#'); r->at++) {
        if (*r->at == '#')
            r->at += strcspn(r->at, "\n");
        if (*r->at == '\n')
            r->line++;
        if (!*r->at)
            return;
    }
}

static bool take(struct reader *r, char c)
{
    skip_space(r);
    bool there = *r->at == c;
    r->at += there;
    return there;
}

/*
 * A number, a word or a quoted string. A string ends on its line: without that, one missing
 * quote would take all up to the next string, and the message would name another line.
 */
static int read_atom(struct reader *r, char *out, size_t size)
{
    skip_space(r);
    bool quoted = *r->at == '"';
    r->at += quoted;
    size_t n = quoted ? strcspn(r->at, "\"\n") : strcspn(r->at, " \t\r\n,;{}=#\"");
    if ((!quoted && n == 0) || (quoted && r->at[n] != '"') || n >= size)
        return refuse(r, "a value is missing or not closed", r->at);
    snprintf(out, size, "%.*s", (int)n, r->at);
    r->at += n + quoted;
    return 0;
}

/*
 * Lists of lists are kept flat, with the group of each value, since only slab keys have
 * them. `depth` is limited, and with it the recursion: braces come from the file.
 */
static int read_value(struct reader *r, struct value *v, int depth)
{
    if (!take(r, '{')) {
        if (v->n == MAX_VALUES)
            return refuse(r, "too many values; allowed", "128");
        v->group[v->n] = v->n_groups ? v->n_groups - 1 : 0;
        assert(v->n >= 0 && v->n < MAX_VALUES);
        return read_atom(r, v->text[v->n++], sizeof(v->text[0]));
    }
    if (depth == 2)
        return refuse(r, "lists nest too deep; allowed", "{{1, 4}, {1}}");
    if (depth == 1)
        v->n_groups++;
    while (!take(r, '}')) {
        int rc = read_value(r, v, depth + 1);
        if (rc)
            return rc;
        if (!take(r, ',') && (skip_space(r), *r->at != '}'))
            return refuse(r, "expected , or }", r->at);
    }
    return 0;
}

/* N_KEYS: known and passed over. -1: unknown, which is refused, since a misspelled key would silently keep its default. */
static int find_key(const char *name)
{
    for (int k = 0; k < N_KEYS; k++)
        if (strcmp(name, key_names[k]) == 0)
            return k;
    for (int k = 0; passed_over[k]; k++)
        if (strcmp(name, passed_over[k]) == 0)
            return N_KEYS;
    return -1;
}

/* A key that comes again replaces the earlier one: a fragment is read after its base and changes single keys. */
static int read_statement(struct reader *r, struct value *ignored)
{
    char name[128];
    int rc = read_atom(r, name, sizeof(name));
    int k = rc ? 0 : find_key(name);
    if (rc)
        return rc;
    if (k < 0)
        return refuse(r, "unknown key; allowed are those of Hermes 0.1", name);
    struct value *v = k == N_KEYS ? ignored : &r->values[k];
    memset(v, 0, sizeof(*v));
    v->given = true;
    v->line = r->line;
    if (!take(r, '='))
        return refuse(r, "expected = after", name);
    rc = read_value(r, v, 0);
    return rc ? rc : take(r, ';') ? 0 : refuse(r, "expected ; after the value of", name);
}

/*
 * Statements up to the end of the text. `values` keeps what earlier files gave, so a fragment
 * is read into the same ones. Values that are passed over are read too: what is wrong in
 * them is wrong in the file.
 */
static int read_file(const char *file, struct value *values, char *directory, struct tb_error *err)
{
    char *text;
    struct value *ignored = calloc(1, sizeof(*ignored));
    int rc = ignored ? tb_text_read(file, directory, &text, err) : -ENOMEM;
    if (rc)
        return free(ignored), rc;
    struct reader r = {.file = file, .at = text, .line = 1, .values = values, .err = err};
    for (skip_space(&r); *r.at && !rc; skip_space(&r))
        rc = read_statement(&r, ignored);
    free(text);
    free(ignored);
    return rc;
}

/* For values that were read and mean nothing possible: the line is that of their key. */
static int wrong(const char *file, const struct value *v, enum key k, const char *text, struct tb_error *err)
{
    snprintf(err->text, sizeof(err->text), "%.400s:%u: %s: %.300s", file, v->line, key_names[k], text);
    return -EINVAL;
}

/* Value i of a key. Up to the limit a number of MiB is bytes of 63 bits. `!(>= 0)` refuses NaN too, which strtod reads. */
static int number(const char *file, const struct value *v, enum key k, int i, double *out, struct tb_error *err)
{
    char text[400], *end;
    if (i >= v->n) {
        snprintf(text, sizeof(text), "has %d values; allowed: one for each device", v->n);
        return wrong(file, v, k, text, err);
    }
    *out = strtod(v->text[i], &end);
    snprintf(text, sizeof(text), "%.200s; allowed: a number from 0 to 1e12", v->text[i]);
    return *end || end == v->text[i] || !(*out >= 0) || *out > NUMBER_MAX ? wrong(file, v, k, text, err) : 0;
}

/* Element j of the inner list of device i. Inner lists may differ in length, so the flat list is walked. */
static int nested(const char *file, const struct value *v, enum key k, int i, int j, double *out, struct tb_error *err)
{
    for (int at = 0; at < v->n; at++)
        if (v->group[at] == i && j-- == 0)
            return number(file, v, k, at, out, err);
    return wrong(file, v, k, "an inner list is shorter than num_slabs says; allowed: one value for each slab", err);
}

/*
 * The beta's slabs have sizes in blocks and shares of the device, as ours. Limits are those
 * of the keys of a YAML tier, so an import can be written and read again.
 */
static int read_slabs(const char *file, const struct value *v, int i, struct tb_config_tier *t, struct tb_error *err)
{
    double n, units, share;
    assert(i >= 0 && i < TB_MAX_TIERS);
    int rc = number(file, &v[NUM_SLABS], NUM_SLABS, i, &n, err);
    if (!rc && (n < 1 || n > TB_MAX_SLABS))
        return wrong(file, &v[NUM_SLABS], NUM_SLABS, "allowed: 1 to 8", err);
    t->n_slabs = rc ? 0 : (uint32_t)n;
    for (uint32_t s = 0; s < t->n_slabs && !rc; s++) {
        rc = nested(file, &v[UNIT_SIZES], UNIT_SIZES, i, (int)s, &units, err);
        if (!rc)
            rc = nested(file, &v[PERCENTAGES], PERCENTAGES, i, (int)s, &share, err);
        if (!rc && (units < 1 || units > (1u << 20)))
            return wrong(file, &v[UNIT_SIZES], UNIT_SIZES, "allowed: 1 to 1048576 blocks", err);
        if (!rc && share > 1)
            return wrong(file, &v[PERCENTAGES], PERCENTAGES, "a share is above 1; allowed: 0 to 1", err);
        if (!rc)
            t->slabs[s] = (struct tb_config_slab){(uint32_t)units, share};
    }
    return rc;
}

/* A device's entries in the lists of numbers. */
struct numbers {
    double capacity_mb, block_kb, shared, bandwidth_mbps;
};

static int read_numbers(const char *file, const struct value *v, int i, struct numbers *out, struct tb_error *err)
{
    const struct {
        enum key key;
        double *to;
    } lists[] = {
        {CAPACITIES, &out->capacity_mb}, {BLOCK_SIZES, &out->block_kb}, {SHARED, &out->shared}, {BANDWIDTHS, &out->bandwidth_mbps}};
    int rc = 0;
    for (size_t k = 0; k < sizeof(lists) / sizeof(lists[0]) && !rc; k++)
        if (v[lists[k].key].given) /* the first two are needed, and were looked for before */
            rc = number(file, &v[lists[k].key], lists[k].key, i, lists[k].to, err);
    if (!rc && (out->block_kb < 4 || out->block_kb > (1 << 20)))
        rc = wrong(file, &v[BLOCK_SIZES], BLOCK_SIZES, "allowed: 4 to 1048576", err);
    return rc;
}

/*
 * Device i as a tier. Only the first may be memory, as in the beta, where a device without a
 * mount point is memory; any other without one needs its path before it is used.
 */
static int read_device(const char *file, const struct value *v, int i, const char *directory, struct tb_config_tier *t,
                       struct tb_error *err)
{
    struct numbers is = {0};
    int rc = read_numbers(file, v, i, &is, err);
    if (rc)
        return rc;
    const char *mount = i < v[MOUNT_POINTS].n ? v[MOUNT_POINTS].text[i] : "";
    t->medium = i == 0 && !*mount ? TB_MEDIUM_MEMORY : TB_MEDIUM_DIRECTORY;
    snprintf(t->name, sizeof(t->name), t->medium == TB_MEDIUM_MEMORY ? "ram" : "tier%d", i);
    t->capacity = (uint64_t)(is.capacity_mb * TB_MIB);
    t->block = (uint32_t)(is.block_kb * 1024.0);
    t->shared = is.shared != 0;
    t->profiled = is.bandwidth_mbps > 0; /* all that the beta's placement looked at */
    if (t->profiled)
        t->profile = (struct tb_device){.write_bandwidth = is.bandwidth_mbps * TB_MIB, .channels = 1};
    snprintf(t->profile.name, sizeof(t->profile.name), "%s", t->name);
    if (*mount && tb_path_absolute(directory, mount, t->path, sizeof(t->path)))
        return wrong(file, &v[MOUNT_POINTS], MOUNT_POINTS, "too long", err);
    return read_slabs(file, v, i, t, err);
}

/* Which keys must be there is known only after base and fragment are read. Keys without a meaning for the engine keep their defaults. */
static int to_config(const char *file, const struct value *v, const char *directory, struct tb_config *out, struct tb_error *err)
{
    double n = 0;
    static const enum key needed[] = {NUM_DEVICES, CAPACITIES, BLOCK_SIZES, NUM_SLABS, UNIT_SIZES, PERCENTAGES};
    for (size_t k = 0; k < sizeof(needed) / sizeof(needed[0]); k++)
        if (!v[needed[k]].given)
            return wrong(file, &v[needed[k]], needed[k], "is missing; a fragment is merged over a whole file: BASE.conf FRAGMENT.conf",
                         err);
    int rc = number(file, &v[NUM_DEVICES], NUM_DEVICES, 0, &n, err);
    if (!rc && (n < 1 || n > TB_MAX_TIERS))
        rc = wrong(file, &v[NUM_DEVICES], NUM_DEVICES, "allowed: 1 to 8", err);
    tb_config_defaults(out);
    out->max_files = MAX_FILES;
    out->by_environment = true;
    out->prefixes[0].mode = TB_MODE_SCRATCH;
    out->fsync = TB_FSYNC_NONE;
    out->placement.policy = TB_POLICY_MINIMIZE_IO_TIME; /* the beta's default */
    if (!rc && v[POLICY].given && tb_placement_hermes(v[POLICY].text[0], &out->placement.policy))
        rc = wrong(file, &v[POLICY], POLICY, "allowed: Random, RoundRobin, MinimizeIoTime", err);
    out->n_tiers = rc ? 0 : (uint32_t)n;
    assert(out->n_tiers <= TB_MAX_TIERS);
    for (int i = 0; i < (int)out->n_tiers && !rc; i++)
        rc = read_device(file, v, i, directory, &out->tiers[i], err);
    return rc;
}

/* The values are large, so they are not on the stack of the thread that attaches. */
int tb_hermes_read(const char *file, const char *fragment, struct tb_config *out, struct tb_error *err)
{
    char directory[TB_PATH_MAX];
    struct value *values = calloc(N_KEYS, sizeof(*values));
    int rc = values ? read_file(file, values, directory, err) : -ENOMEM;
    if (!rc && fragment)
        rc = read_file(fragment, values, directory, err);
    if (!rc)
        rc = to_config(fragment ? fragment : file, values, directory, out, err);
    free(values);
    return rc;
}
