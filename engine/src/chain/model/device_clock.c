/*
 * Device time: how it is reserved, and how a thread pays for it.
 *
 * Each thread has a modelled time of its own: real time plus its lead. An operation moves
 * the modelled time on by what the device takes. The lead is then the thread's debt, and
 * sleeping pays it. Three things follow:
 *   - debt is a duration, so what a program computes between two operations
 *     comes on top of the device's time and does not silently pay for it;
 *   - inside one section (an operation, or a defer) real time counts: it lasts
 *     as long as the device or the machine needs, the longer of the two;
 *   - a sleep that overshoots leaves a small negative lead, from which the next
 *     operation starts, so that rates don't drift low. Idle time leaves none.
 *
 * A device serves at once what its channels allow: it is busy for the latency divided by
 * them, while a thread alone sees the whole latency (a thread that queued sees the queue
 * instead). Devices take requests in real order: a thread ahead of real time by its debt
 * must not push the device's clock ahead for others. It does push it by the share of the
 * debt that the device was busy, in one piece, where a real device would have interleaved
 * the others' requests: that much of a queue is not waited for.
 *
 * Limit: the debts of a process (at most a threshold per thread) end with it if it exits
 * without close or sync.
 */
#include "chain/model/device_clock.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <time.h>

#include "base/clock.h"

#define DEBT_THRESHOLD_NS INT64_C(1000000)
/* What others may have reserved at once before they sleep: their thresholds and the longest usual oversleep. */
#define BURST_NS 2e6
/* A longer oversleep (a machine with too few cores) is lost: 5 % of 200 ms is 10 ms. */
#define OVERSLEEP_MAX_NS UINT64_C(5000000)

static _Thread_local struct {
    int64_t lead_ns;      /* modelled minus real time, when the section began or now */
    uint64_t model_ns;    /* modelled time inside the section; 0 where none is open */
    uint64_t together_ns; /* when operations made together began; 0 where each begins at the end of the one before */
    unsigned depth;       /* of nested sections */
    bool pay_all;         /* a sync or close asked to be paid for inside a section */
} self;

/* False in processes where nothing is modelled, which then never read the clock. */
static _Atomic bool in_use;

/* A signal wakes the sleep early: it is continued to the same moment. */
static void real_sleep_until_ns(uint64_t deadline)
{
    struct timespec until = {
        .tv_sec = (time_t)(deadline / UINT64_C(1000000000)),
        .tv_nsec = (long)(deadline % UINT64_C(1000000000)),
    };
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}

static const struct tb_model_time real_time = {tb_now_ns, real_sleep_until_ns};
static const struct tb_model_time *timing = &real_time;

/* For tests: simulated time, so that rates are exact and nothing sleeps. */
void tb_model_set_time(const struct tb_model_time *time)
{
    timing = time != NULL ? time : &real_time;
}

/* In the child after fork: it has done nothing yet, its parent pays. */
static void forget_debt(void)
{
    self.lead_ns = 0;
    self.pay_all = false;
}

static void forget_debt_at_fork(void)
{
    pthread_atfork(NULL, NULL, forget_debt);
}

void tb_model_start(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, forget_debt_at_fork);
    atomic_store_explicit(&in_use, true, memory_order_relaxed);
}

bool tb_model_has_started(void)
{
    return atomic_load_explicit(&in_use, memory_order_relaxed);
}

/* Rounded to whole nanoseconds, so errors of many small transfers even out. */
static uint64_t to_ns(double seconds)
{
    return (uint64_t)llround(seconds * 1e9);
}

/* Times only move forward, because others have reserved after the later one: it counts. */
static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* What one operation costs in nanoseconds. */
struct cost {
    uint64_t busy;  /* during which the device serves no other request */
    uint64_t whole; /* from start to end as its caller sees it, without queue */
};

/* A bandwidth of 0 is not modelled: bytes then cost nothing. */
static struct cost transfer_cost(double latency, double bandwidth, uint32_t channels, size_t bytes)
{
    double transfer = bandwidth > 0 ? (double)bytes / bandwidth : 0;
    double share = latency / (channels > 1 ? channels : 1);
    return (struct cost){to_ns(share + transfer), to_ns(latency + transfer)};
}

/* Channels do not help: a sync or a metadata operation has the device for itself. */
static struct cost exclusive_cost(double seconds)
{
    return (struct cost){to_ns(seconds), to_ns(seconds)};
}

static struct cost cost_of(const struct tb_device *device, enum tb_charge kind, size_t bytes)
{
    switch (kind) {
    case TB_CHARGE_READ: return transfer_cost(device->read_latency, device->read_bandwidth, device->channels, bytes);
    case TB_CHARGE_WRITE: return transfer_cost(device->write_latency, device->write_bandwidth, device->channels, bytes);
    case TB_CHARGE_SYNC: return exclusive_cost(device->sync_time);
    case TB_CHARGE_OPEN: return exclusive_cost(device->open_time);
    case TB_CHARGE_METADATA: return exclusive_cost(device->metadata_time);
    }
    assert(!"a charge of no kind");
    return (struct cost){0, 0};
}

