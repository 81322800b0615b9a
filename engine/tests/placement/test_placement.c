/*
 * Placement on paper: descriptions of hierarchies, and no engine.  The policies that judge by predicted time meet random ones and are
 * compared with every other way there is, the others with their rule.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/placement.h"
#include "placement/placement.h"
#include "placement/queue.h"
#include "sim.h"

#define KIB 1024u
#define MIB (1024u * 1024u)
#define UNIT (64u * KIB)

static uint32_t seed = 20181106;

static uint32_t below(uint32_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 17;
    seed ^= seed << 5;
    return seed % n;
}

static double between(double low, double high)
{
    return low + (high - low) * below(1u << 20) * 0x1p-20;
}

/* Hierarchies on paper. */

struct paper {
    const struct tb_placement_ops *policy;
    struct tb_tiers tiers;
    struct tb_hierarchy h;
    struct tb_policy_state state;
    struct tb_config_placement settings;
};

static void paper_init(struct paper *p, enum tb_policy policy, uint32_t n_tiers)
{
    memset(p, 0, sizeof(*p));
    p->policy = tb_placement_ops_of(policy);
    p->tiers = (struct tb_tiers){.n = n_tiers, .grain = UNIT, .chunk = tb_size_of(MIB), .settings = &p->settings};
    p->h = (struct tb_hierarchy){.tiers = &p->tiers, .known = ~0u};
    p->tiers.pfs = (struct tb_tier_figures){.bandwidth = 0.5e9, .read_bandwidth = 0.5e9, .channels = 1};
    for (uint32_t t = 0; t < n_tiers; t++) {
        p->tiers.tier[t].medium = t ? TB_MEDIUM_DIRECTORY : TB_MEDIUM_MEMORY;
        p->tiers.tier[t].capacity = 32 * UNIT;
        p->tiers.tier[t].figures = (struct tb_tier_figures){.bandwidth = 2e9, .read_bandwidth = 2e9, .channels = 1};
    }
}

/* All of the hierarchy is known, so no policy asks for more. */
static void place(struct paper *p, const struct tb_placed_write *w, struct tb_placement *out)
{
    memset(out, 0xff, sizeof(*out));
    tb_placement_clear(out);
    p->policy->place(&p->h, w, &p->state, out);
    assert_int_equal(out->wants, 0);
}

static struct tb_placed_write a_write(uint64_t offset, uint64_t bytes)
{
    return (struct tb_placed_write){.offset = offset, .bytes = bytes, .before.tier = TB_NONE, .after.tier = TB_NONE};
}

static struct tb_tier_figures random_figures(void)
{
    struct tb_tier_figures f = {.channels = 1 + below(4)};
    f.bandwidth = between(20, 2000) * MIB;
    f.read_bandwidth = between(20, 2000) * MIB;
    if (below(2))
        f.latency = between(1e-6, 5e-3);
    if (below(2))
        f.read_latency = between(1e-6, 5e-3);
    return f;
}

static double random_queue(void)
{
    return below(4) ? below(20000000) * 1e-9 : 0;
}

/* Tiers of any speed in any order, some full, some busy, over a PFS like them. */
static void random_hierarchy(struct paper *p, enum tb_policy policy, uint32_t n_tiers)
{
    paper_init(p, policy, n_tiers);
    p->tiers.pfs = random_figures();
    p->h.pfs_queue = random_queue();
    for (uint32_t t = 0; t < n_tiers; t++) {
        p->tiers.tier[t].figures = random_figures();
        p->h.tier[t].queue = random_queue();
        p->h.tier[t].room = (uint64_t)((below(3) ? below(12) : 0) + below(4)) * UNIT;
        p->h.tier[t].dirty = below(2) ? 32 * UNIT : below(8) * UNIT;
    }
}

static double write_seconds(const struct tb_tier_figures *f, double queue, uint64_t bytes)
{
    return queue + f->latency + (double)bytes / f->bandwidth;
}

