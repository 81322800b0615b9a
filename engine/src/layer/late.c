/*
 * Late opens. A program that opens a file and closes it again pays for no more than the kernel's calls: which file it is,
 * and its record, are asked for when the descriptor is used first. Until then its open description knows no file.
 *
 * One open of a process can be late at a time. The low half of `late` of its slot says what is under way:
 *
 *   0              none
 *   OPENING        one that may become late
 *   number + 1     the description that is late; the high half is its name, as a number, or ANY: it may have another one now
 *   LEARNING       its file is being learned, or it is being closed; the high half is the same
 *
 * The thread that moves it away from 0 or from a number has e->late for itself until it stores the next value.
 *
 * The file's record does not count a late open. So when the file's last name goes, the record and its bytes would go too, and the late
 * open would read nothing. Two rules prevent that:
 *   A process removes or replaces a name, and another process may have a late open of it: it flushes the bytes first. What is written
 *   after that goes to the backing file (layer/names.c).
 *   A late open learns its file, and that file has no name: the same.
 * Does the name still lead to the file? That is asked only if any name was removed or changed after the open (struct tb_changes).
 *
 * A process that removes a name counts that first, and then looks for late opens. A process that opens stores the name first, and then
 * looks at the count. So one of the two sees the other.
 *
 * The description is kept for the next late open. So such an open and close takes nothing from the region's free list.
 *
 * Most programs use what they open. After a late open that was used, the next KNOWN_OPENS are not late.
 *
 * Limits: an open is not late that empties its file, gives it a deferred name, or follows a link with the last part of its name;
 * nor in write-through mode, nor with several nodes, where an open looks at what the others committed. A thread that opens while another
 * one does is not late.
 */
#include "layer/late.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/kill_point.h"
#include "buffer/of_file.h"
#include "file/claim.h"
#include "layer/descriptions.h"
#include "layer/end.h"
#include "layer/layer.h"
#include "layer/open.h"
#include "namespace/named.h"
#include "region/counters.h"
#include "tiering/stream.h"

#define OPENING UINT32_MAX
#define LEARNING (UINT32_MAX - 1)
#define ANY 0u
#define KNOWN_OPENS 31    /* after a late one that was used: most programs use what they open, and being late first costs them a tenth */
#define STRANGE_LOOKS 100 /* then a late description is not this process's */

struct tb_late {
    _Atomic uint32_t spare; /* the description that late opens use; TB_NONE: there is none yet */
    _Atomic bool is_kept;   /* other threads may learn it */
    _Atomic uint32_t known; /* so many opens to come are known at once */
    struct tb_opening opening;
    char path[PATH_MAX]; /* the program's: the opening's */
};

/* What this thread does while the state is LEARNING: a signal's handler in it must not wait for that. */
static _Thread_local enum { NOTHING, LEARNS, CLOSES } doing;

int tb_late_new(tb_engine *e)
{
    e->late = calloc(1, sizeof(*e->late));
    if (e->late)
        e->late->spare = TB_NONE;
    return e->late ? 0 : -ENOMEM;
}

static _Atomic uint64_t *word_of(const tb_engine *e)
{
    assert(e->slot < e->region.n_clients);
    return &e->region.clients[e->slot].late;
}

static uint32_t state_of(const tb_engine *e)
{
    return (uint32_t)*word_of(e);
}

static void set_state(const tb_engine *e, uint32_t state)
{
    atomic_store_explicit(word_of(e), state, memory_order_release);
}

/* From one state to another, with the same name; that may become ANY in between. */
static bool move_state(const tb_engine *e, uint32_t from, uint32_t to)
{
    uint64_t word = *word_of(e);
    while ((uint32_t)word == from)
        if (atomic_compare_exchange_weak(word_of(e), &word, word - from + to))
            return true;
    return false;
}

/* A child of a fork that nothing told of shares its parent's slot: then the state can be the other one's. */
static bool is_own(const tb_engine *e, uint32_t state)
{
    return state && state < LEARNING && state == e->late->spare + 1 && e->late->is_kept;
}

/* Of a directory, a device, or where the tables are full. */
static void leave_to_kernel(tb_engine *e)
{
    tb_open_detach(e, e->late->opening.fd);
}

/* Also, other late opens of a file that nothing leads to must find the bytes in it: no record would stay for them. */
static void keep_in_backing(struct tb_opening *o, uint32_t file)
{
    tb_engine *e = o->e;
    bool passes = tb_opening_passes(o, o->id.links && tb_opening_is_named(o));
    int end = passes ? tb_end_lock(e, file, -1) : -1;
    if (end < 0)
        return;
    tb_file_claim(e, file);
    tb_layer_become_coherent(e, file, o->fd, o->flags);
    tb_file_unclaim(e, file);
    tb_end_unlock(e, end);
}

/*
 * `e->late` is this thread's. The description gets its file last, for then another thread may close it. A handler of a signal may have
 * done it all in between: then its file stays.
 */
static void learn(tb_engine *e)
{
    struct tb_late *l = e->late;
    struct tb_opening *o = &l->opening;
    uint32_t open = l->spare, none = TB_NONE;
    atomic_store_explicit(&l->known, KNOWN_OPENS, memory_order_relaxed);
    if (tb_opening_know(o) != TB_OPENED_KNOWN) {
        leave_to_kernel(e);
        return;
    }
    uint32_t file = o->file;
    tb_opening_update(o);
    keep_in_backing(o, file);
    tb_reader_open(e, open, o->path);
    TB_STEP("late open knows its file");
    if (atomic_compare_exchange_strong(&e->region.opens[open].file, &none, file))
        l->spare = TB_NONE;
    else if (tb_file_put(e, file))
        tb_file_forget(e, file);
}

