/*
 * Placement on paper: hierarchies of tiers, rooms and device clocks without memory
 * behind them.  The policies that judge by predicted time meet random ones and are
 * compared with every other way there is, the others with their rule.
 */
#include "fixture.h"

#include <math.h>

#include "placement/placement.h"
#include "sim.h"

#define KIB 1024u
#define MIB (1024u * 1024u)
#define UNIT (64u * KIB)
#define NOW UINT64_C(5000000000)

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

static uint64_t paper_now(void)
{
    return NOW;
}

static void no_sleep(uint64_t deadline)
{
    (void)deadline;
}

struct paper {
    tb_engine *engine;
    struct tb_header *h;
    struct tb_file file[4];
};

static void paper_init(struct paper *p, enum tb_policy policy, uint32_t n_tiers)
{
    static const struct tb_model_time stopped = {paper_now, no_sleep};
    memset(p, 0, sizeof(*p));
    p->engine = calloc(1, sizeof(*p->engine));
    p->h = p->engine->header = calloc(1, sizeof(*p->h));
    p->engine->region.files = p->file;
    p->h->config.placement.policy = policy;
    p->h->config.n_tiers = n_tiers;
    p->h->chunk = tb_size_of(MIB);
    for (uint32_t t = 0; t < n_tiers; t++) {
        p->h->config.tiers[t].n_slabs = 1;
        p->h->config.tiers[t].medium = t ? TB_MEDIUM_DIRECTORY : TB_MEDIUM_MEMORY;
        p->h->layout.tier_first_slab[t] = t;
        p->h->layout.slab[t] = (struct tb_layout_slab){.tier = t, .n_buffers = 32, .buffer_size = UNIT};
    }
    tb_model_set_time(&stopped);
}

static void paper_free(struct paper *p)
{
    free(p->h);
    free(p->engine);
    tb_model_set_time(NULL);
}

static struct tb_device random_device(void)
{
    struct tb_device d = {.channels = 1 + below(4)};
    d.write_bandwidth = between(20, 2000) * MIB;
    d.read_bandwidth = between(20, 2000) * MIB;
    if (below(2))
        d.write_latency = between(1e-6, 5e-3);
    if (below(2))
        d.read_latency = between(1e-6, 5e-3);
    return d;
}

static uint64_t random_queue(void)
{
    return below(2) ? NOW + below(20000000) : 0;
}

/* Tiers of any speed in any order, some full, some busy, over a PFS like them. */
static void random_hierarchy(struct paper *p, enum tb_policy policy, uint32_t n_tiers)
{
    paper_init(p, policy, n_tiers);
    p->h->config.pfs.modelled = true;
    p->h->config.pfs.model = random_device();
    p->h->pfs_clock.transfer_free_at = random_queue();
    for (uint32_t t = 0; t < n_tiers; t++) {
        p->h->config.tiers[t].modelled = true;
        p->h->config.tiers[t].model = random_device();
        p->h->tier_clock[t].transfer_free_at = random_queue(); /* what the model knows */
        p->h->placed_until[t] = random_queue();                /* what others were given */
        p->h->slab[t].n_free = below(3) ? below(12) : 0;
        p->h->slab[t].n_clean = below(4);
        p->h->tier[t].dirty = below(2) ? 32 * UNIT : below(8) * UNIT;
    }
}

static double seconds_from_now(uint64_t until)
{
    return until > NOW ? (double)(until - NOW) * 1e-9 : 0;
}

static double tier_queue(const struct paper *p, uint32_t t)
{
    return fmax(seconds_from_now(p->h->tier_clock[t].transfer_free_at), seconds_from_now(p->h->placed_until[t]));
}

static double pfs_queue(const struct paper *p)
{
    return seconds_from_now(p->h->pfs_clock.transfer_free_at);
}

static double write_seconds(const struct tb_device *d, double queue, uint64_t bytes)
{
    return queue + d->write_latency + (double)bytes / d->write_bandwidth;
}

static double tier_seconds(const struct paper *p, uint32_t t, uint64_t bytes)
{
    return write_seconds(&p->h->config.tiers[t].model, tier_queue(p, t), bytes);
}

static double pfs_seconds(const struct paper *p, uint64_t bytes)
{
    return bytes ? write_seconds(&p->h->config.pfs.model, pfs_queue(p), bytes) : 0;
}