static double tier_seconds(const struct paper *p, uint32_t t, uint64_t bytes)
{
    return write_seconds(&p->tiers.tier[t].figures, p->h.tier[t].queue, bytes);
}

static double pfs_seconds(const struct paper *p, uint64_t bytes)
{
    return bytes ? write_seconds(&p->tiers.pfs, p->h.pfs_queue, bytes) : 0;
}

/* max-bandwidth */

static double flush_seconds(const struct paper *p, uint32_t t, uint64_t bytes)
{
    const struct tb_tier_figures *from = &p->tiers.tier[t].figures, *to = &p->tiers.pfs;
    double a_run = from->read_latency + MIB / from->read_bandwidth + to->latency + MIB / to->bandwidth;
    return p->h.pfs_queue + a_run * (double)bytes / MIB;
}

/* One way down: at tier t a bit of `split` says to fill it; the rest ends at tier `end` (n: the PFS), by a flush or not. */
static double way_seconds(const struct paper *p, const struct tb_placed_write *r, uint32_t split, uint32_t end, bool flush)
{
    uint32_t n = p->tiers.n;
    uint64_t left = r->bytes;
    double time = 0;
    for (uint32_t t = 0; t < n; t++) {
        uint64_t room = p->h.tier[t].room;
        if (left <= room) /* if it fits, it is placed */
            return end == t && !flush ? time + tier_seconds(p, t, left) : INFINITY;
        if (end == t) {
            bool can = flush && r->may_flush && left <= 32 * UNIT && left - room <= p->h.tier[t].dirty;
            return can ? time + flush_seconds(p, t, left - room) + tier_seconds(p, t, left) : INFINITY;
        }
        if (split & 1u << t) {
            if (!room)
                return INFINITY;
            time += tier_seconds(p, t, room);
            left -= room;
        }
    }
    return flush ? INFINITY : time + pfs_seconds(p, left);
}

static double best_way(const struct paper *p, const struct tb_placed_write *r, bool flush)
{
    uint32_t n = p->tiers.n;
    double best = INFINITY;
    for (uint32_t end = 0; end <= n; end++)
        for (uint32_t split = 0; split < 1u << n; split++)
            best = fmin(best, way_seconds(p, r, split, end, flush));
    return best;
}

static double placed_seconds(const struct paper *p, const struct tb_placed_write *r, const struct tb_placement *placed)
{
    uint64_t left = r->bytes;
    double time = 0;
    for (uint32_t i = 0; i < placed->n; i++) {
        assert_true(placed->part[i].bytes <= p->h.tier[placed->part[i].tier].room);
        time += tier_seconds(p, placed->part[i].tier, placed->part[i].bytes);
        left -= placed->part[i].bytes;
    }
    return time + pfs_seconds(p, left);
}

static void max_bandwidth_finds_the_best_way(void **state)
{
    (void)state;
    uint32_t flushed = 0, split = 0, spilled = 0;
    for (int i = 0; i < 20000; i++) {
        struct paper p;
        struct tb_placement placed;
        random_hierarchy(&p, TB_POLICY_MAX_BANDWIDTH, 1 + below(5));
        struct tb_placed_write r = a_write(below(100) * 512, 512 + below(16 * UNIT));
        r.may_flush = below(2);
        double plain = best_way(&p, &r, false), flush = best_way(&p, &r, true);
        place(&p, &r, &placed);
        if (fabs(plain - flush) > 1e-9)
            assert_int_equal(placed.flush_first > 0, flush < plain);
        if (placed.flush_first)
            flushed++;
        else if (fabs(placed_seconds(&p, &r, &placed) - plain) > 1e-9 * plain)
            fail_msg("hierarchy %d: %g s, there is a way of %g s", i, placed_seconds(&p, &r, &placed), plain);
        split += placed.n > 1;
        spilled += !placed.n && !placed.flush_first;
    }
    assert_true(flushed > 100 && split > 100 && spilled > 100); /* each way is the best for some */
}

