/*
 * The lock of a chunk, and the notes of those that write in place beside it: buffer/chunk.h tells the rules.
 *
 * A note and the lock exclude each other as in Dekker's algorithm: a writer stores its note and then looks whether the lock is
 * taken; a taker of the lock says so and then looks for notes. All four are of order seq_cst, so at least one of the two
 * sees the other. Two writers of the same bytes see each other in the same way, and both take the lock.
 *
 * A note is one word: 14 bits of the client's slot + 1 (0: the word is free), the first and the last unit of its range of 12 bits
 * each, and 26 bits that count its uses. A unit is a 4096th of the chunk.
 */
#include "buffer/chunk.h"

#include <errno.h>
#include <sched.h>
#include <time.h>

#include "base/kill_point.h"
#include "base/valid.h"
#include "base/wait.h"
#include "buffer/map.h"
#include "buffer/map_repair.h"
#include "buffer/swap.h"
#include "region/clients.h"

#define UNIT_BITS 12
#define USES_BITS 26
#define USES_MASK ((UINT64_C(1) << USES_BITS) - 1)
#define UNIT_MASK ((UINT64_C(1) << UNIT_BITS) - 1)
#define CLIENT_SHIFT TB_CHUNK_CLIENT_SHIFT
_Static_assert(CLIENT_SHIFT == 2 * UNIT_BITS + USES_BITS, "all bits of a note have a use");
#define CLIENT_MASK (~UINT64_C(0) << CLIENT_SHIFT)

/* How a note is waited for: most are given back within a microsecond, unless their thread has lost its processor. */
#define LOOKS_SPINNING 200
#define LOOKS_YIELDING 220
#define LOOK_NS 20000

/* Where the note of this thread is, so that a signal handler that interrupted it does not wait for it; set before, cleared after it. */
static _Thread_local const _Atomic uint64_t *own_note __attribute__((tls_model("initial-exec")));

static uint32_t client_of(uint64_t note)
{
    return (uint32_t)(note >> CLIENT_SHIFT);
}

static uint64_t first_of(uint64_t note)
{
    return note >> (UNIT_BITS + USES_BITS) & UNIT_MASK;
}

static uint64_t last_of(uint64_t note)
{
    return note >> USES_BITS & UNIT_MASK;
}

static bool overlap(uint64_t a, uint64_t b)
{
    return first_of(a) <= last_of(b) && first_of(b) <= last_of(a);
}

static bool has_own_note(const tb_engine *e, const struct tb_chunk_lock *chunk)
{
    return own_note >= chunk->writer && own_note < chunk->writer + TB_CHUNK_WRITERS && client_of(*own_note) == e->slot + 1;
}

/* Chunks have more bytes than units. */
static uint64_t range_of(const tb_engine *e, uint64_t offset, uint64_t n)
{
    struct tb_size chunk = e->header->chunk;
    unsigned shift = 64 - (unsigned)__builtin_clzll(chunk.bytes - 1) - UNIT_BITS;
    uint64_t lo = offset - tb_size_divide(offset, chunk) * chunk.bytes;
    assert(n && lo + n <= chunk.bytes);
    return lo >> shift << (UNIT_BITS + USES_BITS) | (lo + n - 1) >> shift << USES_BITS;
}

/*
 * The count is odd while the chunk is locked. A killed holder left it odd; it stays odd
 * until the next holder unlocks. Whole: notes are looked at after it, and the mark of a cut.
 */
static void begin_change(struct tb_chunk_lock *chunk)
{
    uint32_t sequence = atomic_load_explicit(&chunk->sequence, memory_order_relaxed);
    atomic_store_explicit(&chunk->sequence, sequence | 1, memory_order_seq_cst);
    atomic_thread_fence(memory_order_release);
}

/* Locked by the chunk. Chains are repaired first: repairing a move relies on all LIVE buffers being in their chains. */
static void repair(tb_engine *e, uint32_t stripe)
{
    tb_map_repair(e, stripe);
    tb_move_repair(e, stripe);
    e->region.locks->chunk[stripe].n_spilled++; /* the holder may have been about that, too */
}

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* One look at a note that is not given back. True: its client is dead. */
static bool look_again(const tb_engine *e, uint32_t looks, uint32_t slot, struct tb_wait *wait)
{
    if (looks < LOOKS_SPINNING)
        return relax(), false;
    if (looks < LOOKS_YIELDING)
        return sched_yield(), false;
    if (tb_slot_is_dead(e, slot))
        return true;
    tb_wait_go_on(wait, e->region.clients[slot].pid);
    nanosleep(&(struct timespec){0, LOOK_NS}, NULL);
    return false;
}

