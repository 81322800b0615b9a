/* Configurations: what is read, and that every refusal names file, key, value and what is allowed. */
#include "fixture.h"

#include <errno.h>

#include "config/placement.h"
#include "config/write.h"
#include "region/layout.h"
#include "text/text.h"

#define PFS "pfs: {path: /tmp/tb-pfs}\n"
#define RAM "  - {name: ram, medium: memory, capacity: 64MiB, block: 4KiB, slabs: [{units: 1, share: 0.25}, {units: 256, share: 0.75}]}\n"
#define NVME "  - {name: nvme, medium: directory, path: /tmp/tb-nvme, capacity: 8MiB, block: 1MiB, slabs: [{units: 1, share: 1.0}]}\n"
#define FAR "  - {name: far, medium: remote, capacity: 8MiB}\n"

static int read_text(const char *text, struct tb_config *c, struct tb_error *err)
{
    char path[] = "/tmp/tb-config-XXXXXX.yaml";
    int fd = mkstemps(path, 5);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    memset(err, 0, sizeof(*err));
    int rc = tb_config_read(path, c, err);
    if (rc)
        assert_non_null(strstr(err->text, path));
    unlink(path);
    return rc;
}

static void a_good_file_is_read(void **state)
{
    (void)state;
    struct tb_config c;
    struct tb_error err;
    setenv("TB_TEST_ROOT", "/tmp/tb-root", 1);
    assert_int_equal(read_text("version: 1\nmax_files: 2048\npfs: {path: \"${TB_TEST_ROOT}/pfs\"}\nfsync: pfs\n"
                               "flush: {policy: watermark, threads: 3, high: 0.9, low: 0.4}\nplacement: {policy: round-robin}\n"
                               "mode: [{prefix: /tmp/a, mode: scratch}, {prefix: /tmp/a/b, mode: bypass}]\ntiers:\n" RAM NVME,
                               &c, &err),
                     0);
    assert_string_equal(c.pfs.path, "/tmp/tb-root/pfs");
    assert_int_equal(c.max_files, 2048);
    assert_int_equal(c.fsync, TB_FSYNC_PFS);
    assert_int_equal(c.flush.policy, TB_FLUSH_WATERMARK);
    assert_int_equal(c.flush.threads, 3);
    assert_int_equal(c.placement.policy, TB_POLICY_ROUND_ROBIN);
    assert_int_equal(c.n_prefixes, 2);
    assert_int_equal(c.prefixes[1].mode, TB_MODE_BYPASS);
    assert_int_equal(c.n_tiers, 2);
    assert_int_equal(c.tiers[0].capacity, 64u << 20);
    assert_int_equal(c.tiers[0].slabs[1].units, 256);
    assert_int_equal(c.tiers[1].block, 1u << 20);
    assert_string_equal(c.tiers[1].path, "/tmp/tb-nvme");
}

/* Without slabs those of a directory: messages of 4 KiB would be slow. Its records are metadata, and its bytes are not in the region. */
static void a_remote_tier_is_read(void **state)
{
    (void)state;
    struct tb_config c, without;
    struct tb_layout l, less;
    struct tb_error err;
    assert_int_equal(read_text("version: 1\n" PFS "nodes: shared\ntiers:\n" RAM FAR NVME, &c, &err), 0);
    assert_int_equal(c.tiers[1].medium, TB_MEDIUM_REMOTE);
    assert_int_equal(tb_config_remote_tier(&c), 1);
    assert_int_equal(c.tiers[1].slabs[0].units * c.tiers[1].block, 65536);
    assert_int_equal(read_text("version: 1\n" PFS "nodes: shared\ntiers:\n" RAM NVME, &without, &err), 0);
    assert_int_equal(tb_config_remote_tier(&without), 2);
    assert_int_equal(tb_layout_compute(&c, &l, &err), 0);
    assert_int_equal(tb_layout_compute(&without, &less, &err), 0);
    uint64_t slab = c.tiers[0].slabs[1].units * c.tiers[0].block; /* what is left of the RAM is less than one */
    assert_true(l.total_bytes <= less.total_bytes + slab && l.total_bytes <= c.tiers[0].capacity);
    assert_int_equal(l.section[TB_SECTION_REQUESTS].count, 2 * less.section[TB_SECTION_REQUESTS].count);
    assert_int_equal(tb_layout_tier_bytes(&l, 1), 25 * 65536 + (6u << 20));
}