static uint64_t paper_room(const struct paper *p, uint32_t t)
{
    return (uint64_t)(p->h->slab[t].n_free + p->h->slab[t].n_clean) * UNIT;
}

/* Place, and leave the hierarchy as it was. */
static void place_unnoticed(struct paper *p, const struct tb_place_request *r, struct tb_placement *out)
{
    uint64_t until[TB_MAX_TIERS];
    for (uint32_t t = 0; t < TB_MAX_TIERS; t++)
        until[t] = p->h->placed_until[t];
    tb_place(p->engine, r, out);
    for (uint32_t t = 0; t < TB_MAX_TIERS; t++)
        p->h->placed_until[t] = until[t];
}

/* max-bandwidth */

static double flush_seconds(const struct paper *p, uint32_t t, uint64_t bytes)
{
    const struct tb_device *from = &p->h->config.tiers[t].model, *to = &p->h->config.pfs.model;
    double a_run = from->read_latency + MIB / from->read_bandwidth + to->write_latency + MIB / to->write_bandwidth;
    return pfs_queue(p) + a_run * (double)bytes / MIB;
}

/* One way down: at tier t a bit of `split` says to fill it; the rest ends at tier `end` (n: the PFS), by a flush or not. */
static double way_seconds(const struct paper *p, const struct tb_place_request *r, uint32_t split, uint32_t end, bool flush)
{
    uint32_t n = p->h->config.n_tiers;
    uint64_t left = r->bytes;
    double time = 0;
    for (uint32_t t = 0; t < n; t++) {
        uint64_t room = paper_room(p, t);
        if (left <= room) /* if it fits, it is placed */
            return end == t && !flush ? time + tier_seconds(p, t, left) : INFINITY;
        if (end == t) {
            bool can = flush && r->may_flush && left <= 32 * UNIT && left - room <= p->h->tier[t].dirty;
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

static double best_way(const struct paper *p, const struct tb_place_request *r, bool flush)
{
    uint32_t n = p->h->config.n_tiers;
    double best = INFINITY;
    for (uint32_t end = 0; end <= n; end++)
        for (uint32_t split = 0; split < 1u << n; split++)
            best = fmin(best, way_seconds(p, r, split, end, flush));
    return best;
}

static double placed_seconds(const struct paper *p, const struct tb_place_request *r, const struct tb_placement *placed)
{
    uint64_t left = r->bytes;
    double time = 0;
    for (uint32_t i = 0; i < placed->n; i++) {
        assert_true(placed->part[i].bytes <= paper_room(p, placed->part[i].tier));
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
        struct tb_place_request r = {0, below(100) * 512, 512 + below(16 * UNIT), below(2)};
        double plain = best_way(&p, &r, false), flush = best_way(&p, &r, true);
        place_unnoticed(&p, &r, &placed);
        if (fabs(plain - flush) > 1e-9)
            assert_int_equal(placed.flush_first > 0, flush < plain);
        if (placed.flush_first)
            flushed++;
        else if (fabs(placed_seconds(&p, &r, &placed) - plain) > 1e-9 * plain)
            fail_msg("hierarchy %d: %g s, there is a way of %g s", i, placed_seconds(&p, &r, &placed), plain);
        split += placed.n > 1;
        spilled += !placed.n && !placed.flush_first;
        paper_free(&p);
    }
    assert_true(flushed > 100 && split > 100 && spilled > 100); /* each way is the best for some */
}

/* minimize-io-time */

static double lane_seconds(const struct paper *p, uint32_t t, uint64_t units)
{
    const struct tb_device *d = &p->h->config.tiers[t].model;
    double busy = d->write_latency / d->channels + UNIT / d->write_bandwidth;
    return tier_queue(p, t) + d->write_latency - d->write_latency / d->channels + busy * (double)units;
}

/* The slowest tier's time in the best of all divisions of `units` over tier t and those behind it. */
static double best_division(const struct paper *p, uint32_t t, uint64_t units)
{
    uint64_t room = t < p->h->config.n_tiers ? paper_room(p, t) / UNIT : 0;
    double best = INFINITY;
    if (t == p->h->config.n_tiers)
        return units ? INFINITY : 0;
    for (uint64_t here = 0; here <= units && here <= room; here++)
        best = fmin(best, fmax(here ? lane_seconds(p, t, here) : 0, best_division(p, t + 1, units - here)));
    return best;
}

static bool is_free_and_useful(const struct paper *p, uint32_t t)
{
    double all = 0, slower = 0;
    for (uint32_t i = 0; i < p->h->config.n_tiers; i++)
        if (paper_room(p, i)) {
            double bandwidth = p->h->config.tiers[i].model.write_bandwidth;
            all += bandwidth;
            slower += bandwidth <= p->h->config.tiers[t].model.write_bandwidth ? bandwidth : 0;
        }
    return paper_room(p, t) && tier_queue(p, t) == 0 && slower >= all / 32;
}

static double best_for_one_unit(const struct paper *p)
{
    double best = INFINITY, best_free = INFINITY;
    for (uint32_t t = 0; t < p->h->config.n_tiers; t++) {
        if (paper_room(p, t))
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
        struct tb_place_request r = {0, below(3) ? below(8) * UNIT : below(4 * UNIT), 1 + below(12 * UNIT), false};
        uint64_t at = r.offset, end = r.offset + r.bytes, units = units_of(at, end), room = 0;
        double slowest = 0;
        for (uint32_t t = 0; t < p.h->config.n_tiers; t++)
            room += paper_room(&p, t) / UNIT;
        place_unnoticed(&p, &r, &placed);
        for (uint32_t k = 0; k < placed.n; k++) {
            assert_true(at == r.offset || at % UNIT == 0);
            uint64_t to = at + placed.part[k].bytes, given = units_of(at, to);
            assert_true(given <= paper_room(&p, placed.part[k].tier) / UNIT);
            slowest = fmax(slowest, lane_seconds(&p, placed.part[k].tier, given));
            at = to;
        }
        assert_true(room >= units ? at == end : units_of(r.offset, at) == room || at == r.offset);
        double best = units == 1 ? (room ? best_for_one_unit(&p) : 0) : best_division(&p, 0, units < room ? units : room);
        if (fabs(slowest - best) > 1e-7)
            fail_msg("hierarchy %d: the slowest takes %g s, there is a division that takes %g s", i, slowest, best);
        paper_free(&p);
    }
}

struct burst {
    struct paper *p;
    uint64_t bytes, write; /* of each writer */
};

static void write_burst(int actor, void *arg)
{
    struct burst *b = arg;
    struct tb_header *h = b->p->h;
    (void)actor;
    for (uint64_t done = 0; done < b->bytes; done += b->write) {
        struct tb_placement placed;
        tb_model_defer_begin();
        tb_model_together_begin();
        for (uint64_t at = 0; at < b->write; at += MIB) {
            tb_place(b->p->engine, &(struct tb_place_request){0, done + at, b->write < MIB ? b->write : MIB, false}, &placed);
            for (uint32_t i = 0; i < placed.n; i++)
                tb_model_charge(&h->config.tiers[placed.part[i].tier].model, &h->tier_clock[placed.part[i].tier],
                                TB_CHARGE_WRITE, placed.part[i].bytes);
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
    struct burst b = {&p, 32 * MIB, write};
    paper_init(&p, TB_POLICY_MINIMIZE_IO_TIME, 3);
    for (uint32_t t = 0; t < 3; t++) {
        p.h->config.tiers[t].modelled = true;
        p.h->config.tiers[t].model = (struct tb_device){.write_bandwidth = (400 >> t) * MIB, .channels = 1};
        p.h->layout.slab[t].buffer_size = buffer;
        p.h->slab[t].n_free = 1u << 20;
    }
    uint64_t ns = sim_run(writers, write_burst, &b, 60000);
    paper_free(&p);
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
    for (uint32_t t = 0; t < 4; t++)
        p.h->slab[t].n_free = q.h->slab[t].n_free = t == 2 ? 0 : 32;
    for (uint32_t t = 0; t < 4; t++)
        p.h->layout.slab[t].buffer_size = q.h->layout.slab[t].buffer_size = t == 2 ? UNIT : 4 * KIB;
    p.h->layout.slab[2].n_buffers = q.h->layout.slab[2].n_buffers = 0; /* a slab without buffers sets no grain */
    for (int i = 0; i < 30000; i++) {
        tb_place(p.engine, &(struct tb_place_request){0, 0, 64 * KIB, false}, &placed);
        tb_place(q.engine, &(struct tb_place_request){0, 0, 64 * KIB, false}, &again);
        assert_memory_equal(&placed, &again, sizeof(placed)); /* the same in every instance */
        assert_int_equal(placed.n, 1);
        count[placed.part[0].tier]++;
    }
    for (uint32_t t = 0; t < 4; t++)
        assert_in_range(count[t], t == 2 ? 0 : 9500, t == 2 ? 0 : 10500); /* six deviations are 490 */
    for (uint32_t t = 0; t < 4; t++)
        p.h->slab[t].n_free = t == 2 ? 0 : 4096;
    for (int i = 0; i < 30000; i++) {
        uint64_t bytes = 0, smallest = MIB;
        tb_place(p.engine, &(struct tb_place_request){0, 0, MIB, false}, &placed);
        for (uint32_t k = 0; k < placed.n; k++) {
            bytes += placed.part[k].bytes;
            smallest = placed.part[k].bytes < smallest ? placed.part[k].bytes : smallest;
        }
        assert_int_equal(bytes, MIB);
        assert_int_equal(smallest % (64 * KIB), 0);
        portions[MIB / smallest]++; /* neighbours in one tier count as one: it is a bound */
        split += placed.n > 1;
    }
    assert_in_range(split, 12500, 15000); /* half of them, less those whose portions all met in one tier (7 %) */
    assert_true(portions[2] > 2000 && portions[4] > 1000 && portions[8] > 1000 && portions[16] > 1000);
    paper_free(&p);
    paper_free(&q);
}

static void round_robin_takes_turns(void **state)
{
    (void)state;
    struct paper p;
    struct tb_placement placed;
    static const uint32_t expected[] = {0, 1, 3, 3, 0, 1, 3, 3};
    paper_init(&p, TB_POLICY_ROUND_ROBIN, 4);
    for (uint32_t t = 0; t < 4; t++)
        p.h->slab[t].n_free = t == 2 ? 0 : 2;
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        tb_place(p.engine, &(struct tb_place_request){0, 0, UNIT, false}, &placed);
        assert_int_equal(placed.n, 1);
        assert_int_equal(placed.part[0].tier, expected[i]);
    }
    tb_place(p.engine, &(struct tb_place_request){0, 0, 5 * UNIT, false}, &placed); /* no tier holds it */
    assert_int_equal(placed.n, 3);
    assert_int_equal(placed.part[0].tier, 0);
    assert_int_equal(placed.part[2].bytes, UNIT);
    paper_free(&p);
}

/* hot-data */

static void hotter_files_lie_higher(void **state)
{
    (void)state;
    struct paper p;
    struct tb_placement placed;
    static const uint32_t accesses[4] = {3, 40, 20, 9};
    paper_init(&p, TB_POLICY_HOT_DATA, 3);
    for (uint32_t t = 0; t < 3; t++)
        p.h->slab[t].n_free = 8;
    for (uint32_t f = 0; f < 4; f++)
        for (uint32_t i = 0; i < accesses[f]; i++)
            tb_place_note_access(p.engine, f);
    static const uint32_t expected[4] = {2, 0, 1, 2}; /* a half of the hottest lies one lower, a quarter two */
    for (uint32_t f = 0; f < 4; f++) {
        tb_place(p.engine, &(struct tb_place_request){f, 0, UNIT, false}, &placed);
        assert_int_equal(placed.part[0].tier, expected[f]);
    }
    p.h->slab[1].n_free = 2;
    tb_place(p.engine, &(struct tb_place_request){2, 0, 12 * UNIT, false}, &placed); /* overflows down, then up */
    assert_int_equal(placed.n, 3);
    assert_int_equal(placed.part[0].tier, 1);
    assert_int_equal(placed.part[1].tier, 2);
    assert_int_equal(placed.part[2].tier, 0);
    p.h->heat_epoch += 3; /* what was hot has cooled: 40 -> 5, and file 3 is used again */
    for (uint32_t i = 0; i < 12; i++)
        tb_place_note_access(p.engine, 3);
    tb_place(p.engine, &(struct tb_place_request){3, 0, UNIT, false}, &placed);
    assert_int_equal(placed.part[0].tier, 0);
    tb_place(p.engine, &(struct tb_place_request){1, 0, UNIT, false}, &placed);
    assert_int_equal(placed.part[0].tier, 1);
    paper_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(max_bandwidth_finds_the_best_way),
        cmocka_unit_test(minimize_io_time_finds_the_best_division),
        cmocka_unit_test(a_burst_keeps_all_tiers_at_work),
        cmocka_unit_test(random_is_uniform_among_tiers_with_room),
        cmocka_unit_test(round_robin_takes_turns),
        cmocka_unit_test(hotter_files_lie_higher),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
