/*
 * One history: what it is like (its plan), the workers on the file, and what each of them notes.
 */
#ifndef TB_HISTORY_H
#define TB_HISTORY_H

#include "stress.h"

#include "history_check.h"

#define BLOCK 4096u
#define VALUES_MAX 20u /* cells of a read, on an average */

/* What one history is like. */
struct plan {
    uint32_t seed;
    uint32_t processes, threads, calls; /* of each process, of each thread */
    uint32_t cell;                      /* bytes */
    uint64_t origin;                    /* of the first cell in the file */
    uint32_t room;                      /* cells among which calls choose */
    uint32_t n_cells;
    uint32_t first;         /* cells that the PFS has before */
    uint32_t longest;       /* cells of a call */
    bool one_description;   /* inherited by all */
    bool only_appends;      /* no other writes: past the end, in the next chunk, they may come first (docs/compatibility.md) */
    uint32_t appends, cuts; /* of 100 calls */
    uint32_t delay;         /* one of so many steps is slow; 0: none */
    struct history_limits limits;
};

struct notes { /* of one worker */
    uint32_t n_calls, n_values;
    struct history_call *calls;
    uint32_t *values;
};

struct run {
    struct plan plan;
    struct fixture x;
    tb_engine *engine; /* a client's where there are processes: a daemon does not fork clients.  NULL: bare */
    struct tb_io *io;
    const char *name;
    int both, appends;                       /* descriptors that all share */
    struct notes notes[HISTORY_WORKERS + 1]; /* the last are the test's own */
    pthread_barrier_t barrier;
    _Atomic uint32_t busy;
};

struct actor {
    struct run *run;
    struct notes *notes;
    tb_engine *engine;
    struct tb_io *io;
    uint32_t id, seed, serial;
    int both, appends;
    unsigned char bytes[(HISTORY_PIECE + 1) * BLOCK];
};

static inline off_t place(const struct plan *p, uint32_t cell)
{
    return (off_t)(p->origin + (uint64_t)cell * p->cell);
}

/* What one worker does, until its notes are full; `actor` is a struct actor. */
void *history_act(void *actor);
/* What the PFS has before, and after. */
void history_write_first(struct run *r, struct actor *a);
void history_read_last(struct run *r, struct actor *a);

/* All workers at once, in processes or threads, and what comes in between: flushes, another file, slow steps. */
void history_work(struct run *r);

#endif