/* Wait until a note is given back, or has become another. A killed client's is taken away: true. */
static bool wait_for(tb_engine *e, _Atomic uint64_t *word)
{
    struct tb_wait wait = {0};
    uint64_t note = *word, now = note;
    bool dead = false;
    for (uint32_t looks = 0; client_of(now) && now == note && !dead; looks++) {
        dead = look_again(e, looks, client_of(note) - 1, &wait);
        now = *word;
    }
    tb_wait_end(&wait);
    return dead && atomic_compare_exchange_strong(word, &note, note & ~CLIENT_MASK);
}

/* The lock is taken, so no new note stays: wait for those that are there. True: one was a killed client's. */
static bool wait_for_writers(tb_engine *e, struct tb_chunk_lock *chunk)
{
    bool killed = false;
    for (uint32_t i = 0; i < TB_CHUNK_WRITERS; i++)
        while (client_of(chunk->writer[i]))
            killed |= wait_for(e, &chunk->writer[i]);
    return killed;
}

static void drop(struct tb_chunk_lock *chunk)
{
    uint32_t odd = atomic_load_explicit(&chunk->sequence, memory_order_relaxed);
    atomic_store_explicit(&chunk->sequence, odd + 1, memory_order_release);
    tb_lock_drop(&chunk->lock);
}

/*
 * `lock` takes it or tries to. What a killed holder or writer left is repaired; if killed before that is done, the next holder does
 * it. `file` is noted for tb_chunk_wait_all, before the count: a process that sees the one sees the other. TB_NONE: it is for no file.
 */
static int take(tb_engine *e, uint32_t stripe, uint32_t file, int (*lock)(struct tb_lock *))
{
    struct tb_chunk_lock *chunk = &e->region.locks->chunk[stripe];
    int rc = has_own_note(e, chunk) ? -EDEADLK : lock(&chunk->lock);
    if (rc < 0)
        return rc;
    if (file != TB_NONE)
        atomic_store_explicit(&chunk->file, file, memory_order_relaxed);
    begin_change(chunk);
    bool killed = wait_for_writers(e, chunk);
    if (killed || rc == TB_LOCK_ORPHANED)
        repair(e, stripe);
    return (int)stripe;
}

/*
 * -EDEADLK in a signal handler that interrupted this thread with the lock held, or while it
 * wrote in place.
 */
int tb_chunk_lock(tb_engine *e, uint32_t file, uint64_t offset)
{
    return take(e, tb_chunk_of(e, file, offset).stripe, file, tb_lock_take);
}

bool tb_chunk_try_lock(tb_engine *e, uint32_t stripe)
{
    return take(e, stripe, TB_NONE, tb_lock_try) >= 0;
}

/*
 * The even count is stored before the lock is dropped: a reader without lock believes its
 * copy only between two equal even counts.
 */
void tb_chunk_unlock(tb_engine *e, int stripe)
{
    struct tb_chunk_lock *chunk = &e->region.locks->chunk[stripe];
    assert(chunk->sequence & 1 && chunk->moving == TB_MOVE_NONE);
    TB_ASSERT_WHOLE(tb_chunk_is_whole(e, (uint32_t)stripe));
    drop(chunk);
}

/*
 * Takes a microsecond if no chunk is locked. A lock that is held for another file is not waited for, and a writer in place is not:
 * its bytes are dirty, so a cut or a flush takes the lock of their chunk before they go.
 */
void tb_chunk_wait_all(tb_engine *e, uint32_t file)
{
    atomic_thread_fence(memory_order_seq_cst);
    for (uint32_t stripe = 0; stripe < TB_STRIPES; stripe++) {
        struct tb_chunk_lock *chunk = &e->region.locks->chunk[stripe];
        /* below 0: this thread has it, and a signal handler interrupted it */
        if (chunk->sequence & 1 && chunk->file == file && take(e, stripe, TB_NONE, tb_lock_take) >= 0)
            tb_chunk_unlock(e, (int)stripe);
    }
}

