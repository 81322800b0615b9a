/*
 * tb-components-messages SYSTEM: messages of clients to the daemon.
 *
 * Each client has as many places as it may have messages under way (-b); a message says
 * which place it is of.  The daemon looks that each client's places come in turn, so none is
 * lost, doubled or overtaken, and notes the time from the call of send until it has the
 * message.  A client that has no free place sleeps until the daemon has had half of them.
 * With one place each message waits for the one before it: that is the latency of the path.
 */
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "messages/carrier.h"

#ifndef TB_HAVE_NATS
static const struct tb_carrier no_carrier __attribute__((unused));
#define tb_carrier_nats no_carrier
#endif

#define MAX_PLACES 4096
#define MAX_CLIENTS 64

static const char *const systems[] = {"engine", "nats", NULL};

/* Between a client and the daemon, in shared memory, the same for all systems. */
struct desk {
    _Atomic uint32_t handled; /* messages of the client that the daemon has had, modulo 2^32 */
    _Atomic uint32_t asleep;  /* the client waits for the daemon; a futex word */
    _Atomic uint32_t wanted;  /* until `handled` is that */
    _Atomic uint64_t sent_ns[MAX_PLACES];
} __attribute__((aligned(64)));

struct shared {
    struct desk desks[MAX_CLIENTS];
    uint64_t histogram[64 * 16]; /* the daemon's: of the times, 16 classes for each power of two of nanoseconds */
};

struct load {
    const struct tb_carrier *carrier;
    struct shared *shared;
    uint32_t sent, handled[MAX_CLIENTS]; /* this client's; the daemon's of each client */
};

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* 16 classes for each power of two: an error of at most 1 in 16, over all times. */
static unsigned class_of(uint64_t ns)
{
    unsigned power = ns < 16 ? 4 : 63 - (unsigned)__builtin_clzll(ns);
    return power * 16 + (unsigned)(ns >> (power - 4) & 15);
}

/* The upper end of a class, so that a percentile is never too small. */
static double end_of(unsigned class)
{
    return (double)((16 + class % 16 + 1) * (UINT64_C(1) << (class / 16 - 4)));
}

static uint32_t last_rank(const struct tb_job *job)
{
    return (uint32_t)job->processes;
}

static bool is_daemon(const struct tb_job *job)
{
    return (uint32_t)job->rank == last_rank(job);
}

/* It says that it sleeps before it looks again, and the daemon looks after it has counted: neither misses the other. */
static void wait_for(struct desk *d, uint32_t wanted)
{
    while ((int32_t)(d->handled - wanted) < 0) {
        d->wanted = wanted;
        d->asleep = 1;
        if ((int32_t)(d->handled - wanted) < 0)
            syscall(SYS_futex, &d->asleep, FUTEX_WAIT, 1, NULL, NULL, 0);
    }
}

/* One system call for half of the places, and none where the client does not sleep. */
static void note_handled(struct desk *d)
{
    uint32_t handled = ++d->handled;
    if (d->asleep && (int32_t)(handled - d->wanted) >= 0) {
        d->asleep = 0;
        syscall(SYS_futex, &d->asleep, FUTEX_WAKE, 1, NULL, NULL, 0);
    }
}

static void send_all(struct tb_job *job, struct load *l, long n)
{
    struct desk *d = &l->shared->desks[job->rank];
    uint32_t places = (uint32_t)job->depth, half = places / 2 ? places / 2 : 1;
    for (long i = 0; i < n; i++, l->sent++) {
        if (l->sent - d->handled == places)
            wait_for(d, l->sent - places + half);
        d->sent_ns[l->sent % places] = now_ns();
        l->carrier->send(job, l->sent % places);
    }
    wait_for(d, l->sent);
}

/* By client, because messages of two clients may come in any order. */
static void receive_all(struct tb_job *job, struct load *l, long n)
{
    uint32_t places = (uint32_t)job->depth;
    for (long i = 0; i < n; i++) {
        struct tb_message m = l->carrier->receive(job);
        if (m.client >= (uint32_t)job->processes || m.place != l->handled[m.client] % places)
            tb_job_fail(job, "message of client %u, place %u: a message was lost, doubled or overtaken", m.client, m.place);
        struct desk *d = &l->shared->desks[m.client];
        l->shared->histogram[class_of(now_ns() - d->sent_ns[m.place])]++;
        l->handled[m.client]++;
        note_handled(d);
    }
}

static void send_part(struct tb_job *job, void *arg, long from, long to)
{
    if (is_daemon(job))
        receive_all(job, arg, (to - from) * job->processes);
    else
        send_all(job, arg, to - from);
}

/* In two rounds, the daemon first: a message that comes before it listens would be lost. */
static void join(struct tb_job *job, void *arg, long from, long to)
{
    struct load *l = arg;
    (void)from;
    if (to == 0 && is_daemon(job))
        l->carrier->join_daemon(job);
    else if (to && !is_daemon(job))
        l->carrier->join_client(job);
}

static double percentile(const struct shared *s, double share)
{
    uint64_t all = 0, seen = 0;
    unsigned n = sizeof(s->histogram) / sizeof(s->histogram[0]), class = 0;
    for (unsigned i = 0; i < n; i++)
        all += s->histogram[i];
    while (class + 1 < n && (double)(seen += s->histogram[class]) < share * (double)all)
        class ++;
    return end_of(class) / 1000;
}

static void forget_times(struct tb_job *job, void *arg, long from, long to)
{
    struct load *l = arg;
    (void)from;
    (void)to;
    if (is_daemon(job))
        memset(l->shared->histogram, 0, sizeof(l->shared->histogram));
}

/* Printed by the first process, after the daemon has noted the last time. */
static void more_of(void *arg, char *out, size_t size)
{
    const struct load *l = arg;
    const struct shared *s = l->shared;
    snprintf(out, size, ", \"latency_us\": {\"50\": %.2f, \"90\": %.2f, \"99\": %.2f, \"99.9\": %.2f}", percentile(s, 0.5),
             percentile(s, 0.9), percentile(s, 0.99), percentile(s, 0.999));
}

static struct shared *shared; /* made before the group */

static void work(struct tb_job *job)
{
    static struct load l;
    l.carrier = strcmp(job->system, "engine") == 0 ? &tb_carrier_engine : &tb_carrier_nats;
    l.shared = shared;
    tb_job_untimed(job, join, &l, 0);
    tb_job_untimed(job, join, &l, job->processes);
    tb_job_untimed(job, send_part, &l, job->operations / TB_PARTS);
    tb_job_untimed(job, forget_times, &l, 0);
    tb_job_timed(job, "send", send_part, &l, job->operations, more_of);
}

static int start(struct tb_job *job)
{
    bool is_engine = strcmp(job->system, "engine") == 0;
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 1;
#ifndef TB_HAVE_NATS
    if (!is_engine)
        return tb_job_skip(job, "this was built without libnats-dev");
#endif
    return is_engine ? tb_carrier_engine.start(job) : tb_carrier_nats.start(job);
}

static void stop(struct tb_job *job)
{
    const struct tb_carrier *c = strcmp(job->system, "engine") == 0 ? &tb_carrier_engine : &tb_carrier_nats;
    if (c->stop)
        c->stop(job);
}

int main(int argc, char **argv)
{
    static const struct tb_job_of messages = {systems, 1, NULL, start, work, stop};
    return tb_job_main(argc, argv, &messages);
}
