/*
 * Transfers that move nothing: what a run takes then is the driver's own work, MPI's, and the waits that were asked for
 * in the place of a device. No file is made, looked at or removed.
 */
#include "tb_ior.h"

#include <unistd.h>

static const char *dummy_version(void)
{
    return "0.5"; /* of IOR's own, which reports name */
}

static void wait_us(const struct tb_file *f, int microseconds)
{
    if (microseconds && (!f->options->dummy.only_rank0 || f->world->rank == 0))
        usleep((useconds_t)microseconds);
}

/* Opening a file that exists takes no time in IOR either. */
static void dummy_open(struct tb_file *f, bool create, bool shared)
{
    (void)shared;
    if (create)
        wait_us(f, f->options->dummy.create_us);
}

static void dummy_write(struct tb_file *f, const void *data, size_t bytes, int64_t offset)
{
    (void)data, (void)bytes, (void)offset;
    wait_us(f, f->options->dummy.transfer_us);
}

static void dummy_read(struct tb_file *f, void *data, size_t bytes, int64_t offset)
{
    dummy_write(f, data, bytes, offset);
}

static void dummy_sync(struct tb_file *f)
{
    (void)f;
}

static void dummy_close(struct tb_file *f)
{
    wait_us(f, f->options->dummy.close_us);
}

const struct tb_backend tb_dummy = {.name = "DUMMY",
                                    .version = dummy_version,
                                    .no_files = true,
                                    .open = dummy_open,
                                    .write = dummy_write,
                                    .read = dummy_read,
                                    .sync = dummy_sync,
                                    .sync_transfer = dummy_sync,
                                    .close = dummy_close};