/* minimize-io-time */

static double lane_seconds(const struct paper *p, uint32_t t, uint64_t units)
{
    const struct tb_tier_figures *f = &p->tiers.tier[t].figures;
    double busy = f->latency / f->channels + UNIT / f->bandwidth;
    return p->h.tier[t].queue + f->latency - f->latency / f->channels + busy * (double)units;
}

/* The slowest tier's time in the best of all divisions of `units` over tier t and the slower ones. */
static double best_division(const struct paper *p, uint32_t t, uint64_t units)
{
    uint64_t room = t < p->tiers.n ? p->h.tier[t].room / UNIT : 0;
    double best = INFINITY;
    if (t == p->tiers.n)
        return units ? INFINITY : 0;
    for (uint64_t here = 0; here <= units && here <= room; here++)
        best = fmin(best, fmax(here ? lane_seconds(p, t, here) : 0, best_division(p, t + 1, units - here)));
    return best;
}

static bool is_free_and_useful(const struct paper *p, uint32_t t)
{
    double all = 0, slower = 0;
    for (uint32_t i = 0; i < p->tiers.n; i++)
        if (p->h.tier[i].room) {
            double bandwidth = p->tiers.tier[i].figures.bandwidth;
            all += bandwidth;
            slower += bandwidth <= p->tiers.tier[t].figures.bandwidth ? bandwidth : 0;
        }
    return p->h.tier[t].room && p->h.tier[t].queue == 0 && slower >= all / 32;
}

static double best_for_one_unit(const struct paper *p)
{
    double best = INFINITY, best_free = INFINITY;
    for (uint32_t t = 0; t < p->tiers.n; t++) {
        if (p->h.tier[t].room)
            best = fmin(best, lane_seconds(p, t, 1));
        if (is_free_and_useful(p, t))
            best_free = fmin(best_free, lane_seconds(p, t, 1));
    }
    return best_free < INFINITY ? best_free : best;
}

static uint64_t units_of(uint64_t from, uint64_t to)
{
    return (to + UNIT - 1) / UNIT - from / UNIT;
}

static void minimize_io_time_finds_the_best_division(void **state)
{
    (void)state;
    for (int i = 0; i < 20000; i++) {
        struct paper p;
        struct tb_placement placed;
        random_hierarchy(&p, TB_POLICY_MINIMIZE_IO_TIME, 1 + below(4));
        struct tb_placed_write r = a_write(below(3) ? below(8) * UNIT : below(4 * UNIT), 1 + below(12 * UNIT));
        uint64_t at = r.offset, end = r.offset + r.bytes, units = units_of(at, end), room = 0;
        double slowest = 0;
        for (uint32_t t = 0; t < p.tiers.n; t++)
            room += p.h.tier[t].room / UNIT;
        place(&p, &r, &placed);
        for (uint32_t k = 0; k < placed.n; k++) {
            assert_true(at == r.offset || at % UNIT == 0);
            uint64_t to = at + placed.part[k].bytes, given = units_of(at, to);
            assert_true(given <= p.h.tier[placed.part[k].tier].room / UNIT);
            slowest = fmax(slowest, lane_seconds(&p, placed.part[k].tier, given));
            at = to;
        }
        assert_true(room >= units ? at == end : units_of(r.offset, at) == room || at == r.offset);
        double best = units == 1 ? (room ? best_for_one_unit(&p) : 0) : best_division(&p, 0, units < room ? units : room);
        if (fabs(slowest - best) > 1e-7)
            fail_msg("hierarchy %d: the slowest takes %g s, there is a division that takes %g s", i, slowest, best);
    }
}

/* Writers of one machine, each with the queues that the others make. */
struct burst {
    const struct paper *p;
    const struct tb_device *device; /* of each tier */
    struct tb_device_clock clock[TB_MAX_TIERS];
    _Atomic uint64_t until[TB_MAX_TIERS];
    uint64_t bytes, write; /* of each writer */
};

