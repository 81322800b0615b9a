/*
 * Waits for another process: noted in the region and told once a second, with the process
 * that is waited for (base/wait.h). A wait never ends by itself; the listener decides.
 *
 * Nothing here is waited for: a lock is only tried where a signal handler may have
 * interrupted its holder. A message that is missed comes a second later.
 */
#include "base/wait.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process.h"

struct listening {
    tb_wait_listener *listener;
    void *arg;
};

static _Atomic int own_pid;
static struct tb_wait_note *own_note; /* may be unmapped by a detach: used under its lock */
static pthread_mutex_t note_lock = PTHREAD_MUTEX_INITIALIZER;
/* The listener of all threads, and the one of this thread alone; both are told. */
static struct listening process;
static _Thread_local struct listening here;
static tb_wait_next *next_of; /* of `known`, which may be unmapped as own_note */
static const void *known;
static _Atomic int vain_pid;     /* of the latest wait of this process that is in vain, */
static _Atomic uint64_t vain_ns; /* told at that time */

#define NOTE_LOOKS 1000
#define CHAIN_MAX 4 /* processes that wait for each other */
#define VAIN_NS (3u * TB_WAIT_SECONDS * 1000000000ull)

/* Also called in a forked child, where it has one thread: a thread of the parent may have held the lock at the fork. */
void tb_wait_identify(int pid, struct tb_wait_note *note)
{
    assert(pid > 0);
    if (own_pid != pid)
        pthread_mutex_init(&note_lock, NULL);
    own_pid = pid;
    pthread_mutex_lock(&note_lock);
    own_note = note;
    pthread_mutex_unlock(&note_lock);
}

void tb_wait_forget(const struct tb_wait_note *note)
{
    pthread_mutex_lock(&note_lock);
    if (own_note == note)
        own_note = NULL;
    pthread_mutex_unlock(&note_lock);
}

/* How to find the process that a process waits for. `of` is what `next` looks into: the last instance that was attached counts. */
void tb_wait_know(tb_wait_next *next, const void *of)
{
    pthread_mutex_lock(&note_lock);
    next_of = next;
    known = of;
    pthread_mutex_unlock(&note_lock);
}

void tb_wait_know_no_more(const void *of)
{
    pthread_mutex_lock(&note_lock);
    if (known == of)
        next_of = NULL;
    pthread_mutex_unlock(&note_lock);
}

/*
 * A signal handler may have interrupted the holder of this lock: then it learns of no
 * process. Another thread releases it at once.
 */
static int next_process(int pid)
{
    int looks = 0;
    while (pthread_mutex_trylock(&note_lock))
        if (++looks == NOTE_LOOKS)
            return 0;
        else
            sched_yield();
    int next = next_of ? next_of(known, pid) : 0;
    pthread_mutex_unlock(&note_lock);
    return next == pid ? 0 : next;
}

/* Limited, since the notes of others may lead in a circle while they change. */
static int last_of_chain(int pid)
{
    for (int i = 0, next; i < CHAIN_MAX && (next = next_process(pid)); i++)
        pid = next;
    return pid;
}

int tb_wait_own_pid(void)
{
    return atomic_load_explicit(&own_pid, memory_order_relaxed);
}

void tb_wait_listen(tb_wait_listener *listener, void *arg)
{
    process = (struct listening){listener, arg};
}

void tb_wait_listen_here(tb_wait_listener *listener, void *arg)
{
    here = (struct listening){listener, arg};
}

/* A signal handler that waits may have interrupted the holder of this lock: then the wait is told the next time. */
static void note(int pid, uint64_t since_ns)
{
    if (pthread_mutex_trylock(&note_lock))
        return;
    if (own_note) {
        own_note->since_ns = since_ns;
        own_note->pid = pid;
    }
    pthread_mutex_unlock(&note_lock);
}

/* Another thread may have noted its own wait since. */
static void forget(uint64_t since_ns)
{
    if (pthread_mutex_trylock(&note_lock))
        return;
    if (own_note && own_note->since_ns == since_ns)
        own_note->pid = 0;
    pthread_mutex_unlock(&note_lock);
}

/* For so long in a row: a debugger stops a process for a moment too. The time starts again when the process was seen to run. */
static bool is_in_vain(struct tb_wait *w, int pid, uint64_t now)
{
    if (!tb_wait_is_for_stopped(pid))
        w->stopped_ns = 0;
    else if (!w->stopped_ns)
        w->stopped_ns = now;
    bool vain = w->stopped_ns && now - w->stopped_ns >= TB_WAIT_STOPPED_SECONDS * 1000000000ull;
    if (vain) {
        vain_pid = pid;
        vain_ns = now;
    }
    return vain;
}

/* Without a lock: a listener may end the process, or take its time. */
static void tell(const struct tb_wait *w, int pid, uint64_t now, bool in_vain)
{
    double seconds = (double)(now - w->since_ns) * 1e-9;
    assert(w->since_ns && now >= w->since_ns);
    if (here.listener)
        here.listener(here.arg, pid, seconds, in_vain);
    if (process.listener)
        process.listener(process.arg, pid, seconds, in_vain);
}

/*
 * Called at each look of a waiter. Before the first second nothing is told or noted, so that
 * a short wait costs a look at the clock. Where the awaited process is this one, what counts
 * is whether another thread of it waits in vain: then this wait is in vain, too.
 */
void tb_wait_go_on(struct tb_wait *w, int pid)
{
    assert(w->told_ns == 0 || w->told_ns >= w->since_ns);
    uint64_t now = tb_now_ns(), from = w->told_ns ? w->told_ns : w->since_ns;
    if (!w->since_ns)
        w->since_ns = now;
    if (!from || now - from < TB_WAIT_SECONDS * 1000000000ull || !pid)
        return;
    bool own = pid == own_pid; /* one of this process's threads, which may wait in vain itself */
    if (own && (!vain_pid || now - vain_ns > VAIN_NS))
        return;
    w->told_ns = now;
    if (!own)
        note(pid, w->since_ns);
    if (here.listener || process.listener)
        tell(w, own ? vain_pid : pid, now, own || is_in_vain(w, pid, now));
}

void tb_wait_end(const struct tb_wait *w)
{
    if (!w->told_ns)
        return;
    forget(w->since_ns);
    if (here.listener)
        here.listener(here.arg, 0, (double)(tb_now_ns() - w->since_ns) * 1e-9, false);
}

bool tb_wait_is_for_stopped(int pid)
{
    return tb_process_is_stopped(last_of_chain(pid));
}

void tb_wait_describe(int pid, char *out, size_t size)
{
    int at = tb_process_describe(pid, out, size), last = last_of_chain(pid);
    if (last != pid && (size_t)at < size && (at += snprintf(out + at, size - (size_t)at, ", which waits for ")) < (int)size)
        tb_process_describe(last, out + at, size - (size_t)at);
}
