/*
 * One piece of memory for each thread, for copies that are too large for its stack. It
 * grows as needed and is freed when the thread ends.
 */
#include "base/scratch.h"

#include <pthread.h>
#include <stdlib.h>

struct scratch {
    size_t size;
    char bytes[];
};

static pthread_key_t scratch_key;
static pthread_once_t scratch_once = PTHREAD_ONCE_INIT;

static void make_key(void)
{
    pthread_key_create(&scratch_key, free);
}

char *tb_scratch_bytes(size_t size)
{
    pthread_once(&scratch_once, make_key);
    struct scratch *s = pthread_getspecific(scratch_key);
    if (!s || s->size < size) {
        free(s);
        s = malloc(sizeof(*s) + size);
        pthread_setspecific(scratch_key, s);
        if (!s)
            return NULL;
        s->size = size;
    }
    return s->bytes;
}
