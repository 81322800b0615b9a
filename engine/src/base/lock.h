/*
 * A lock that survives its holder: robust, process-shared, error-checking.
 *
 * The kernel hands the lock of a killed holder to the next one. It learns of that by
 * TB_LOCK_ORPHANED and repairs what the lock protects. So everything under these locks is
 * changed in single stores that each leave it usable. A signal handler that needs a lock
 * which its own thread holds gets -EDEADLK.
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
    _Atomic int holder; /* the process that took it last: shown when another waits long for it */
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
/* As tb_lock_take, or -EBUSY after TB_WAIT_SECONDS: for callers that only look. */
int tb_lock_take_soon(struct tb_lock *lock);
void tb_lock_drop(struct tb_lock *lock);

#endif