/* Metadata and transfers queue apart: servers of a PFS are not its disks. */
static _Atomic uint64_t *free_at(struct tb_device_clock *clock, enum tb_charge kind)
{
    bool metadata = kind == TB_CHARGE_OPEN || kind == TB_CHARGE_METADATA;
    return metadata ? &clock->metadata_free_at : &clock->transfer_free_at;
}

/* Queue after what is reserved; returns the end of the reservation. */
static uint64_t reserve(_Atomic uint64_t *device_free_at, uint64_t arrival, uint64_t busy)
{
    uint64_t reserved = atomic_load(device_free_at), end;
    do {
        end = later(reserved, arrival) + busy;
    } while (!atomic_compare_exchange_weak(device_free_at, &reserved, end));
    return end;
}

/*
 * The part of a queue that is only the others' debt.  None where the device is
 * busy all the time that a caller waits: its queue is then a real one.
 */
static uint64_t burst(struct cost cost)
{
    assert(cost.busy <= cost.whole && cost.whole > 0);
    return (uint64_t)(BURST_NS * (1 - (double)cost.busy / (double)cost.whole));
}

/* From here on the thread's time is the modelled one, until section_close. */
static void section_open(void)
{
    if (self.model_ns == 0)
        self.model_ns = timing->now_ns() + (uint64_t)self.lead_ns;
}

/* The section took as long as the machine or the device needed, the longer of the two. */
static void section_close(void)
{
    if (self.model_ns == 0)
        return;
    uint64_t now = timing->now_ns();
    self.lead_ns = (int64_t)(later(self.model_ns, now + (uint64_t)self.lead_ns) - now);
    self.model_ns = 0;
}

/* Sections nest; only the outermost one reads the clock. */
void tb_model_defer_begin(void)
{
    if (self.depth++ == 0 && atomic_load_explicit(&in_use, memory_order_relaxed))
        section_open();
}

void tb_model_defer_end(void)
{
    assert(self.depth > 0);
    if (--self.depth == 0)
        section_close();
}

/* Reserves the device's time and moves this thread's modelled time to the end of it. Nothing sleeps here. */
void tb_model_charge(const struct tb_device *device, struct tb_device_clock *clock, enum tb_charge kind, size_t bytes)
{
    struct cost cost = cost_of(device, kind, bytes);
    assert(clock != NULL);
    if (cost.whole == 0)
        return; /* not modelled: the clock stays as it is, and nothing is paid */
    assert(atomic_load_explicit(&in_use, memory_order_relaxed));
    tb_model_defer_begin();
    section_open(); /* where the process began to model inside this section */
    uint64_t now = timing->now_ns(), start = self.together_ns ? self.together_ns : self.model_ns;
    uint64_t arrival = start < now ? start : now;
    uint64_t served = reserve(free_at(clock, kind), arrival, cost.busy);
    self.model_ns = later(self.model_ns, later(served - burst(cost), start + cost.whole));
    tb_model_defer_end();
}

/* The present of this thread: real time plus its debt. Placement measures queues from it. */
uint64_t tb_model_now(void)
{
    uint64_t inside = self.together_ns ? self.together_ns : self.model_ns;
    return inside ? inside : timing->now_ns() + (uint64_t)self.lead_ns;
}

double tb_model_queue(struct tb_device_clock *clock, uint64_t now)
{
    return (double)(later(atomic_load(&clock->transfer_free_at), now) - now) * 1e-9;
}

/* The parts of one write go to several tiers at once: each begins now, and not after the one before. */
void tb_model_together_begin(void)
{
    assert(self.depth > 0 && self.together_ns == 0);
    self.together_ns = self.model_ns;
}

void tb_model_together_end(void)
{
    self.together_ns = 0;
}

/* Sleeps until the modelled time is real. Called without locks, because it may take milliseconds. */
static void pay(void)
{
    assert(self.model_ns == 0); /* the section is closed: its lead is known */
    uint64_t paid_at = timing->now_ns() + (uint64_t)self.lead_ns;
    timing->sleep_until_ns(paid_at);
    uint64_t overslept = timing->now_ns() - paid_at;
    self.lead_ns = -(int64_t)(overslept < OVERSLEEP_MAX_NS ? overslept : OVERSLEEP_MAX_NS);
}

void tb_model_pay(void)
{
    bool inside = self.model_ns != 0;
    section_close();
    if (self.lead_ns > 0)
        pay();
    if (inside)
        section_open();
}

/* Small debts are kept until they are worth a sleep; a sync and a close pay all. */
void tb_model_settle(bool all)
{
    self.pay_all |= all;
    if (self.depth > 0)
        return;
    if (self.lead_ns > (self.pay_all ? 0 : DEBT_THRESHOLD_NS))
        pay();
    self.pay_all = false;
}
