/*
 * The flags of a file's record, changed only here, by named transitions. A flag is one
 * atomic word. Transitions that must not race with a journal record or with a rename are
 * made under the file's lock; the header says which.
 */
#include "file/state.h"

#include "file/file.h"

static void set(struct tb_file *f, uint32_t flags)
{
    f->flags |= flags;
}

static void clear(struct tb_file *f, uint32_t flags)
{
    f->flags &= ~flags;
}

/* Under the file's lock, so that no journal record is appended for the file at the same time. */
static void set_locked(tb_engine *e, uint32_t file, uint32_t flags)
{
    int stripe = tb_file_lock(e, file);
    set(&e->region.files[file], flags);
    tb_file_unlock(e, stripe);
}

void tb_file_begin_naming(tb_engine *e, uint32_t file)
{
    set_locked(e, file, TB_FILE_HELD);
}

void tb_file_begin_cut(tb_engine *e, uint32_t file)
{
    set_locked(e, file, TB_FILE_CUTTING | TB_FILE_HELD);
}

void tb_file_end_cut(struct tb_file *f)
{
    clear(f, TB_FILE_CUTTING | TB_FILE_HELD);
}

/* A cut that a killed client began goes on, and keeps HELD until it ends. */
void tb_file_end_naming(struct tb_file *f)
{
    if (!(f->flags & TB_FILE_CUTTING))
        clear(f, TB_FILE_HELD);
}

void tb_file_lose_name(struct tb_file *f)
{
    set(f, TB_FILE_UNLINKED);
}

void tb_file_take_place(struct tb_file *f)
{
    clear(f, TB_FILE_WAITING);
}

/* A tied file keeps its bytes: they are flushed again when it gets a name. */
void tb_file_tie(struct tb_file *f)
{
    set(f, TB_FILE_TIED);
}

bool tb_file_untie(struct tb_file *f)
{
    return atomic_fetch_and(&f->flags, ~(uint32_t)TB_FILE_TIED) & TB_FILE_TIED;
}

void tb_file_enqueue(struct tb_file *f)
{
    set(f, TB_FILE_QUEUED);
}

/* In one store: the record is kept by one of the two, and no other client queues the file in between. */
static void exchange(struct tb_file *f, uint32_t from, uint32_t to)
{
    uint32_t flags = f->flags;
    while (!atomic_compare_exchange_weak(&f->flags, &flags, (flags & ~from) | to))
        ;
}

void tb_file_dequeue(struct tb_file *f)
{
    exchange(f, TB_FILE_QUEUED, TB_FILE_TAKEN);
}

void tb_file_end_taking(struct tb_file *f)
{
    clear(f, TB_FILE_TAKEN);
}

void tb_file_take_back(struct tb_file *f)
{
    exchange(f, TB_FILE_TAKEN, TB_FILE_QUEUED);
}

void tb_file_become_coherent(struct tb_file *f)
{
    set(f, TB_FILE_COHERENT);
}

void tb_file_stay_buffered(struct tb_file *f)
{
    clear(f, TB_FILE_COHERENT);
}

void tb_file_promise_pfs(struct tb_file *f)
{
    set(f, TB_FILE_FSYNC_PFS);
}

void tb_file_note_overflow(struct tb_file *f)
{
    set(f, TB_FILE_OVERFLOWN);
}

/* The record may have been freed in between, so the magic is checked under the lock. */
void tb_file_write_through(tb_engine *e, uint32_t file)
{
    struct tb_file *f = &e->region.files[file];
    int stripe = tb_file_lock(e, file);
    if (f->magic == TB_FILE_MAGIC && !(f->flags & TB_FILE_SCRATCH))
        set(f, TB_FILE_SYNC);
    tb_file_unlock(e, stripe);
}

/* Both flags in one store: no other process sees one without the other. */
static void change_mode(struct tb_file *f)
{
    f->flags ^= TB_FILE_SYNC | TB_FILE_OTHER_MODE;
}

void tb_file_set_mode(tb_engine *e, uint32_t file, bool write_through)
{
    struct tb_file *f = &e->region.files[file];
    int stripe = tb_file_lock(e, file);
    assert(!(f->flags & TB_FILE_SCRATCH));
    if (!!(f->flags & TB_FILE_SYNC) != write_through)
        change_mode(f);
    tb_file_unlock(e, stripe);
}

/*
 * At the last close: what one file asked for ends with its descriptors. A file with buffers
 * stays coherent: a killed client left them, the PFS may have newer bytes, and only an open
 * of a coherent file drops them.
 */
void tb_file_end_opens(struct tb_file *f)
{
    if (f->flags & TB_FILE_OTHER_MODE)
        change_mode(f);
    clear(f, TB_FILE_FSYNC_PFS | (f->n_buffers ? 0 : TB_FILE_COHERENT));
}

/*
 * The order matters: a scratch file is never flushed; an unlinked one has no bytes to
 * keep; only then does it count what is dirty.
 */
TB_UNLOCKED enum tb_flush_state tb_file_flush_state(const struct tb_file *f)
{
    uint32_t flags = f->flags;
    return flags & TB_FILE_SCRATCH                   ? TB_FLUSH_SCRATCH
         : flags & TB_FILE_UNLINKED                  ? TB_FLUSH_VOID
         : !f->n_dirty && !(flags & TB_FILE_WAITING) ? TB_FLUSH_NOTHING
         : flags & TB_FILE_TIED                      ? TB_FLUSH_TIED
                                                     : TB_FLUSH_DUE;
}

bool tb_file_state_is_valid(const struct tb_file *f)
{
    uint32_t flags = f->flags;
    return (!(flags & TB_FILE_CUTTING) || flags & TB_FILE_HELD) && (!(flags & TB_FILE_QUEUED) || !(flags & TB_FILE_TAKEN)) &&
           (!(flags & TB_FILE_SCRATCH) || !(flags & (TB_FILE_OTHER_MODE | TB_FILE_WAITING)));
}