#define RULES "placement: {policy: user-defined, rules: "

static void placement_is_read(void **state)
{
    (void)state;
    struct tb_config c;
    struct tb_error err;
    assert_int_equal(read_text("version: 1\n" PFS RULES "[{pattern: \"*.h5\", size_at_least: 1MiB, tiers: [nvme, ram]}, {tiers: [ram]}]}\n"
                               "tiers:\n" RAM NVME,
                               &c, &err),
                     0);
    assert_int_equal(c.placement.n_rules, 2);
    assert_string_equal(c.placement.rules[0].pattern, "*.h5");
    assert_int_equal(c.placement.rules[0].at_least, 1 << 20);
    assert_int_equal(c.placement.rules[0].n_tiers, 2);
    assert_int_equal(c.placement.rules[0].tier[0], 1);
    assert_int_equal(c.placement.rules[0].tier[1], 0);
    assert_string_equal(c.placement.rules[1].pattern, "*");
    assert_true(c.placement.rules[1].at_most == UINT64_MAX);
    assert_int_equal(read_text("version: 1\n" PFS "placement: {policy: data-locality, unit: file}\ntiers:\n" RAM NVME, &c, &err), 0);
    assert_true(c.placement.unit == UINT64_MAX);
    assert_int_equal(read_text("version: 1\n" PFS "placement: {policy: data-locality, unit: 4MiB}\ntiers:\n" RAM NVME, &c, &err), 0);
    assert_int_equal(c.placement.unit, 4 << 20);
    for (uint32_t p = 0; p < TB_N_POLICIES; p++) {
        char text[512];
        if (p == TB_POLICY_USER_DEFINED)
            continue;
        snprintf(text, sizeof(text), "version: 1\n%splacement: {policy: %s}\ntiers:\n%s%s", PFS, tb_policy_name(p), RAM, NVME);
        assert_int_equal(read_text(text, &c, &err), 0);
        assert_int_equal(c.placement.policy, p);
    }
}

static void a_tier_needs_name_medium_place_and_capacity(void **state)
{
    (void)state;
    struct tb_config c;
    struct tb_error err;
    assert_int_equal(read_text("version: 1\n" PFS "tiers:\n  - {name: ram, medium: memory, capacity: 64MiB}\n"
                               "  - {name: nvme, medium: directory, path: /tmp/tb-nvme, capacity: 64MiB}\n",
                               &c, &err),
                     0);
    assert_int_equal(c.tiers[0].block, 4096);
    assert_int_equal(c.tiers[0].n_slabs, 3);
    assert_int_equal(c.tiers[0].slabs[0].units, 1);
    assert_int_equal(c.tiers[1].n_slabs, 2);
    assert_int_equal(c.tiers[1].block * c.tiers[1].slabs[1].units, 1 << 20);
    for (uint32_t t = 0; t < 2; t++) {
        double sum = 0;
        for (uint32_t s = 0; s < c.tiers[t].n_slabs; s++)
            sum += c.tiers[t].slabs[s].share;
        assert_true(sum > 0.999 && sum < 1.001);
    }
}