static void place_as_one_of_many(struct burst *b, const struct tb_placed_write *w, struct tb_placement *placed)
{
    struct paper p = *b->p;
    uint64_t now = tb_model_now();
    for (uint32_t t = 0; t < p.tiers.n; t++)
        p.h.tier[t].queue = fmax(tb_queue_seconds(b->until, t, now), tb_model_queue(&b->clock[t], now));
    p.h.tiers = &p.tiers;
    place(&p, w, placed);
    for (uint32_t i = 0; i < placed->n; i++)
        tb_queue_reserve(b->until, placed->part[i].tier, now, placed->part[i].seconds);
}

static void write_burst(int actor, void *arg)
{
    struct burst *b = arg;
    (void)actor;
    for (uint64_t done = 0; done < b->bytes; done += b->write) {
        struct tb_placement placed;
        tb_model_defer_begin();
        tb_model_together_begin();
        for (uint64_t at = 0; at < b->write; at += MIB) {
            struct tb_placed_write w = a_write(done + at, b->write < MIB ? b->write : MIB);
            place_as_one_of_many(b, &w, &placed);
            for (uint32_t i = 0; i < placed.n; i++)
                tb_model_charge(&b->device[placed.part[i].tier], &b->clock[placed.part[i].tier], TB_CHARGE_WRITE, placed.part[i].bytes);
        }
        tb_model_together_end();
        tb_model_defer_end();
        tb_model_settle(false);
    }
    tb_model_settle(true);
}

/* Seconds of a burst on tiers of 400, 200 and 100 MiB/s in simulated time, over what all of them together need. */
static double burst_ratio(int writers, uint64_t buffer, uint64_t write)
{
    struct paper p;
    struct tb_device device[3];
    struct burst b = {.p = &p, .device = device, .bytes = 32 * MIB, .write = write};
    paper_init(&p, TB_POLICY_MINIMIZE_IO_TIME, 3);
    p.tiers.grain = buffer;
    for (uint32_t t = 0; t < 3; t++) {
        device[t] = (struct tb_device){.write_bandwidth = (400 >> t) * MIB, .channels = 1};
        p.tiers.tier[t].figures = (struct tb_tier_figures){.bandwidth = (400 >> t) * MIB, .channels = 1};
        p.h.tier[t].room = buffer << 20;
    }
    uint64_t ns = sim_run(writers, write_burst, &b, 60000);
    tb_model_set_time(NULL);
    return (double)writers * 32 / 700 / ((double)ns * 1e-9);
}

static void a_burst_keeps_all_tiers_at_work(void **state)
{
    (void)state;
    (void)sim_io;
    tb_model_start();
    assert_true(burst_ratio(3, UNIT, MIB) > 0.95);
    assert_true(burst_ratio(3, MIB, 16 * MIB) > 0.95);
    assert_true(burst_ratio(3, 4 * KIB, 256 * KIB) > 0.95);
    assert_true(burst_ratio(6, MIB, MIB) > 0.9);
    assert_true(burst_ratio(1, UNIT, MIB) > 0.85); /* one writer alone: the last units don't fill all tiers */
    assert_true(burst_ratio(1, MIB, MIB) > 0.55);  /* what can't be divided takes the fastest, 4/7 of all */
    assert_true(burst_ratio(2, MIB, MIB) > 0.7);   /* and the two fastest */
}

/* random and round-robin */

