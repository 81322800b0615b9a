#include "base/wait.h"

#include <pthread.h>
#include <unistd.h>

#include "base/clock.h"

struct listening {
    tb_wait_listener *listener;
    void *arg;
};

static _Atomic int own_pid;
static struct tb_wait_note *own_note; /* may be unmapped by a detach: used under its lock */
static pthread_mutex_t note_lock = PTHREAD_MUTEX_INITIALIZER;
static struct listening process;
static _Thread_local struct listening here;

/* Also called in a forked child, whose parent's threads may have held the lock. */
void tb_wait_identify(int pid, struct tb_wait_note *note)
{
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

/* A signal handler that waits may have interrupted who is here: then it is told the next time. */
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

void tb_wait_go_on(struct tb_wait *w, int pid)
{
    uint64_t now = tb_now_ns(), from = w->told_ns ? w->told_ns : w->since_ns;
    if (!w->since_ns)
        w->since_ns = now;
    if (!from || now - from < TB_WAIT_SECONDS * 1000000000ull || !pid || pid == own_pid)
        return;
    double seconds = (double)(now - w->since_ns) * 1e-9;
    w->told_ns = now;
    note(pid, w->since_ns);
    if (here.listener)
        here.listener(here.arg, pid, seconds);
    if (process.listener)
        process.listener(process.arg, pid, seconds);
}

void tb_wait_end(const struct tb_wait *w)
{
    if (w->told_ns)
        note(0, 0);
}