static void every_bad_value_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says[3];
    } bad[] = {
        {"version: 1\nfoo: 3\n" PFS "tiers:\n" RAM NVME, {"foo", "unknown key", "max_files"}},
        {"version: 1\nmax_clients: 63\n" PFS "tiers:\n" RAM NVME, {"max_clients", "63", "64"}},
        {"version: 1\nversion: 1\n" PFS "tiers:\n" RAM NVME, {"version", "given twice", ""}},
        {"version: 2\n" PFS "tiers:\n" RAM NVME, {"version", "2", "allowed"}},
        {PFS "tiers:\n" RAM NVME, {"version", "is missing", ""}},
        {"version: 1\n" PFS "tiers:\n  - {name: a, medium: memory, capacity: 512MB, block: 4KiB, slabs: [{units: 1, share: 1}]}\n",
         {"tiers[0].capacity", "512MB", "MiB"}},
        {"version: 1\n" PFS "fsync: pfs\ntiers:\n  - {name: a, medium: memory, capacity: 1MiB, block: 4KiB, slabs: [{units: 1, share: "
         "0.6}, {units: 2, share: 0.6}]}\n",
         {"tiers[0].slabs[1].share", "1.2", "at most 1"}},
        {"version: 1\n" PFS
         "fsync: pfs\ntiers:\n  - {name: a, medium: memory, capacity: 1MiB, block: 4KiB, slabs: [{units: 512, share: 1}]}\n",
         {"tiers[0].slabs[0].share", "holds no buffer", "allowed"}},
        {"version: 1\n" PFS
         "fsync: pfs\ntiers:\n  - {name: a, medium: memory, capacity: 1MiB, block: 6KiB, slabs: [{units: 1, share: 1}]}\n",
         {"tiers[0].block", "6144", "multiple of 4096"}},
        {"version: 1\n" PFS "fsync: pfs\ntiers:\n  - {name: a, medium: memory, capacity: 1MiB, block: 4KiB}\n",
         {"tiers[0].slabs", "is missing", "block"}},
        {"version: 1\n" PFS "tiers:\n" NVME NVME, {"tiers[1].name", "nvme", "one name"}},
        {"version: 1\n" PFS "tiers:\n  - {name: a, medium: directory, capacity: 8MiB, block: 4KiB, slabs: [{units: 1, share: 1}]}\n",
         {"tiers[0].path", "is missing", ""}},
        {"version: 1\n" PFS "fsync: tier\ntiers:\n" RAM, {"fsync", "tier", "directory"}},
        {"version: 1\n" PFS "fsync: none\ntiers:\n" RAM NVME, {"fsync", "none", "scratch"}},
        {"version: 1\npfs: {path: \"${TB_TEST_UNSET}/pfs\"}\ntiers:\n" RAM NVME, {"pfs.path", "TB_TEST_UNSET", ""}},
        {"version: 1\n" PFS "nodes: 2\ntiers:\n" RAM NVME, {"nodes", "2", "several"}},
        {"version: 1\n" PFS "nodes: several\nnamespace: deferred\ntiers:\n" RAM NVME, {"namespace", "deferred", "eager"}},
        {"version: 1\n" PFS "tiers:\n" RAM FAR NVME, {":5: tiers[1].medium", "nodes: one", "allowed: with nodes: shared"}},
        {"version: 1\n" PFS "nodes: several\ntiers:\n" RAM FAR NVME, {"tiers[1].medium", "nodes: several", "nodes: shared"}},
        {"version: 1\n" PFS "nodes: shared\ntiers:\n" RAM FAR NVME "  - {name: too, medium: remote, capacity: 8MiB}\n",
         {"tiers[3].medium", "tiers[1] is remote, too", "one such tier"}},
        {"version: 1\n" PFS "nodes: shared\ntiers:\n" RAM NVME "  - {name: far, medium: remote, path: /tmp, capacity: 1MiB}\n",
         {"tiers[2].path", "/tmp", "a remote tier has no path"}},
        {"version: 1\n" PFS "copies: 2\ntiers:\n" RAM NVME, {":3: copies", "2 with nodes: one", "allowed: 1, or 2 with nodes: shared"}},
        {"version: 1\n" PFS "nodes: several\ncopies: 2\ntiers:\n" RAM NVME, {":4: copies", "nodes: several", "nodes: shared"}},
        {"version: 1\n" PFS "nodes: shared\ncopies: 3\ntiers:\n" RAM NVME, {":4: copies", "3", "1 to 2"}},
        {"version: 1\n" PFS "nodes: shared\ncopies: two\ntiers:\n" RAM NVME, {":4: copies", "two", "1 to 2"}},
        {"version: 1\n" PFS "nodes: shared\ncopies_memory: 8MiB\ntiers:\n" RAM NVME, {":4: copies_memory", "copies: 1", "copies: 2"}},
        {"version: 1\n" PFS "nodes: shared\ncopies: 2\ncopies_memory: 4KiB\ntiers:\n" RAM NVME,
         {":5: copies_memory", "4096", "1MiB and more"}},
        {"version: 1\n" PFS "tiers:\n" RAM "  - {name: far, medium: network, capacity: 1MiB}\n",
         {"tiers[1].medium", "network", "memory, directory, remote"}},
        {"version: 1\n" PFS "flush: {high: 0.3, low: 0.6}\ntiers:\n" RAM NVME, {"flush.low", "0.6", "low <= high"}},
        {"version: 1\n" PFS "organizer: {high: 0.3, low: 0.6}\ntiers:\n" RAM NVME, {"organizer.low", "0.6", "low <= high"}},
        {"version: 1\n" PFS "organizer: {prefetch: many}\ntiers:\n" RAM NVME, {"organizer.prefetch", "many", "MiB"}},
        {"version: 1\n" PFS "hints: [{prefix: /a, hint: often}]\ntiers:\n" RAM NVME, {"hints[0].hint", "often", "keep"}},
        {"version: 1\n" PFS "flush: {threads: 0}\ntiers:\n" RAM NVME, {"flush.threads", "0", "allowed"}},
        {"version: 1\n" PFS "mode: fast\ntiers:\n" RAM NVME, {"mode", "fast", "persistent-async"}},
        {"version: 1\n" PFS "tiers: []\n", {"tiers", "0", "allowed"}},
        {"version: 1\n" PFS "placement: {policy: best}\ntiers:\n" RAM NVME, {"placement.policy", "best", "minimize-io-time"}},
        {"version: 1\n" PFS "placement: {policy: user-defined}\ntiers:\n" RAM NVME, {"placement.rules", "is missing", "rule"}},
        {"version: 1\n" PFS "placement: {policy: random, rules: [{tiers: [ram]}]}\ntiers:\n" RAM NVME,
         {":3: placement.rules", "allowed", "user-defined"}},
        {"version: 1\n" PFS "placement: {policy: random, unit: file}\ntiers:\n" RAM NVME,
         {":3: placement.unit", "allowed", "data-locality"}},
        {"version: 1\n" PFS "placement: {policy: data-locality, unit: files}\ntiers:\n" RAM NVME, {"placement.unit", "files", ""}},
        {"version: 1\n" PFS RULES "[{pattern: \"*\"}]}\ntiers:\n" RAM NVME, {"placement.rules[0].tiers", "is missing", ""}},
        {"version: 1\n" PFS RULES "[{tiers: []}]}\ntiers:\n" RAM NVME, {"placement.rules[0].tiers", "empty", "allowed"}},
        {"version: 1\n" PFS RULES "[{tiers: ram}]}\ntiers:\n" RAM NVME, {"placement.rules[0].tiers", "list", "allowed"}},
        {"version: 1\n" PFS RULES "[{tiers: [ram]}, {tiers: [ssd]}]}\ntiers:\n" RAM NVME,
         {":3: placement.rules[1].tiers", "ssd", "allowed"}},
        {"version: 1\n" PFS RULES "[{tiers: [ram], size_at_least: 2MiB, size_at_most: 1MiB}]}\ntiers:\n" RAM NVME,
         {":3: placement.rules[0].size_at_most", "1048576", "allowed"}},
        {"version: 1\npfs: {path: /tmp/x, profile: no-such.yaml}\ntiers:\n" RAM NVME, {"no-such.yaml", "", ""}},
        {"version: 1\npfs: {path: /tmp/x, model: no-such.yaml}\ntiers:\n" RAM NVME, {"no-such.yaml", "", ""}},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct tb_config c;
        struct tb_error err;
        char path[] = "/tmp/tb-config-XXXXXX.yaml";
        int fd = mkstemps(path, 5);
        assert_int_equal(write(fd, bad[i].text, strlen(bad[i].text)), strlen(bad[i].text));
        close(fd);
        int rc = tb_config_read(path, &c, &err);
        unlink(path);
        if (rc == 0)
            fail_msg("case %zu was accepted", i);
        for (int k = 0; k < 3; k++)
            if (!strstr(err.text, bad[i].says[k]))
                fail_msg("case %zu: %s: does not say %s", i, err.text, bad[i].says[k]);
    }
}

