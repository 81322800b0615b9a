#include "lock.h"

#include <assert.h>
#include <errno.h>

void tb_lock_init(struct tb_lock *lock)
{
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&lock->mutex, &attr);
    pthread_mutexattr_destroy(&attr);
}

static int taken(struct tb_lock *lock, int rc)
{
    if (rc == EOWNERDEAD) {
        pthread_mutex_consistent(&lock->mutex);
        return TB_LOCK_ORPHANED;
    }
    return rc ? -rc : TB_LOCK_TAKEN;
}

int tb_lock_take(struct tb_lock *lock)
{
    return taken(lock, pthread_mutex_lock(&lock->mutex));
}

int tb_lock_try(struct tb_lock *lock)
{
    return taken(lock, pthread_mutex_trylock(&lock->mutex));
}

void tb_lock_drop(struct tb_lock *lock)
{
    int rc = pthread_mutex_unlock(&lock->mutex);
    assert(rc == 0);
    (void)rc;
}