static void random_is_uniform_among_tiers_with_room(void **state)
{
    (void)state;
    uint32_t count[4] = {0}, split = 0, portions[17] = {0};
    struct paper p, q;
    struct tb_placement placed, again;
    paper_init(&p, TB_POLICY_RANDOM, 4);
    paper_init(&q, TB_POLICY_RANDOM, 4);
    p.tiers.grain = q.tiers.grain = 4 * KIB;
    for (uint32_t t = 0; t < 4; t++)
        p.h.tier[t].room = q.h.tier[t].room = t == 2 ? 0 : 128 * KIB;
    const struct tb_placed_write small = a_write(0, 64 * KIB), large = a_write(0, MIB);
    for (int i = 0; i < 30000; i++) {
        place(&p, &small, &placed);
        place(&q, &small, &again);
        assert_memory_equal(&placed, &again, sizeof(placed)); /* the same in every instance */
        assert_int_equal(placed.n, 1);
        count[placed.part[0].tier]++;
    }
    for (uint32_t t = 0; t < 4; t++)
        assert_in_range(count[t], t == 2 ? 0 : 9500, t == 2 ? 0 : 10500); /* six deviations are 490 */
    for (uint32_t t = 0; t < 4; t++)
        p.h.tier[t].room = t == 2 ? 0 : 16 * MIB;
    for (int i = 0; i < 30000; i++) {
        uint64_t bytes = 0, smallest = MIB;
        place(&p, &large, &placed);
        for (uint32_t k = 0; k < placed.n; k++) {
            bytes += placed.part[k].bytes;
            smallest = placed.part[k].bytes < smallest ? placed.part[k].bytes : smallest;
        }
        assert_int_equal(bytes, MIB);
        assert_int_equal(smallest % (64 * KIB), 0);
        portions[MIB / smallest]++; /* neighbours in one tier count as one: it is a bound */
        split += placed.n > 1;
    }
    assert_in_range(split, 12500, 15000); /* half of them, less those with all portions in one tier (7 %) */
    assert_true(portions[2] > 2000 && portions[4] > 1000 && portions[8] > 1000 && portions[16] > 1000);
}

static void round_robin_takes_turns(void **state)
{
    (void)state;
    struct paper p;
    struct tb_placement placed;
    static const uint32_t expected[] = {0, 1, 3, 3, 0, 1, 3, 3};
    paper_init(&p, TB_POLICY_ROUND_ROBIN, 4);
    for (uint32_t t = 0; t < 4; t++)
        p.h.tier[t].room = t == 2 ? 0 : 2 * UNIT;
    const struct tb_placed_write one = a_write(0, UNIT), five = a_write(0, 5 * UNIT);
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        place(&p, &one, &placed);
        assert_int_equal(placed.n, 1);
        assert_int_equal(placed.part[0].tier, expected[i]);
    }
    place(&p, &five, &placed); /* no tier holds it */
    assert_int_equal(placed.n, 3);
    assert_int_equal(placed.part[0].tier, 0);
    assert_int_equal(placed.part[2].bytes, UNIT);
}

/* hot-data */

/* Files as the engine keeps them: what the policy remembers of each. */
struct files {
    uint32_t memory[4], epoch;
};

static struct tb_placed_file the_file(const struct paper *p, const struct files *files, uint32_t f)
{
    uint32_t hottest = p->state.hottest;
    return (struct tb_placed_file){
        .number = f, .memory = files->memory[f], .hottest_memory = files->memory[hottest], .epoch = files->epoch};
}

static void use(struct paper *p, struct files *files, uint32_t f, uint32_t times)
{
    for (uint32_t i = 0; i < times; i++) {
        struct tb_placed_file file = the_file(p, files, f);
        files->memory[f] = p->policy->note_access(&p->state, &file);
    }
}

static void place_of_file(struct paper *p, const struct files *files, uint32_t f, uint64_t bytes, struct tb_placement *placed)
{
    struct tb_placed_write w = a_write(0, bytes);
    w.file = the_file(p, files, f);
    place(p, &w, placed);
}

