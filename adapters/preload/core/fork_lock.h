/*
 * A mutex that a fork waits for and holds: a child must not find it locked by a thread that it
 * has not got. TB_FORK_LOCK(name) defines it for one file, with lock_name() and unlock_name().
 */
#ifndef TB_PRELOAD_FORK_LOCK_H
#define TB_PRELOAD_FORK_LOCK_H

#include <pthread.h>

#define TB_FORK_LOCK(name)                                                   \
    static pthread_mutex_t mutex_##name = PTHREAD_MUTEX_INITIALIZER;         \
    static void lock_##name(void)                                            \
    {                                                                        \
        pthread_mutex_lock(&mutex_##name);                                   \
    }                                                                        \
    static void unlock_##name(void)                                          \
    {                                                                        \
        pthread_mutex_unlock(&mutex_##name);                                 \
    }                                                                        \
    static __attribute__((constructor)) void keep_##name##_across_fork(void) \
    {                                                                        \
        pthread_atfork(lock_##name, unlock_##name, unlock_##name);           \
    }

#endif
