/*
 * Lent memory: one mapping a borrower, with the number of the last use of each buffer (lend.h). Several buffers have one lock.
 * A use compares its number and copies under that lock, so a late use never mixes its bytes with those of a later one.
 *
 * The memory is this process's own and is in no file: when the daemon ends, or is killed, the bytes in it are gone.
 */
#include "lend.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "shared/borrow.h"

#define LOCKS 64u

struct piece {
    pthread_mutex_t lock[LOCKS];
    char *bytes;        /* NULL: given back */
    uint64_t *last;     /* of each unit, where a buffer begins: the number of its last use */
    uint64_t missed_ns; /* since when its borrower is lost; 0: it lives */
};

struct lend {
    uint64_t section;
    unsigned n;
    struct piece piece[];
};

/* Each buffer begins at a unit of its own (TB_BORROW_UNIT). One more, for a place at the very end. */
static uint64_t n_units(const struct lend *l)
{
    return l->section / TB_BORROW_UNIT + 1;
}

/* Leaves the locks, so that a late use finds `bytes` NULL under one of them. */
static void free_piece(const struct lend *l, struct piece *p)
{
    if (p->bytes)
        munmap(p->bytes, l->section);
    free(p->last);
    p->bytes = NULL;
    p->last = NULL;
}

/* Kernels before 5.14 do not know the call: there the memory is taken as it is used. */
static int touch(char *bytes, uint64_t n)
{
    madvise(bytes, n, MADV_HUGEPAGE);
    return madvise(bytes, n, MADV_POPULATE_WRITE) == 0 || errno == EINVAL ? 0 : -ENOMEM;
}

static int make_piece(const struct lend *l, struct piece *p)
{
    void *bytes = mmap(NULL, l->section, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (unsigned i = 0; i < LOCKS; i++)
        pthread_mutex_init(&p->lock[i], NULL);
    p->bytes = bytes == MAP_FAILED ? NULL : bytes;
    p->last = calloc(n_units(l), sizeof(*p->last));
    return p->bytes && p->last ? touch(p->bytes, l->section) : -ENOMEM;
}

int lend_begin(uint64_t section, unsigned n_nodes, struct lend **out)
{
    unsigned n = section ? n_nodes - 1 : 0;
    struct lend *l = calloc(1, sizeof(*l) + n * sizeof(l->piece[0]));
    int rc = l ? 0 : -ENOMEM;
    if (l)
        *l = (struct lend){.section = section, .n = n};
    for (unsigned i = 0; i < n && !rc; i++)
        rc = make_piece(l, &l->piece[i]);
    if (rc) {
        lend_end(l);
        return rc;
    }
    *out = l;
    return 0;
}

void lend_end(struct lend *l)
{
    for (unsigned i = 0; l && i < l->n; i++)
        free_piece(l, &l->piece[i]);
    free(l);
}

/*
 * What another node sends is checked first. `lo` is where its buffer begins in the piece, and `hi` where the bytes begin.
 * NULL: `w` names bytes that are not all in the piece.
 */
static struct piece *piece_of(struct lend *l, unsigned borrower, const struct tb_wire *w)
{
    bool fits =
        borrower < l->n && w->lo % TB_BORROW_UNIT == 0 && w->lo <= w->hi && w->hi <= l->section && w->n <= l->section - w->hi && w->n > 0;
    return fits ? &l->piece[borrower] : NULL;
}

/* By where the buffer begins, so all uses of one buffer have the same lock. */
static pthread_mutex_t *lock_of(struct piece *p, const struct tb_wire *w)
{
    return &p->lock[w->lo / TB_BORROW_UNIT % LOCKS];
}

/* A use with an older number than the last one changes nothing: -ESTALE, and the borrower decides whether to try again. */
int64_t lend_put(struct lend *l, unsigned borrower, const struct tb_wire *w, const void *bytes, size_t n)
{
    struct piece *p = piece_of(l, borrower, w);
    if (!p || n != w->n)
        return -EPROTO;
    pthread_mutex_lock(lock_of(p, w));
    uint64_t *last = p->bytes ? &p->last[w->lo / TB_BORROW_UNIT] : NULL;
    int rc = !last ? -ENODATA : *last >= w->version ? -ESTALE : 0;
    if (!rc) {
        memcpy(p->bytes + w->hi, bytes, n);
        *last = w->version;
    }
    pthread_mutex_unlock(lock_of(p, w));
    return rc;
}

/* Reading counts as a use: a write that was sent before it can't change bytes that were read. */
int64_t lend_get(struct lend *l, unsigned borrower, const struct tb_wire *w, void *answer, size_t room)
{
    struct piece *p = piece_of(l, borrower, w);
    if (!p || w->n > room)
        return -EPROTO;
    pthread_mutex_lock(lock_of(p, w));
    uint64_t *last = p->bytes ? &p->last[w->lo / TB_BORROW_UNIT] : NULL;
    if (last) {
        memcpy(answer, p->bytes + w->hi, w->n);
        *last = w->version > *last ? w->version : *last;
    }
    pthread_mutex_unlock(lock_of(p, w));
    return last ? (int64_t)w->n : -ENODATA;
}

/* All locks, in the order of their numbers: no use copies while the mapping goes. */
static void give_back(const struct lend *l, struct piece *p)
{
    for (unsigned i = 0; i < LOCKS; i++)
        pthread_mutex_lock(&p->lock[i]);
    free_piece(l, p);
    for (unsigned i = 0; i < LOCKS; i++)
        pthread_mutex_unlock(&p->lock[i]);
}

/* The first look that misses a borrower notes the time; a later one compares with it. */
bool lend_look(struct lend *l, unsigned borrower, bool alive, uint64_t now_ns)
{
    struct piece *p = borrower < l->n ? &l->piece[borrower] : NULL;
    if (!p || alive || !p->missed_ns) {
        if (p)
            p->missed_ns = alive ? 0 : now_ns;
        return false;
    }
    bool over = p->bytes && now_ns - p->missed_ns > LEND_SECONDS * 1000000000ull;
    if (over)
        give_back(l, p);
    return over;
}

uint64_t lend_bytes(struct lend *l)
{
    uint64_t n = 0;
    for (unsigned i = 0; i < l->n; i++)
        n += l->piece[i].bytes ? l->section : 0;
    return n;
}