static void hotter_files_lie_higher(void **state)
{
    (void)state;
    struct paper p;
    struct files files = {.epoch = 0};
    struct tb_placement placed;
    static const uint32_t accesses[4] = {3, 40, 20, 9};
    paper_init(&p, TB_POLICY_HOT_DATA, 3);
    for (uint32_t t = 0; t < 3; t++)
        p.h.tier[t].room = 8 * UNIT;
    for (uint32_t f = 0; f < 4; f++)
        use(&p, &files, f, accesses[f]);
    static const uint32_t expected[4] = {2, 0, 1, 2}; /* a half of the hottest is one lower, a quarter two */
    for (uint32_t f = 0; f < 4; f++) {
        place_of_file(&p, &files, f, UNIT, &placed);
        assert_int_equal(placed.part[0].tier, expected[f]);
    }
    p.h.tier[1].room = 2 * UNIT;
    place_of_file(&p, &files, 2, 12 * UNIT, &placed); /* overflows down, then up */
    assert_int_equal(placed.n, 3);
    assert_int_equal(placed.part[0].tier, 1);
    assert_int_equal(placed.part[1].tier, 2);
    assert_int_equal(placed.part[2].tier, 0);
    files.epoch += 3; /* what was hot has cooled: 40 -> 5, and file 3 is used again */
    use(&p, &files, 3, 12);
    place_of_file(&p, &files, 3, UNIT, &placed);
    assert_int_equal(placed.part[0].tier, 0);
    place_of_file(&p, &files, 1, UNIT, &placed);
    assert_int_equal(placed.part[0].tier, 1);
}

/* data-locality */

static uint32_t tier_beside(struct paper *p, uint64_t offset, struct tb_neighbour before, struct tb_neighbour after)
{
    struct tb_placement placed;
    struct tb_placed_write w = a_write(offset, 4 * KIB);
    w.before = before;
    w.after = after;
    place(p, &w, &placed);
    return placed.part[0].tier;
}

/* One unit is bytes 64 KiB to 192 KiB of the file; what is next to it is another's. */
static void bytes_of_a_unit_join_its_others(void **state)
{
    (void)state;
    struct paper p;
    static const struct tb_neighbour none = {.tier = TB_NONE};
    const struct tb_unit_range range = {UNIT, 3 * UNIT, 1};
    struct tb_placement placed;
    struct tb_placed_write w = a_write(UNIT, 4 * KIB);
    paper_init(&p, TB_POLICY_DATA_LOCALITY, 3);
    for (uint32_t t = 0; t < 3; t++)
        p.h.tier[t].room = 8 * UNIT;
    uint32_t own = tier_beside(&p, 0, none, none), other = (own + 1) % 3;
    assert_int_equal(tier_beside(&p, 2 * UNIT, (struct tb_neighbour){other, UNIT, 2 * UNIT}, none), other);
    assert_int_equal(tier_beside(&p, UNIT, none, (struct tb_neighbour){other, UNIT + 4 * KIB, 2 * UNIT}), other);
    p.settings.n_unit_files = 1;
    p.settings.unit_files[0] = (struct tb_config_unit_file){.pattern = "*", .first = 0, .n = 1};
    p.tiers.units = &range;
    w.file.memory = p.policy->note_name(&p.settings, "/pfs/a");
    place(&p, &w, &placed);
    own = placed.part[0].tier;
    other = (own + 1) % 3;
    w.offset = UNIT + 4 * KIB;
    w.before = (struct tb_neighbour){other, 0, 2 * UNIT}; /* a large buffer across the unit's start */
    place(&p, &w, &placed);
    assert_int_equal(placed.part[0].tier, own);
    w.offset = 3 * UNIT - 4 * KIB;
    w.bytes = 8 * KIB; /* over the unit's end */
    place(&p, &w, &placed);
    assert_int_equal(placed.bytes, 4 * KIB);
}

/* user-defined */

