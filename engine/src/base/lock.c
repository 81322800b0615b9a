/*
 * A robust process-shared mutex. A killed holder's lock goes to the next process that
 * takes it, which is told so and repairs what the lock protects (base/lock.h).
 */
#include "base/lock.h"

#include <assert.h>
#include <errno.h>
#include <time.h>

#include "base/wait.h"

/* Error-checking, so that a thread that takes its own lock gets -EDEADLK and does not wait forever. */
void tb_lock_init(struct tb_lock *lock)
{
    pthread_mutexattr_t attr;
    int rc = pthread_mutexattr_init(&attr);
    rc = rc ? rc : pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    rc = rc ? rc : pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    rc = rc ? rc : pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK);
    rc = rc ? rc : pthread_mutex_init(&lock->mutex, &attr);
    assert(rc == 0); /* none of them allocates or can fail on Linux with these values */
    (void)rc;
    pthread_mutexattr_destroy(&attr);
}

/*
 * A lock of a killed holder is made usable at once; the caller repairs what it protects. If
 * the caller is killed during the repair, the next holder is told the same: so a repair must
 * be one that can begin again. `holder` is for messages alone, and may be old by a moment.
 */
static int taken(struct tb_lock *lock, int rc)
{
    assert(rc != ENOTRECOVERABLE && rc != EINVAL); /* each holder that is told of a death makes the lock consistent */
    if (rc == 0 || rc == EOWNERDEAD)
        atomic_store_explicit(&lock->holder, tb_wait_own_pid(), memory_order_relaxed);
    if (rc == EOWNERDEAD) {
        pthread_mutex_consistent(&lock->mutex);
        return TB_LOCK_ORPHANED;
    }
    return rc ? -rc : TB_LOCK_TAKEN;
}

/* CLOCK_REALTIME, because mutexes know no other: a clock that jumps makes a message late, not the lock. */
static int take_for_a_while(struct tb_lock *lock)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += TB_WAIT_SECONDS;
    return pthread_mutex_timedlock(&lock->mutex, &until);
}

/* Each second the wait is told with the process that holds the lock. */
static int take_slowly(struct tb_lock *lock)
{
    struct tb_wait wait = {0};
    int rc;
    do {
        tb_wait_go_on(&wait, atomic_load_explicit(&lock->holder, memory_order_relaxed));
        rc = take_for_a_while(lock);
    } while (rc == ETIMEDOUT);
    tb_wait_end(&wait);
    return rc;
}

/* The try costs least and is usually enough. */
int tb_lock_take(struct tb_lock *lock)
{
    int rc = pthread_mutex_trylock(&lock->mutex);
    return taken(lock, rc == EBUSY ? take_slowly(lock) : rc);
}

int tb_lock_try(struct tb_lock *lock)
{
    return taken(lock, pthread_mutex_trylock(&lock->mutex));
}

/* For callers that must answer: a tool that shows which process waits must not wait itself. */
int tb_lock_take_soon(struct tb_lock *lock)
{
    int rc = pthread_mutex_trylock(&lock->mutex);
    rc = taken(lock, rc == EBUSY ? take_for_a_while(lock) : rc);
    return rc == -ETIMEDOUT ? -EBUSY : rc;
}

/* Only the thread that took it may drop it; anything else is a defect of the engine. */
void tb_lock_drop(struct tb_lock *lock)
{
    int rc = pthread_mutex_unlock(&lock->mutex);
    assert(rc == 0);
    (void)rc;
}

#ifdef __SANITIZE_THREAD__
/* A repair holds the 1,024 locks of all chunks, in their order; the sanitizer's search for deadlocks can hold 64. */
__attribute__((visibility("default"))) const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "detect_deadlocks=0";
}
#endif
