/* Placement of real files: where their bytes are under the policies that look at files, and that none is lost. */
#include "fixture.h"

#include <errno.h>

#include "instance/invariants.h"
#include "buffer/map.h"
#include "buffer/slab.h"
#include "layer/descriptions.h"
#include "placement/placement.h"

#define KIB 1024u
#define MIB (1024u * 1024u)
#define BUFFER (16u * KIB)

static void start(struct fixture *x, enum tb_policy policy, uint32_t mib)
{
    static const double bandwidth[] = {400e6, 200e6, 100e6};
    fixture_init(x, TB_MODE_PERSISTENT_ASYNC);
    x->config.placement.policy = policy;
    x->config.tiers[0].capacity = (mib + 4) * (uint64_t)MIB; /* it pays for the metadata */
    x->config.tiers[1].capacity = x->config.tiers[2].capacity = mib * (uint64_t)MIB;
    for (uint32_t t = 0; t < 3; t++) {
        struct tb_config_tier *tier = &x->config.tiers[t];
        tier->block = BUFFER;
        tier->n_slabs = 0;
        fixture_slab(tier, 1, 1.0);
        tier->profiled = true;
        tier->profile = (struct tb_device){.write_bandwidth = bandwidth[t], .channels = 1};
    }
}

static int open_named(struct fixture *x, const char *name)
{
    int fd = TB_IO(x->io, open, fixture_path(x, name), O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    return fd;
}

static void write_at(struct fixture *x, int fd, uint64_t offset, size_t n)
{
    static char bytes[4 * MIB];
    assert_int_equal(TB_IO(x->io, pwrite, fd, bytes, n, (off_t)offset), (ssize_t)n);
}

/* The tier of the byte at `offset`, or TB_NONE. */
static uint32_t tier_of(struct fixture *x, int fd, uint64_t offset)
{
    tb_engine *e = x->engine;
    uint32_t file = tb_open_of(e, fd)->file;
    uint64_t end;
    int stripe = tb_chunk_lock(e, file, offset);
    struct tb_buffer *b = tb_map_owner(e, file, offset, offset + 1, &end);
    uint32_t tier = b ? tb_slab_layout(e, b)->tier : TB_NONE;
    tb_chunk_unlock(e, stripe);
    return tier;
}

static void units_stay_together(void **state)
{
    (void)state;
    struct fixture x;
    uint32_t units[3] = {0};
    start(&x, TB_POLICY_DATA_LOCALITY, 24);
    fixture_start(&x);
    int fd = open_named(&x, "f");
    for (uint32_t pass = 0; pass < 4; pass++) /* of each unit one quarter, then the next */
        for (uint64_t unit = 0; unit < 21; unit++)
            write_at(&x, fd, unit * MIB + (pass * 7 + unit) % 4 * (MIB / 4), MIB / 4);
    for (uint64_t unit = 0; unit < 21; unit++) {
        uint32_t tier = tier_of(&x, fd, unit * MIB);
        for (uint64_t at = 0; at < MIB; at += BUFFER)
            assert_int_equal(tier_of(&x, fd, unit * MIB + at), tier);
        units[tier]++;
    }
    assert_in_range(units[0], 11, 13); /* 21 units in the ratio 4 : 2 : 1 */
    assert_in_range(units[1], 5, 7);
    assert_in_range(units[2], 2, 4);
    TB_IO(x.io, close, fd);
    fixture_stop(&x);
}

/* If a unit's tier is full, the unit goes on in another, and what is beside it follows while there is room. */
static void a_full_tier_moves_units_on(void **state)
{
    (void)state;
    struct fixture x;
    struct tb_stats stats;
    start(&x, TB_POLICY_DATA_LOCALITY, 4);
    fixture_start(&x);
    int fd = open_named(&x, "f");
    uint64_t units = tb_tier_room(x.engine, 0, TB_ROOM_ALL) / MIB + 8; /* the top tier would get 4 of 7 */
    for (uint64_t unit = 0; unit < units; unit++)
        write_at(&x, fd, unit * MIB, MIB);
    tb_engine_stats(x.engine, &stats);
    assert_int_equal(stats.spilled, 0);
    assert_int_equal(stats.tier[0].used + stats.tier[1].used + stats.tier[2].used, units * MIB);
    TB_IO(x.io, close, fd);
    fixture_stop(&x);
}

static void a_file_can_be_a_unit(void **state)
{
    (void)state;
    struct fixture x;
    uint32_t files[3] = {0};
    start(&x, TB_POLICY_DATA_LOCALITY, 24);
    x.config.placement.unit = UINT64_MAX;
    fixture_start(&x);
    for (int i = 0; i < 14; i++) {
        char name[16];
        snprintf(name, sizeof(name), "f%d", i);
        int fd = open_named(&x, name);
        for (uint64_t chunk = 0; chunk < 2; chunk++)
            write_at(&x, fd, chunk * MIB, 100000);
        assert_int_equal(tier_of(&x, fd, 0), tier_of(&x, fd, MIB));
        files[tier_of(&x, fd, 0)]++;
        TB_IO(x.io, close, fd);
    }
    assert_in_range(files[0], 6, 10); /* 14 files in the ratio 4 : 2 : 1 */
    assert_in_range(files[1], 3, 5);
    assert_in_range(files[2], 1, 3);
    fixture_stop(&x);
}

static void rule(struct tb_config_placement *p, const char *pattern, uint64_t at_least, uint64_t at_most, uint32_t first, uint32_t second)
{
    struct tb_config_rule *r = &p->rules[p->n_rules++];
    snprintf(r->pattern, sizeof(r->pattern), "%s", pattern);
    *r = (struct tb_config_rule){.at_least = at_least, .at_most = at_most, .n_tiers = 2, .tier = {first, second}};
    snprintf(r->pattern, sizeof(r->pattern), "%s", pattern);
}

static void rules_are_kept(void **state)
{
    (void)state;
    struct fixture x;
    start(&x, TB_POLICY_USER_DEFINED, 4);
    rule(&x.config.placement, "*/checkpoint*", 0, UINT64_MAX, 2, 1);
    rule(&x.config.placement, "*", 100000, 200000, 1, 0);
    fixture_start(&x);
    int checkpoint = open_named(&x, "checkpoint.1"), other = open_named(&x, "other");
    write_at(&x, checkpoint, 0, 4096);
    assert_int_equal(tier_of(&x, checkpoint, 0), 2);
    write_at(&x, checkpoint, MIB, 4 * MIB - 2 * BUFFER); /* fills the burst buffer, except for a buffer */
    write_at(&x, checkpoint, 6 * MIB, 3 * BUFFER);
    assert_int_equal(tier_of(&x, checkpoint, 6 * MIB), 2);
    assert_int_equal(tier_of(&x, checkpoint, 6 * MIB + 2 * BUFFER), 1); /* its second choice */
    write_at(&x, other, 0, 4096);
    assert_int_equal(tier_of(&x, other, 0), 0); /* no rule: from the top */
    write_at(&x, other, 150000, 4096);
    assert_int_equal(tier_of(&x, other, 150000), 1); /* 154096 bytes now */
    write_at(&x, other, 300000, 4096);
    assert_int_equal(tier_of(&x, other, 300000), 0);
    char from[512];
    snprintf(from, sizeof(from), "%s", fixture_path(&x, "other"));
    assert_int_equal(TB_IO(x.io, rename, from, fixture_path(&x, "checkpoint.2"), 0), 0);
    assert_int_equal(TB_IO(x.io, unlink, fixture_path(&x, "checkpoint.1"), 0), 0);
    TB_IO(x.io, close, checkpoint);
    write_at(&x, other, 400000, 4096);
    assert_int_equal(tier_of(&x, other, 400000), 2); /* the name counts as it is now */
    TB_IO(x.io, close, other);
    fixture_stop(&x);
}

/*
 * A part can end inside a cell where a tier is out of small buffers: the rest of
 * the cell is then that buffer's, not another's of the same size in the next tier.
 */
static void parts_may_end_inside_a_cell(void **state)
{
    (void)state;
    static char bytes[MIB], back[MIB];
    struct fixture x;
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    x.config.placement.policy = TB_POLICY_RANDOM;
    x.config.n_tiers = 2;
    for (uint32_t t = 0; t < 2; t++) {
        x.config.tiers[t].capacity = 8 * MIB;
        x.config.tiers[t].n_slabs = 0;
        fixture_slab(&x.config.tiers[t], 1, 0.001);
        fixture_slab(&x.config.tiers[t], 16, 0.999);
    }
    fixture_start(&x);
    int fd = open_named(&x, "f");
    for (uint32_t round = 0; round < 200; round++) {
        for (size_t i = 0; i < sizeof(bytes); i++)
            bytes[i] = (char)(i / 4096 * 7 + round);
        assert_int_equal(TB_IO(x.io, ftruncate, fd, 0), 0);
        size_t offset = round * 4096 % (128 * KIB);
        assert_int_equal(TB_IO(x.io, pwrite, fd, bytes + offset, MIB - offset, (off_t)offset), MIB - offset);
        assert_int_equal(TB_IO(x.io, pread, fd, back, MIB - offset, (off_t)offset), MIB - offset);
        assert_memory_equal(back, bytes + offset, MIB - offset);
        assert_true(tb_region_is_valid(x.engine));
    }
    TB_IO(x.io, close, fd);
    fixture_stop(&x);
}

/* Small writes on full tiers over a PFS with dear operations: a flush pays for many of them. */
static void a_full_tier_is_flushed_first_where_that_pays(void **state)
{
    (void)state;
    struct fixture x;
    struct tb_stats stats;
    start(&x, TB_POLICY_MAX_BANDWIDTH, 2);
    x.config.pfs.profiled = true;
    x.config.pfs.profile = (struct tb_device){.write_bandwidth = 95e6, .write_latency = 4.16e-3, .channels = 1};
    fixture_start(&x);
    int first = open_named(&x, "first"), second = open_named(&x, "second"); /* the second finds the first's bytes there */
    for (uint64_t at = 0; at < 16 * MIB; at += 4096)
        write_at(&x, at < 10 * MIB ? first : second, at, 4096);
    tb_engine_stats(x.engine, &stats);
    assert_int_equal(stats.spilled, 0);
    assert_true(stats.pfs_bytes_written >= 8 * MIB);
    TB_IO(x.io, close, first);
    TB_IO(x.io, close, second);
    fixture_stop(&x);
}

/* A table of dispersion units for the configuration, as reading it would note it. */
static int read_units(struct fixture *x, const char *text, struct tb_error *err)
{
    struct tb_unit_range *ranges;
    snprintf(x->config.placement.units, sizeof(x->config.placement.units), "%s/units", x->root);
    FILE *f = fopen(x->config.placement.units, "w");
    fputs(text, f);
    fclose(f);
    int rc = tb_units_read(&x->config, &ranges, err);
    if (!rc)
        free(ranges);
    return rc;
}

static uint32_t tier_of_all(struct fixture *x, int fd, uint64_t from, uint64_t to)
{
    uint32_t tier = tier_of(x, fd, from);
    for (uint64_t at = from; at < to; at += BUFFER)
        assert_int_equal(tier_of(x, fd, at), tier);
    return tier;
}

#define AT 5000u /* where the first data set begins: no buffer's end is one's end, nor a chunk's */

/* The buffers that are in a data set as a whole. */
static uint32_t tier_of_set(struct fixture *x, int fd, uint64_t set, uint64_t bytes)
{
    uint64_t from = AT + set * bytes, to = from + bytes;
    return tier_of_all(x, fd, (from + BUFFER - 1) / BUFFER * BUFFER, to / BUFFER * BUFFER);
}

/* 21 data sets of 300 KB, one after the other. */
static void a_table_says_what_belongs_together(void **state)
{
    (void)state;
    struct fixture x;
    struct tb_error err;
    char text[2048] = "# data sets\nfile *named\n", line[64];
    uint32_t units[3] = {0}, in_order[21];
    const uint64_t bytes = 300000;
    start(&x, TB_POLICY_DATA_LOCALITY, 24);
    for (int u = 20; u >= 0; u--) { /* in any order */
        snprintf(line, sizeof(line), "%llu %llu /set %d\n", (unsigned long long)(AT + (uint64_t)u * bytes), (unsigned long long)bytes, u);
        strcat(text, line);
    }
    assert_int_equal(read_units(&x, text, &err), 0);
    assert_int_equal(x.config.placement.n_unit_ranges, 21);
    fixture_start(&x);
    int fd = open_named(&x, "named"), other = open_named(&x, "other"), again = open_named(&x, "sub.d_named");
    for (uint64_t at = 0; at < AT + 21 * bytes; at += 2 * MIB) /* writes that span data sets */
        write_at(&x, fd, at, 2 * MIB);
    write_at(&x, other, 0, MIB);
    tier_of_all(&x, other, 0, MIB); /* no name of the table: a chunk is a unit */
    for (uint64_t u = 0; u < 21; u++) {
        in_order[u] = tier_of_set(&x, fd, u, bytes);
        units[in_order[u]]++;
    }
    assert_in_range(units[0], 11, 13); /* in the ratio 4 : 2 : 1 */
    assert_in_range(units[1], 5, 7);
    assert_in_range(units[2], 2, 4);
    for (uint64_t u = 0; u + 3 < 21; u++) /* spread evenly: of four that follow each other the first tier has one at least, and not all */
        assert_true(in_order[u] + in_order[u + 1] + in_order[u + 2] + in_order[u + 3] > 0 &&
                    (!in_order[u] || !in_order[u + 1] || !in_order[u + 2] || !in_order[u + 3]));
    for (uint64_t u = 21; u-- > 0;) /* another such file, written backwards and in pieces */
        for (uint64_t at = bytes; at > 0; at -= 12500)
            write_at(&x, again, AT + u * bytes + at - 12500, 12500);
    for (uint64_t u = 0; u < 21; u++)
        tier_of_set(&x, again, u, bytes);
    assert_true(tb_region_is_valid(x.engine));
    TB_IO(x.io, close, fd);
    TB_IO(x.io, close, other);
    TB_IO(x.io, close, again);
    fixture_stop(&x);
}

/* A chunked data set: its pieces are between another's, all in one tier; a name that changes takes its units along. */
static void a_unit_may_be_many_ranges(void **state)
{
    (void)state;
    struct fixture x;
    struct tb_error err;
    char text[8192] = "file */chunked\n", line[64];
    start(&x, TB_POLICY_DATA_LOCALITY, 24);
    for (int i = 0; i < 128; i++) {
        snprintf(line, sizeof(line), "%u 65536 /set %d\n", i * 65536u, i % 3);
        strcat(text, line);
    }
    assert_int_equal(read_units(&x, text, &err), 0);
    fixture_start(&x);
    int fd = open_named(&x, "before");
    assert_int_equal(TB_IO(x.io, rename, fixture_path(&x, "before"), strcat(strcpy(line, x.pfs), "/chunked"), 0), 0);
    for (uint64_t at = 0; at < 8 * MIB; at += 4 * MIB)
        write_at(&x, fd, at, 4 * MIB);
    for (uint64_t i = 0; i < 128; i++)
        assert_int_equal(tier_of_all(&x, fd, i * 65536, (i + 1) * 65536), tier_of(&x, fd, i % 3 * 65536));
    assert_int_not_equal(tier_of(&x, fd, 0), tier_of(&x, fd, 2 * 65536)); /* else the test means little */
    TB_IO(x.io, close, fd);
    fixture_stop(&x);
}

static void bad_tables_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } bad[] = {
        {"0 10 /a\n", "units:1: 0 10 /a: allowed: file PATTERN first"},
        {"# x\nfile\n", "units:2: : allowed: file PATTERN"},
        {"file *\n0 /a\n", "units:2: 0 /a: allowed: OFFSET LENGTH UNIT"},
        {"file *\n-1 10 /a\n", "units:2: -1 10 /a: allowed: OFFSET LENGTH UNIT"},
        {"file *\n0 0 /a\n", "units:2: 0 0 /a: allowed: OFFSET LENGTH UNIT"},
        {"file *\n0 10\n", "units:2: 0 10: allowed: OFFSET LENGTH UNIT"},
        {"file *\n9223372036854775807 1 /a\n", "units:2: 9223372036854775807 1 /a: allowed: OFFSET LENGTH UNIT"},
        {"file *\n0 10 /a\n9 10 /b\nfile b\n0 1 /a\n", "units:4: byte 9 of *: is in two ranges"},
    };
    struct fixture x;
    struct tb_error err;
    start(&x, TB_POLICY_DATA_LOCALITY, 24);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(read_units(&x, bad[i].text, &err), -EINVAL);
        if (!strstr(err.text, bad[i].message))
            fail_msg("%s", err.text);
    }
    unlink(x.config.placement.units);
    struct tb_unit_range *ranges;
    assert_int_equal(tb_units_read(&x.config, &ranges, &err), -ENOENT);
    tb_remove_tree(x.root, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(units_stay_together),
        cmocka_unit_test(a_table_says_what_belongs_together),
        cmocka_unit_test(a_unit_may_be_many_ranges),
        cmocka_unit_test(bad_tables_are_refused),
        cmocka_unit_test(a_full_tier_moves_units_on),
        cmocka_unit_test(a_file_can_be_a_unit),
        cmocka_unit_test(rules_are_kept),
        cmocka_unit_test(parts_may_end_inside_a_cell),
        cmocka_unit_test(a_full_tier_is_flushed_first_where_that_pays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
