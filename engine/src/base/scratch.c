/*
 * One piece of memory for each thread, for copies that are too large for its stack. It
 * grows as needed and is freed when the thread ends.
 */
#include "base/scratch.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

struct scratch {
    size_t size;
    char bytes[];
};

static pthread_key_t scratch_key;
static pthread_once_t scratch_once = PTHREAD_ONCE_INIT;
static bool has_key; /* a program may have used up all keys */

static void make_key(void)
{
    has_key = pthread_key_create(&scratch_key, free) == 0;
}

/* What was in it is not kept: a caller fills it again. NULL: no memory, which is an error of the call. */
char *tb_scratch_bytes(size_t size)
{
    pthread_once(&scratch_once, make_key);
    if (!has_key)
        return NULL;
    struct scratch *s = pthread_getspecific(scratch_key);
    if (!s || s->size < size) {
        struct scratch *larger = malloc(sizeof(*s) + size);
        if (!larger || pthread_setspecific(scratch_key, larger)) {
            free(larger);
            return NULL; /* the smaller one is still this thread's */
        }
        free(s);
        s = larger;
        s->size = size;
    }
    assert(s->size >= size);
    return s->bytes;
}
