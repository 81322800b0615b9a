/*
 * Files that wait for a flush thread of tierd, in the region (struct tb_queue). A file is in
 * it while it is QUEUED. If a holder of the lock was killed, the list is rebuilt from these
 * flags, so no file is lost, and at most the order is.
 */
#include "flush/queue.h"

#include <sched.h>
#include <time.h>

#include "base/clock.h"
#include "base/kill_point.h"
#include "base/wait.h"
#include "file/file.h"
#include "file/state.h"
#include "region/clients.h"
#include "region/event.h"

#define SOON_NS 20000    /* a thread looks so long before it sleeps: to be woken costs about as much, and the client a call */
#define IDLE_NS 50000000 /* a thread without work looks at least this often: the process that should wake it may have been killed */

#define LOOK_NS 50000    /* how often a process that handed a file over looks whether it was taken, */
#define QUEUED_LOOKS 40u /* so often at most: then all flush threads have other work */

/* Rebuild the queue from the QUEUED flags. What a flush thread took has another flag, so no file is listed twice. */
static void repair_queue(tb_engine *e)
{
    struct tb_header *h = e->header;
    h->queue.head = h->queue.tail = TB_NONE;
    for (uint32_t i = 0; i < e->region.n_file_buckets; i++) {
        struct tb_file *f = &e->region.files[i];
        if (f->magic != TB_FILE_MAGIC || !(f->flags & TB_FILE_QUEUED))
            continue;
        f->queue_next = h->queue.head;
        h->queue.head = i;
        if (h->queue.tail == TB_NONE)
            h->queue.tail = i;
    }
}

bool tb_queue_is_valid(const tb_engine *e)
{
    const struct tb_queue *q = &e->header->queue;
    return (q->head == TB_NONE) == (q->tail == TB_NONE) && (q->head == TB_NONE || q->head < e->region.n_file_buckets);
}

/* If the holder was killed, the queue is rebuilt from the flags. */
static void lock_queue(tb_engine *e)
{
    if (tb_lock_take(&e->header->queue.lock) == TB_LOCK_ORPHANED)
        repair_queue(e);
    assert(tb_queue_is_valid(e));
}

void tb_flush_requeue(tb_engine *e)
{
    lock_queue(e);
    for (uint32_t i = 0; i < e->region.n_file_buckets; i++)
        if (e->region.files[i].flags & TB_FILE_TAKEN)
            tb_file_take_back(&e->region.files[i]);
    repair_queue(e);
    tb_lock_drop(&e->header->queue.lock);
}

/* Locked by the file and the queue. The flag is set first: if killed after it, repair puts the file into the queue. */
void tb_flush_queue(tb_engine *e, uint32_t file)
{
    struct tb_header *h = e->header;
    struct tb_file *f = &e->region.files[file];
    int stripe = tb_file_lock(e, file);
    lock_queue(e);
    bool to_queue = f->magic == TB_FILE_MAGIC && !(f->flags & (TB_FILE_QUEUED | TB_FILE_TAKEN));
    if (to_queue) {
        f->queue_next = TB_NONE;
        tb_file_enqueue(f);
        TB_STEP("queue flag");
        if (h->queue.tail == TB_NONE)
            h->queue.head = file;
        else
            e->region.files[h->queue.tail].queue_next = file;
        TB_STEP("queue link");
        h->queue.tail = file;
    }
    tb_lock_drop(&h->queue.lock);
    tb_file_unlock(e, stripe);
    if (!to_queue)
        return;
    h->queue.event++;
    if (atomic_exchange(&h->queue.asleep, false))
        tb_event_wake(&h->queue.event);
}

/* A thread that took the file waits for its claim as the caller would; if it is killed, no daemon lives. */
void tb_flush_hand_over(tb_engine *e, uint32_t file)
{
    const struct tb_file *f = &e->region.files[file];
    struct tb_wait wait = {0};
    tb_flush_queue(e, file);
    for (uint32_t looks = 0; f->flags & TB_FILE_TAKEN || (f->flags & TB_FILE_QUEUED && looks < QUEUED_LOOKS); looks++) {
        if (!tb_daemon_is_alive(e->header))
            break;
        tb_wait_go_on(&wait, e->header->daemon.pid);
        nanosleep(&(struct timespec){0, LOOK_NS}, NULL);
    }
    tb_wait_end(&wait);
}

/*
 * The caller claims the file, and then ends TAKEN: until then the record cannot be freed. If
 * killed before that, tb_flush_requeue puts it back.
 */
uint32_t tb_flush_dequeue(tb_engine *e)
{
    struct tb_header *h = e->header;
    lock_queue(e);
    uint32_t file = h->queue.head;
    if (file != TB_NONE) {
        h->queue.head = e->region.files[file].queue_next;
        TB_STEP("dequeue");
        if (h->queue.head == TB_NONE)
            h->queue.tail = TB_NONE;
        e->region.files[file].queue_next = TB_NONE;
        tb_file_dequeue(&e->region.files[file]);
    }
    tb_lock_drop(&h->queue.lock);
    return file;
}

/* Gives way each time: on a busy machine the client that is waited for may need this core. */
static bool comes_soon(const tb_engine *e, uint32_t seen)
{
    for (uint64_t until = tb_now_ns() + SOON_NS; e->header->queue.event == seen; sched_yield())
        if (tb_now_ns() > until)
            return false;
    return true;
}

/* A daemon that was killed while it slept leaves `asleep` set: that costs the next client one call in vain. */
void tb_flush_wait(tb_engine *e, uint32_t seen, bool look_first)
{
    if (look_first && comes_soon(e, seen))
        return;
    e->header->queue.asleep = true;
    tb_event_wait(&e->header->queue.event, seen, IDLE_NS);
}
