/*
 * A lock that survives its holder: robust, process-shared, error-checking.
 *
 * The kernel hands the lock of a killed holder to the next one, which learns of
 * it by TB_LOCK_ORPHANED and repairs what the lock protects.  Everything behind
 * these locks is therefore changed so that each single store leaves it usable.
 * A signal handler that needs a lock its own thread holds gets -EDEADLK.
 */
#ifndef TB_LOCK_H
#define TB_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/*
 * Marks a function that looks, without the lock, at what others change under it:
 * what it sees is a hint, to be looked at again under the lock.  The thread
 * sanitizer takes its word for that, as long as no part of it moves to its caller.
 */
#ifdef __SANITIZE_THREAD__
#define TB_UNLOCKED __attribute__((noipa, no_sanitize("thread")))
#else
#define TB_UNLOCKED
#endif

struct tb_lock {
    pthread_mutex_t mutex;
    _Atomic int holder; /* the process that took it last, for who waits for long */
};

enum tb_lock_result {
    TB_LOCK_TAKEN = 0,
    TB_LOCK_ORPHANED = 1, /* taken; its last holder died inside */
};

void tb_lock_init(struct tb_lock *lock);
/* TB_LOCK_TAKEN, TB_LOCK_ORPHANED, or -EDEADLK (held by this very thread). */
int tb_lock_take(struct tb_lock *lock);
/* As above, or -EBUSY. */
int tb_lock_try(struct tb_lock *lock);
/* As tb_lock_take, or -EBUSY after TB_WAIT_SECONDS: for who only looks. */
int tb_lock_take_soon(struct tb_lock *lock);
void tb_lock_drop(struct tb_lock *lock);

#endif