/* Taken in ascending order; others hold at most one stripe, so this cannot deadlock. */
void tb_chunk_lock_all(tb_engine *e)
{
    for (uint32_t stripe = 0; stripe < TB_STRIPES; stripe++)
        take(e, stripe, TB_NONE, tb_lock_take);
}

void tb_chunk_unlock_all(tb_engine *e)
{
    for (uint32_t stripe = TB_STRIPES; stripe-- > 0;)
        tb_chunk_unlock(e, (int)stripe);
}

/* A free word that is this client's now, and says so: clients begin to look at different ones. */
static bool take_word(tb_engine *e, struct tb_chunk_lock *chunk, uint64_t range, struct tb_chunk_note *note)
{
    for (uint32_t i = 0; i < TB_CHUNK_WRITERS; i++) {
        _Atomic uint64_t *word = &chunk->writer[(e->slot + i) % TB_CHUNK_WRITERS];
        uint64_t seen = atomic_load_explicit(word, memory_order_relaxed);
        if (client_of(seen))
            continue;
        *note = (struct tb_chunk_note){word, (uint64_t)(e->slot + 1) << CLIENT_SHIFT | range | ((seen + 1) & USES_MASK)};
        own_note = word;
        if (atomic_compare_exchange_strong(word, &seen, note->value))
            return true;
    }
    own_note = NULL;
    return false;
}

static bool others_overlap(const struct tb_chunk_lock *chunk, const struct tb_chunk_note *note)
{
    for (uint32_t i = 0; i < TB_CHUNK_WRITERS; i++) {
        uint64_t other = chunk->writer[i];
        if (&chunk->writer[i] != note->word && client_of(other) && overlap(other, note->value))
            return true;
    }
    return false;
}

/* A thread has one note at a time: a handler that interrupted it takes the lock, and is told where that is not possible. */
bool tb_chunk_begin_writing(tb_engine *e, uint32_t stripe, uint64_t offset, uint64_t n, struct tb_chunk_note *note)
{
    struct tb_chunk_lock *chunk = &e->region.locks->chunk[stripe];
    assert(e->slot < e->region.n_clients);
    if (own_note || !take_word(e, chunk, range_of(e, offset, n), note))
        return false;
    if (chunk->sequence & 1 || others_overlap(chunk, note)) {
        tb_chunk_end_writing(note);
        return false;
    }
    atomic_thread_fence(memory_order_release); /* the note is there before any byte that is written */
    return true;
}

void tb_chunk_end_writing(const struct tb_chunk_note *note)
{
    atomic_store_explicit(note->word, note->value & ~CLIENT_MASK, memory_order_release);
    atomic_signal_fence(memory_order_seq_cst);
    own_note = NULL;
}

static bool has_note_of(const struct tb_chunk_lock *chunk, uint32_t slot)
{
    bool found = false;
    for (uint32_t i = 0; i < TB_CHUNK_WRITERS; i++)
        found |= client_of(chunk->writer[i]) == slot + 1;
    return found;
}

/* Locked by registry.lock: the slot is of no other client yet. */
void tb_chunks_forget_client(tb_engine *e, uint32_t slot)
{
    for (uint32_t stripe = 0; stripe < TB_STRIPES; stripe++)
        if (has_note_of(&e->region.locks->chunk[stripe], slot) && take(e, stripe, TB_NONE, tb_lock_take) >= 0)
            tb_chunk_unlock(e, (int)stripe);
}

bool tb_chunk_is_being_written(const tb_engine *e, const struct tb_chunk_view *view, uint64_t offset, uint64_t n)
{
    uint64_t range = range_of(e, offset, n);
    bool found = false;
    for (uint32_t i = 0; i < TB_CHUNK_WRITERS; i++)
        found |= client_of(view->writer[i]) && overlap(view->writer[i], range);
    return found;
}

/* A word that was used once since, and not for the range, is no harm; used more often, it may be. */
bool tb_chunk_was_written(const tb_engine *e, const struct tb_chunk_view *before, const uint64_t *now, uint64_t offset, uint64_t n)
{
    uint64_t range = range_of(e, offset, n);
    bool found = false;
    for (uint32_t i = 0; i < TB_CHUNK_WRITERS; i++) {
        uint64_t uses = (now[i] - before->writer[i]) & USES_MASK;
        found |= uses > 1 || (uses == 1 && overlap(now[i], range));
    }
    return found;
}
