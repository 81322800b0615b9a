/*
 * The engine's way from clients to the daemon (carrier.h): the queue of files that wait for a
 * flush.  A place is a file record of the client; sending is what a close or a write above
 * the watermark does, receiving is what a flush thread of tierd does until it has the file.
 */
#include <stdio.h>
#include <string.h>

#include "buffer/of_file.h"
#include "common/own_instance.h"
#include "file/state.h"
#include "flush/queue.h"
#include "messages/carrier.h"

#define DEVICE 2049
#define BIRTH 1500000000000000000
#define MAX_FILES 262144

static tb_engine *engine;
static uint32_t files[4096]; /* of this client, by place */

static int start(struct tb_job *job)
{
    return tb_own_start(job, &(struct tb_own_needs){.files = MAX_FILES, .memory = 1u << 20});
}

static void join_daemon(struct tb_job *job)
{
    engine = tb_own_join(job);
}

/* The number of the inode tells which process the place belongs to. */
static void join_client(struct tb_job *job)
{
    char path[64];
    join_daemon(job);
    for (uint32_t i = 0; i < (uint32_t)job->depth; i++) {
        struct tb_identity id = {
            .device = DEVICE, .inode = (uint64_t)job->rank << 32 | i, .birth_ns = BIRTH + 1, .links = 1, .regular = true};
        snprintf(path, sizeof(path), "/pfs/client.%d/file.%u", job->rank, i);
        int rc = tb_file_get(engine, -1, &id, path, 0, &files[i]);
        if (rc)
            tb_job_fail(job, "no record for a file: %s", strerror(-rc));
    }
}

static void send(struct tb_job *job, uint32_t place)
{
    (void)job;
    tb_flush_queue(engine, files[place]);
}

/* The event is read before the queue, so a file that is queued in between wakes the wait at once. */
static struct tb_message receive(struct tb_job *job)
{
    (void)job;
    for (;;) {
        uint32_t seen = engine->header->queue.event, file = tb_flush_dequeue(engine);
        if (file == TB_NONE) {
            tb_flush_wait(engine, seen, true);
            continue;
        }
        struct tb_file *f = &engine->region.files[file];
        struct tb_message m = {(uint32_t)(f->inode >> 32), (uint32_t)f->inode};
        tb_file_end_taking(f);
        return m;
    }
}

const struct tb_carrier tb_carrier_engine = {start, tb_own_stop, join_daemon, join_client, send, receive};