static void rules_name_tiers_by_name_and_size(void **state)
{
    (void)state;
    struct paper p;
    struct tb_placement placed;
    struct tb_placed_write w = a_write(0, UNIT);
    paper_init(&p, TB_POLICY_USER_DEFINED, 3);
    p.settings.n_rules = 2;
    p.settings.rules[0] = (struct tb_config_rule){.pattern = "*.chk", .at_most = 2 * UNIT, .n_tiers = 1, .tier = {2}};
    p.settings.rules[1] = (struct tb_config_rule){.pattern = "*.chk", .at_most = UINT64_MAX, .n_tiers = 1, .tier = {1}};
    for (uint32_t t = 0; t < 3; t++)
        p.h.tier[t].room = 8 * UNIT;
    w.file.memory = p.policy->note_name(&p.settings, "/pfs/a.chk");
    place(&p, &w, &placed);
    assert_int_equal(placed.part[0].tier, 2);
    w.file.size = 3 * UNIT;
    place(&p, &w, &placed);
    assert_int_equal(placed.part[0].tier, 1);
    w.file.memory = p.policy->note_name(&p.settings, "/pfs/a.log");
    place(&p, &w, &placed);
    assert_int_equal(placed.part[0].tier, 0);
}

/* What a policy asks for */

/* With only what it says it needs, a policy asks for the rest or places; what it does not know is nonsense here. */
static void a_policy_reads_what_it_asks_for(void **state)
{
    (void)state;
    for (enum tb_policy number = 0; number < TB_N_POLICIES; number++)
        for (int i = 0; i < 500; i++) {
            struct paper p;
            struct tb_placement all, asked;
            random_hierarchy(&p, number, 1 + below(5));
            struct tb_placed_write w = a_write(below(100) * 512, 512 + below(4 * UNIT)), seen;
            w.may_flush = true;
            const struct tb_hierarchy whole = p.h;
            const struct tb_policy_state before = {atomic_load(&p.state.placed), atomic_load(&p.state.hottest)};
            place(&p, &w, &all);
            atomic_store(&p.state.placed, before.placed);
            memset(p.h.tier, 0x5a, sizeof(p.h.tier));
            p.h.pfs_queue = NAN;
            p.h.known = 0;
            seen = w;
            seen.before = seen.after = (struct tb_neighbour){0, 0, UINT64_MAX - 1};
            for (unsigned wants = p.policy->needs; wants; wants = asked.wants) {
                assert_true(wants & ~p.h.known);
                p.h.known |= wants;
                for (uint32_t t = 0; t < p.tiers.n; t++) {
                    if (p.h.known & TB_KNOW_ROOMS || (t == 0 && p.h.known & TB_KNOW_TOP))
                        p.h.tier[t].room = whole.tier[t].room;
                    if (p.h.known & TB_KNOW_DIRTY)
                        p.h.tier[t].dirty = whole.tier[t].dirty;
                    if (p.h.known & TB_KNOW_QUEUES)
                        p.h.tier[t].queue = whole.tier[t].queue;
                }
                if (p.h.known & TB_KNOW_QUEUES)
                    p.h.pfs_queue = whole.pfs_queue;
                if (p.h.known & TB_KNOW_BEFORE)
                    seen.before = w.before;
                if (p.h.known & TB_KNOW_AFTER)
                    seen.after = w.after;
                memset(&asked, 0xff, sizeof(asked));
                tb_placement_clear(&asked);
                p.policy->place(&p.h, &seen, &p.state, &asked);
            }
            assert_memory_equal(&all, &asked, sizeof(all));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(max_bandwidth_finds_the_best_way), cmocka_unit_test(minimize_io_time_finds_the_best_division),
        cmocka_unit_test(a_burst_keeps_all_tiers_at_work),  cmocka_unit_test(random_is_uniform_among_tiers_with_room),
        cmocka_unit_test(round_robin_takes_turns),          cmocka_unit_test(hotter_files_lie_higher),
        cmocka_unit_test(bytes_of_a_unit_join_its_others),  cmocka_unit_test(rules_name_tiers_by_name_and_size),
        cmocka_unit_test(a_policy_reads_what_it_asks_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
