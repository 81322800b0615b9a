/*
 * The claim of a file: the client that flushes, cuts or renames it (file/claim.h). A claim
 * is one word with the client's slot, so a claim of a killed client can be taken over
 * without repair. Waiters leave a note, so that a long flush gives way to them.
 */
#include "file/claim.h"

#include <time.h>

#include "base/clock.h"
#include "file/file.h"
#include "region/clients.h"

/* a living waiter looks far more often, also on a busy machine; one that was killed is forgotten after this time */
#define WANTED_NS (500u * TB_CLAIM_LOOK_NS)

bool tb_file_claim_is_wanted(const tb_engine *e, uint32_t file)
{
    return e->header->files.claim_wanted == file && tb_now_ns() - e->header->files.claim_wanted_ns < WANTED_NS;
}

/* One note for all files: a holder of another file's claim sees that it is not meant. A newer waiter overwrites it. */
static void note_wanted(tb_engine *e, uint32_t file)
{
    e->header->files.claim_wanted = file;
    e->header->files.claim_wanted_ns = tb_now_ns();
}

/* The claim was had: it is not waited for any more. Other waiters leave their note again at their next look. */
static void note_done(tb_engine *e, uint32_t file, const struct tb_wait *wait)
{
    if (wait->since_ns)
        atomic_compare_exchange_strong(&e->header->files.claim_wanted, &file, TB_NONE);
    tb_wait_end(wait);
}

/* Wait until a waiter has claimed the file, or no waiter looks any more. */
void tb_file_let_others_claim(const tb_engine *e, uint32_t file)
{
    while (tb_file_claim_is_wanted(e, file) && !e->region.files[file].flusher)
        nanosleep(&(struct timespec){0, TB_CLAIM_LOOK_NS}, NULL);
}

/* The exchange fails if another client took over the dead holder's claim first. `*holder`: client slot + 1 that has it. */
static bool exchange(tb_engine *e, uint32_t file, uint32_t *holder)
{
    struct tb_file *f = &e->region.files[file];
    *holder = 0;
    if (atomic_compare_exchange_strong(&f->flusher, holder, e->slot + 1))
        return true;
    return tb_slot_is_dead(e, *holder - 1) && atomic_compare_exchange_strong(&f->flusher, holder, e->slot + 1);
}

enum outcome { RECORD_IS_FREE, CLAIMED, CLAIM_IS_HELD };

/* The caller may have no hold on the record: then it may be free, and become another file's under another lock. */
static TB_UNLOCKED bool is_live(const struct tb_file *f)
{
    return f->magic == TB_FILE_MAGIC;
}

/* The file's lock is held only for the try: the record cannot become another file's in between. */
static enum outcome try_claim(tb_engine *e, uint32_t file, uint32_t *holder)
{
    int stripe = tb_file_lock(e, file);
    bool live = is_live(&e->region.files[file]);
    bool claimed = live && exchange(e, file, holder);
    tb_file_unlock(e, stripe);
    return claimed ? CLAIMED : live ? CLAIM_IS_HELD : RECORD_IS_FREE;
}

bool tb_file_try_claim(tb_engine *e, uint32_t file)
{
    uint32_t holder;
    return try_claim(e, file, &holder) == CLAIMED;
}

/* Waits as long as a living client holds the claim. */
bool tb_file_claim(tb_engine *e, uint32_t file)
{
    struct tb_wait wait = {0};
    for (;;) {
        uint32_t holder;
        enum outcome outcome = try_claim(e, file, &holder);
        if (outcome != CLAIM_IS_HELD)
            return note_done(e, file, &wait), outcome == CLAIMED;
        tb_wait_go_on(&wait, holder ? e->region.clients[holder - 1].pid : 0);
        note_wanted(e, file);
        nanosleep(&(struct timespec){0, TB_CLAIM_LOOK_NS}, NULL);
    }
}

void tb_file_unclaim(tb_engine *e, uint32_t file)
{
    assert(tb_file_is_claimed(e, file));
    e->region.files[file].flusher = 0;
    tb_file_release(e, file); /* the last close may have left the record because of this claim */
}