static const char *hermes(const char *name, char *out, size_t size)
{
    const char *root = getenv("TB_SOURCE_DIR");
    snprintf(out, size, "%s/configs/hermes/%s", root ? root : ".", name);
    return out;
}

static void hermes_files_are_read_as_they_are(void **state)
{
    (void)state;
    struct tb_config c;
    struct tb_layout l;
    struct tb_error err = {""};
    char path[512], fragment[512];
    static const uint32_t counts[] = {3200, 800, 200, 100};
    assert_int_equal(tb_config_read(hermes("webinar-2.1.conf", path, sizeof(path)), &c, &err), 0);
    assert_int_equal(c.placement.policy, TB_POLICY_MINIMIZE_IO_TIME); /* the beta's default */
    assert_int_equal(tb_layout_compute(&c, &l, &err), 0);
    assert_int_equal(l.slab[0].n_buffers, 0);
    assert_int_equal(l.slab[1].n_buffers, 6144);
    assert_int_equal(l.slab[1].buffer_size, 1 << 20);
    assert_int_equal(tb_config_read(hermes("webinar-2.2.conf", path, sizeof(path)), &c, &err), 0);
    assert_int_equal(tb_layout_compute(&c, &l, &err), 0);
    for (uint32_t s = 4; s < 16; s++)
        assert_int_equal(l.slab[s].n_buffers, counts[s % 4]);
    assert_true(l.total_bytes <= 50u << 20 && l.slab[0].n_buffers < 3200); /* memory pays for the metadata */
    assert_int_equal(tb_config_read_merged(hermes("webinar-3.3-bb-nvme.conf", path, sizeof(path)),
                                           hermes("webinar-3.4-bb-nvme-ram.conf", fragment, sizeof(fragment)), &c, &err),
                     0);
    assert_int_equal(c.tiers[0].capacity >> 20, 512);
    assert_int_equal(c.tiers[1].capacity >> 20, 1536);
    assert_int_equal(c.tiers[2].capacity >> 20, 4096);
    assert_true(c.tiers[0].slabs[0].share == 1.0);
    assert_int_not_equal(tb_config_read(hermes("webinar-3.4-bb-nvme-ram.conf", path, sizeof(path)), &c, &err), 0);
    assert_non_null(strstr(err.text, "num_devices"));
}

