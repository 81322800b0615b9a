#include "repair.h"

#include "file.h"
#include "filemap.h"
#include "opens.h"
#include "slab.h"

/*
 * A buffer in state ALLOCATED is its client's alone until it is published.  The
 * client may have died between the hash and the list: a buffer the hash knows is
 * put into the list, any other goes back to its slab.
 */
static void repair_buffer(tb_engine *e, struct tb_buffer *b)
{
    uint64_t end;
    if (b->file != TB_NONE) {
        uint64_t start = tb_buffer_start(e, b);
        int stripe = tb_chunk_lock(e, b->file, start);
        bool published = stripe >= 0 && tb_map_owner(e, b->file, start, start + 1, &end) == b;
        if (published)
            tb_map_adopt(e, b);
        if (stripe >= 0)
            tb_chunk_unlock(e, stripe);
        if (published)
            return;
    }
    b->fragment = b->prev = TB_NONE; /* a fragment in the making is lost to the pool: there are thousands */
    b->flags = 0;
    tb_slab_give(e, b);
}

/* Before the slot is somebody's again, who would seem to hold them. */
static void release_claims(tb_engine *e, uint32_t slot)
{
    for (uint32_t i = 0; i < e->region.n_file_buckets; i++) {
        struct tb_file *f = &e->region.files[i];
        uint32_t holder = slot + 1;
        if (f->flusher == holder && atomic_compare_exchange_strong(&f->flusher, &holder, 0))
            tb_file_release(e, i);
    }
    uint32_t holder = slot + 1;
    atomic_compare_exchange_strong(&e->header->renamer, &holder, 0);
}

static void repair_client(tb_engine *e, uint32_t slot)
{
    release_claims(e, slot);
    for (uint32_t i = 0; i < e->header->layout.n_buffers; i++) {
        struct tb_buffer *b = &e->region.buffers[i];
        if (b->state == TB_BUFFER_ALLOCATED && b->client == slot)
            repair_buffer(e, b);
    }
    tb_opens_forget_client(e, slot);
}

int tb_repair(tb_engine *e)
{
    int n = 0;
    for (uint32_t i = 0; i < TB_CLIENTS; i++) {
        struct tb_client *c = &e->region.clients[i];
        int pid = c->pid;
        if (!pid || tb_client_is_alive(c))
            continue;
        tb_lock_take(&e->header->clients_lock);
        bool mine = c->pid == pid; /* another repairer may have been here */
        if (mine)
            repair_client(e, i);
        if (mine)
            c->pid = 0;
        tb_lock_drop(&e->header->clients_lock);
        n += mine;
    }
    return n;
}
