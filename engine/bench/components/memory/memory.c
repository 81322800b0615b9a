/*
 * tb-components-memory SYSTEM: buffers of mixed sizes, taken and given back.
 *
 * Each operation takes a buffer of 4, 16, 64 or 128 KiB in random order and gives back the
 * one that was taken 64 operations before.  The engine's buffers are those of a memory tier
 * that all processes share, and are found again if a process is killed; those of malloc are
 * the process's own.  A buffer holds its own number in its first and last bytes, which is
 * looked at before it is given back: no byte belongs to two buffers.
 */
#include <stdlib.h>
#include <string.h>

#include "buffer/medium.h"
#include "buffer/slab.h"
#include "common/job.h"
#include "common/own_instance.h"
#include "memory/allocator.h"

#define KEPT 64
#define MEMORY (512ull << 20)

static const uint32_t sizes[] = {4096, 16384, 65536, 131072};

/* What an allocator gives. */
struct piece {
    char *bytes;
    uint32_t n;
    struct tb_buffer *buffer; /* the engine's */
};

struct load {
    tb_engine *engine; /* NULL: malloc */
    struct piece kept[KEPT];
    uint64_t random;
};

static void take(struct tb_job *job, struct load *l, struct piece *p)
{
    if (!l->engine) {
        p->bytes = malloc(p->n);
    } else {
        p->buffer = tb_tier_take(l->engine, 0, p->n, 0);
        bool fits = p->buffer && tb_buffer_size(l->engine, p->buffer) >= p->n;
        p->bytes = fits ? l->engine->region.base + tb_medium_offset(l->engine, p->buffer, 0) : NULL;
    }
    if (!p->bytes)
        tb_job_fail(job, "there is no buffer of %u bytes", p->n);
}

static void give(struct load *l, struct piece *p)
{
    if (l->engine)
        tb_slab_give(l->engine, p->buffer);
    else
        free(p->bytes);
    p->bytes = NULL;
}

static void mark(struct piece *p, uint64_t tag)
{
    memcpy(p->bytes, &tag, sizeof(tag));
    memcpy(p->bytes + p->n - sizeof(tag), &tag, sizeof(tag));
}

static void check(struct tb_job *job, const struct piece *p, uint64_t tag)
{
    if (memcmp(p->bytes, &tag, sizeof(tag)) != 0 || memcmp(p->bytes + p->n - sizeof(tag), &tag, sizeof(tag)) != 0)
        tb_job_fail(job, "a buffer of %u bytes was changed while it was taken", p->n);
}

/* xorshift: the same order of sizes for every system, and cheap beside what is measured. */
static uint32_t next_size(struct load *l)
{
    l->random ^= l->random << 13;
    l->random ^= l->random >> 7;
    l->random ^= l->random << 17;
    return sizes[l->random >> 62];
}

/* No two processes use the same tag. */
static uint64_t tag_of(const struct tb_job *job, long operation)
{
    return (uint64_t)operation << 8 | (uint64_t)job->rank;
}

static void take_and_give(struct tb_job *job, void *arg, long from, long to)
{
    struct load *l = arg;
    for (long i = from; i < to; i++) {
        struct piece *p = &l->kept[i % KEPT];
        if (p->bytes) {
            check(job, p, tag_of(job, i - KEPT));
            give(l, p);
        }
        p->n = next_size(l);
        take(job, l, p);
        mark(p, tag_of(job, i));
    }
}

/* The last ones, so that the next phase begins with none. */
static void give_all(struct tb_job *job, void *arg, long from, long to)
{
    struct load *l = arg;
    (void)job;
    (void)from;
    (void)to;
    for (int i = 0; i < KEPT; i++)
        if (l->kept[i].bytes)
            give(l, &l->kept[i]);
}

static bool is_engine(const struct tb_job *job)
{
    return strcmp(job->system, "engine") == 0;
}

static void work(struct tb_job *job)
{
    struct load l = {.engine = is_engine(job) ? tb_own_join(job) : NULL, .random = UINT64_C(88172645463325252) + (uint64_t)job->rank};
    tb_job_untimed(job, take_and_give, &l, job->operations / TB_PARTS);
    tb_job_untimed(job, give_all, &l, 0);
    tb_job_timed(job, "take and give", take_and_give, &l, job->operations, NULL);
    tb_job_untimed(job, give_all, &l, 0);
    if (l.engine)
        tb_engine_detach(l.engine);
}

static int start(struct tb_job *job)
{
    return is_engine(job) ? tb_own_start(job, &(struct tb_own_needs){.files = 1024, .memory = MEMORY}) : 0;
}

int main(int argc, char **argv)
{
    static const char *const systems[] = {"engine", TB_ALLOCATORS, NULL};
    static const struct tb_job_of memory = {systems, 0, tb_allocator_choose, start, work, tb_own_stop};
    return tb_job_main(argc, argv, &memory);
}