static void hermes_policies_have_our_names(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int policy;
    } known[] = {
        {"Random", TB_POLICY_RANDOM}, {"RoundRobin", TB_POLICY_ROUND_ROBIN}, {"MinimizeIoTime", TB_POLICY_MINIMIZE_IO_TIME}, {"Best", -1}};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        struct tb_config c;
        struct tb_error err = {""};
        char path[512], fragment[] = "/tmp/tb-config-XXXXXX.conf", text[128];
        int fd = mkstemps(fragment, 5), n = snprintf(text, sizeof(text), "default_placement_policy = \"%s\";\n", known[i].name);
        assert_int_equal(write(fd, text, (size_t)n), n);
        close(fd);
        int rc = tb_config_read_merged(hermes("webinar-2.1.conf", path, sizeof(path)), fragment, &c, &err);
        unlink(fragment);
        assert_int_equal(rc == 0, known[i].policy >= 0);
        if (rc == 0)
            assert_int_equal(c.placement.policy, known[i].policy);
        else
            assert_non_null(strstr(err.text, "default_placement_policy: allowed: Random"));
    }
}

/* The beta's bandwidths predict, and are still there in what an import writes. */
static void hermes_bandwidths_are_a_profile(void **state)
{
    (void)state;
    struct tb_config c, written;
    struct tb_error err = {""};
    char path[512], fragment[] = "/tmp/tb-config-XXXXXX.conf", yaml[] = "/tmp/tb-config-XXXXXX.yaml";
    const char *text = "bandwidths_mbps = {6000, 150.5};\nmount_points = {\"\", \"/tmp/tb-bb\"};\n";
    int fd = mkstemps(fragment, 5);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    close(mkstemps(yaml, 5));
    assert_int_equal(tb_config_read_merged(hermes("webinar-2.1.conf", path, sizeof(path)), fragment, &c, &err), 0);
    assert_true(c.tiers[1].profiled && !c.tiers[1].modelled);
    assert_true(c.tiers[1].profile.write_bandwidth == 150.5 * (1 << 20));
    snprintf(c.pfs.path, sizeof(c.pfs.path), "/tmp/tb-pfs");
    assert_int_equal(tb_config_write(&c, yaml, &err), 0);
    if (tb_config_read(yaml, &written, &err))
        fail_msg("%s", err.text);
    assert_true(written.tiers[0].profile.write_bandwidth == 6000.0 * (1 << 20) && written.tiers[1].profiled);
    assert_true(written.tiers[1].profile.write_bandwidth == c.tiers[1].profile.write_bandwidth);
    assert_int_equal(written.placement.policy, TB_POLICY_MINIMIZE_IO_TIME);
    unlink(fragment);
    unlink(yaml);
}

