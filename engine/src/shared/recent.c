/*
 * Notes of writes (shared/recent.h), in slots of the region: a file has the slot of its number, or none where another file
 * has notes in it. If a process was killed in a slot, its notes are forgotten: then of two writes that nothing orders each
 * may win in a part.
 */
#include "shared/recent.h"

#include <errno.h>

#include "base/valid.h"

#define LOOK_BACK 8u /* latest notes that a write may continue: of so many processes that write in turn */

/* Files of the same remainder share a slot. The second one goes without notes until the slot is empty. */
static struct tb_recent *slot_of(const tb_engine *e, uint32_t file)
{
    return &e->region.recent[file % e->region.n_recent];
}

static bool is_of(const tb_engine *e, uint32_t file, const struct tb_recent *r)
{
    const struct tb_file *f = &e->region.files[file];
    return r->inode == f->inode && r->birth_ns == f->birth_ns;
}

bool tb_recent_is_valid(const struct tb_recent *r)
{
    return r->n <= TB_RECENT_WRITES;
}

bool tb_recent_is_whole(const struct tb_recent *r)
{
    for (uint32_t i = 0; i < r->n; i++)
        if (r->write[i].lo >= r->write[i].hi || r->write[i].list > r->list)
            return false;
    return true;
}

/* The file's slot, locked; NULL, with nothing locked: it has none. `make`: an empty slot becomes the file's. */
static struct tb_recent *lock_slot(tb_engine *e, uint32_t file, bool make)
{
    struct tb_recent *r = slot_of(e, file);
    if (tb_lock_take(&r->lock) == TB_LOCK_ORPHANED)
        r->n = 0;
    if (make && !r->n) {
        r->inode = e->region.files[file].inode;
        r->birth_ns = e->region.files[file].birth_ns;
    }
    assert(tb_recent_is_valid(r));
    TB_ASSERT_WHOLE(tb_recent_is_whole(r));
    if (is_of(e, file, r))
        return r;
    tb_lock_drop(&r->lock);
    return NULL;
}

/* Whether the write continues a note of the list that is yet to begin; then that note grows. Notes of earlier lists never grow. */
static bool widen(struct tb_recent *r, uint64_t lo, uint64_t hi)
{
    for (uint32_t i = r->n; i > 0 && r->n - i < LOOK_BACK; i--) {
        struct tb_recent_write *w = &r->write[i - 1];
        if (w->version || w->list != r->list || lo > w->hi || hi < w->lo)
            continue;
        w->lo = lo < w->lo ? lo : w->lo;
        w->hi = hi > w->hi ? hi : w->hi;
        return true;
    }
    return false;
}

int tb_recent_add(tb_engine *e, uint32_t file, uint64_t lo, uint64_t hi)
{
    struct tb_recent *r = lock_slot(e, file, true);
    if (!r)
        return 0;
    int rc = widen(r, lo, hi) ? 0 : r->n == TB_RECENT_WRITES ? -ENOBUFS : 1;
    if (rc == 1) {
        r->write[r->n] = (struct tb_recent_write){.lo = lo, .hi = hi, .list = r->list};
        r->n++;
        rc = 0;
    }
    tb_lock_drop(&r->lock);
    return rc;
}

/* Writes from here on count for the next list, even if the caller's list has their bytes already: then they are committed twice. */
uint64_t tb_recent_begin(tb_engine *e, uint32_t file)
{
    struct tb_recent *r = lock_slot(e, file, false);
    uint64_t began = r ? r->list++ : 0;
    if (r)
        tb_lock_drop(&r->lock);
    return began;
}

/* Locked. What was kept for earlier commits is not needed any more when a commit had nothing to keep. */
static void tag(struct tb_recent *r, const struct tb_recent_taken *t)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->n; i++) {
        struct tb_recent_write w = r->write[i];
        uint64_t from, to;
        bool named = w.list <= t->began && w.version < t->version && !tb_ranges_inside(&t->left, w.lo, w.hi, &from, &to);
        if (named)
            w.version = t->version;
        if (t->keep || !w.version || w.version > t->version)
            r->write[n++] = w;
    }
    r->n = n;
}

void tb_recent_committed(tb_engine *e, uint32_t file, const struct tb_recent_taken *taken)
{
    struct tb_recent *r = lock_slot(e, file, false);
    if (!r)
        return;
    tag(r, taken);
    tb_lock_drop(&r->lock);
}

bool tb_recent_unsaid(tb_engine *e, uint32_t file, uint64_t lo, uint64_t hi, uint64_t *from, uint64_t *to)
{
    struct tb_recent *r = lock_slot(e, file, false);
    *from = *to = hi;
    for (uint32_t i = 0; r && i < r->n; i++) {
        const struct tb_recent_write *w = &r->write[i];
        uint64_t first = w->lo > lo ? w->lo : lo;
        if (w->version || w->hi <= lo || first >= *from)
            continue;
        *from = first;
        *to = w->hi < hi ? w->hi : hi;
    }
    if (r)
        tb_lock_drop(&r->lock);
    return *from < hi;
}

int tb_recent_newer(tb_engine *e, uint32_t file, uint64_t version, struct tb_ranges *out)
{
    struct tb_recent *r = lock_slot(e, file, false);
    int rc = 0;
    for (uint32_t i = 0; r && i < r->n && !rc; i++)
        if (!r->write[i].version || r->write[i].version > version)
            rc = tb_ranges_add(out, r->write[i].lo, r->write[i].hi);
    if (r)
        tb_lock_drop(&r->lock);
    tb_ranges_settle(out);
    return rc;
}