/* False: another thread has begun to, or closes it. */
static bool learn_first(tb_engine *e, uint32_t state)
{
    if (!is_own(e, state) || !move_state(e, state, LEARNING))
        return false;
    doing = LEARNS;
    learn(e);
    doing = NOTHING;
    set_state(e, 0);
    return true;
}

/* The caller's descriptor has a description without a file. In a child that nothing told of its fork it is the parent's. */
struct tb_open *tb_late_known(tb_engine *e, int fd)
{
    for (int look = 0; look < STRANGE_LOOKS;) {
        uint32_t bound = *tb_open_slot(e, fd), state = state_of(e);
        if (!bound || (state == LEARNING && doing == CLOSES))
            return NULL;
        if (e->region.opens[bound - 1].file != TB_NONE)
            return &e->region.opens[bound - 1];
        if (state == LEARNING && doing == LEARNS)
            learn(e);
        else if (state != bound || !learn_first(e, state)) {
            look += state != LEARNING;
            sched_yield();
        }
    }
    tb_open_detach(e, fd);
    return NULL;
}

void tb_late_learn(tb_engine *e)
{
    while (e->slot != TB_NONE && !e->passes_through) {
        uint32_t state = state_of(e);
        if (state == LEARNING ? doing != NOTHING : !is_own(e, state))
            return;
        if (state == LEARNING)
            sched_yield();
        else
            learn_first(e, state);
    }
}

void tb_engine_know(tb_engine *e, int fd)
{
    tb_open_of(e, fd);
}

void tb_late_forget(tb_engine *e)
{
    e->late->spare = TB_NONE;
}

static bool may_be_late(const tb_engine *e, int flags)
{
    return e->slot != TB_NONE && !e->passes_through && !e->header->config.several_nodes && !(flags & (O_TRUNC | O_PATH | O_DIRECTORY));
}

/* Threads that count at the same time may count one open less. */
static bool is_expected_unused(struct tb_late *l)
{
    uint32_t known = atomic_load_explicit(&l->known, memory_order_relaxed);
    if (known)
        atomic_store_explicit(&l->known, known - 1, memory_order_relaxed);
    return !known;
}

struct tb_opening *tb_late_begin(tb_engine *e, int flags)
{
    struct tb_late *l = e->late;
    if (!is_expected_unused(l))
        return NULL;
    uint32_t state = may_be_late(e, flags) ? state_of(e) : OPENING;
    if (state >= LEARNING || (state && !learn_first(e, state)) || !move_state(e, 0, OPENING))
        return NULL;
    l->is_kept = false;
    return &l->opening;
}

/* A description that got a file is no spare: a child that nothing told of its fork may have given it one. */
static bool has_spare(tb_engine *e, int flags)
{
    struct tb_late *l = e->late;
    if (l->spare == TB_NONE || e->region.opens[l->spare].file != TB_NONE)
        l->spare = tb_open_new(e, TB_NONE, flags);
    if (l->spare == TB_NONE)
        return false;
    atomic_store_explicit(&e->region.opens[l->spare].flags, flags, memory_order_relaxed);
    return true;
}

/* If a name was removed while the file was opened, or is being removed, it may be this one: then the open is not late. */
bool tb_late_keep(tb_engine *e, struct tb_opening *o)
{
    const struct tb_place *p = &o->place;
    size_t size = strlen(o->path) + 1;
    if (!p->managed || p->waits || p->mode == TB_MODE_PERSISTENT_SYNC || size > sizeof(e->late->path) || !has_spare(e, o->flags) ||
        tb_open_bind(e, o->fd, e->late->spare))
        return false;
    memcpy(e->late->path, o->path, size);
    uint32_t state = e->late->spare + 1;
    atomic_store(word_of(e), (uint64_t)tb_name_number(p->path) << 32 | state);
    bool kept = tb_changes_begun(e->header) == o->n_changes;
    if (!kept) {
        tb_open_detach(e, o->fd);
        move_state(e, state, OPENING);
        return false;
    }
    o->path = e->late->path;
    atomic_store_explicit(&e->late->is_kept, true, memory_order_release);
    return true;
}

void tb_late_end(tb_engine *e)
{
    set_state(e, 0);
}

struct tb_io *tb_late_unbind(tb_engine *e, int fd)
{
    const _Atomic uint32_t *slot = tb_open_slot(e, fd);
    uint32_t bound = slot && e->slot != TB_NONE ? *slot : 0;
    if (!bound || !is_own(e, bound) || !move_state(e, bound, LEARNING))
        return NULL;
    doing = CLOSES;
    struct tb_io *io = e->late->opening.place.io;
    tb_open_detach(e, fd);
    doing = NOTHING;
    set_state(e, 0);
    return io;
}

/* True: the late open may be of that name. From then on its file may have any name. */
static bool lose_name(_Atomic uint64_t *late, uint32_t name)
{
    uint64_t word = *late;
    while ((uint32_t)word && (uint32_t)word != OPENING && (word >> 32 == name || word >> 32 == ANY))
        if (atomic_compare_exchange_weak(late, &word, (uint32_t)word))
            return true;
    return false;
}

/* A dead client counts until it is repaired. If this client has a late open, another thread made it. */
bool tb_late_lose_name(tb_engine *e, const char *path)
{
    uint32_t name = tb_name_number(path);
    bool taken = false;
    for (uint32_t i = 0; i < e->header->registry.n_used; i++)
        if (e->region.clients[i].pid)
            taken |= lose_name(&e->region.clients[i].late, name);
    return taken;
}