static void the_region_is_as_large_as_planned(void **state)
{
    (void)state;
    struct fixture x;
    struct tb_layout l;
    struct tb_error err;
    struct tb_instance_info info;
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    assert_int_equal(tb_layout_compute(&x.config, &l, &err), 0);
    assert_true(l.total_bytes <= x.config.tiers[0].capacity);
    fixture_start(&x);
    tb_instance_info(x.engine, &info);
    assert_int_equal(info.region_bytes, l.total_bytes);
    fixture_stop(&x);
}

/* Buffers with cells that overlap in part would lose bytes to each other. */
static void sizes_that_do_not_nest_are_refused(void **state)
{
    (void)state;
    struct tb_config c;
    struct tb_layout l;
    struct tb_error err;
    assert_int_equal(read_text("version: 1\n" PFS "fsync: pfs\ntiers:\n  - {name: a, medium: memory, capacity: 64MiB, block: 4KiB, "
                               "slabs: [{units: 2, share: 0.3}, {units: 3, share: 0.3}, {units: 6, share: 0.4}]}\n",
                               &c, &err),
                     0);
    assert_int_equal(tb_layout_compute(&c, &l, &err), -EINVAL);
    assert_non_null(strstr(err.text, "tiers[].slabs[].units"));
    assert_non_null(strstr(err.text, "next larger"));
    c.tiers[0].slabs[1].units = 1;
    assert_int_equal(tb_layout_compute(&c, &l, &err), 0);
}

/* Modes, hints and schedules ask this one function. */
static void the_longest_prefix_wins(void **state)
{
    static const char rows[][8] = {"/a", "/a/b", "/", "/ab"};
    (void)state;
    assert_int_equal(tb_path_longest("/a", rows, 4, sizeof(rows[0])), 0);
    assert_int_equal(tb_path_longest("/a/c", rows, 4, sizeof(rows[0])), 0);
    assert_int_equal(tb_path_longest("/a/b/c", rows, 4, sizeof(rows[0])), 1);
    assert_int_equal(tb_path_longest("/ab", rows, 4, sizeof(rows[0])), 3);
    assert_int_equal(tb_path_longest("/b/a", rows, 4, sizeof(rows[0])), 2); /* "/" holds everything */
    assert_int_equal(tb_path_longest("/b/a", rows, 2, sizeof(rows[0])), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_file_is_read),
        cmocka_unit_test(a_remote_tier_is_read),
        cmocka_unit_test(placement_is_read),
        cmocka_unit_test(a_tier_needs_name_medium_place_and_capacity),
        cmocka_unit_test(every_bad_value_is_refused),
        cmocka_unit_test(hermes_files_are_read_as_they_are),
        cmocka_unit_test(hermes_policies_have_our_names),
        cmocka_unit_test(hermes_bandwidths_are_a_profile),
        cmocka_unit_test(the_region_is_as_large_as_planned),
        cmocka_unit_test(sizes_that_do_not_nest_are_refused),
        cmocka_unit_test(the_longest_prefix_wins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
