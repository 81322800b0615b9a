/*
 * The bytes of a file: one write from its start, one read, each checked where that is asked. Packets other than time stamps hold
 * the number of the item, so that a file with another item's bytes is found.
 */
#include "tb_mdtest.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

/* A file that cannot be opened ends all ranks: its phase would measure something else. */
static struct tb_posix_file open_file(const struct tb_run *r, const char *path, int flags)
{
    const struct tb_options *o = r->options;
    struct tb_posix_file f = {.path = path, .fd = tb_open(r, path, flags), .range_locks = o->range_locks, .direct = o->direct};
    if (f.fd < 0)
        tb_fail(path, "open", -1, strerror(errno));
    return f;
}

static void close_file(const struct tb_run *r, const struct tb_posix_file *f)
{
    if (tb_close(r, f->fd))
        tb_fail(f->path, "close", -1, strerror(errno));
}

/* Returns whether the bytes are right. */
static bool fetch_and_check(struct tb_run *r, const struct tb_posix_file *f, int64_t bytes, int writer, int64_t number)
{
    tb_spoil(r->data, (size_t)bytes); /* what a read that moves nothing must not find there */
    tb_read(r, f, bytes);
    int64_t at = tb_first_difference(&r->pattern, r->data, (size_t)bytes, writer, number);
    if (at >= 0 && r->wrong++ == 0)
        fprintf(stderr, "%s: %s: wrong data at offset %lld\n", TB_PROGRAM, f->path, (long long)at);
    return at < 0;
}

/*
 * A check of what was written spoils the buffer, so it is filled again where the bytes were
 * wrong.
 */
static void fill(struct tb_run *r, struct tb_posix_file f, int64_t number)
{
    const struct tb_options *o = r->options;
    if (o->write_bytes) {
        tb_mark(&r->pattern, r->data, (size_t)o->write_bytes, r->rank, number);
        tb_write(r, &f, o->write_bytes);
        if (o->sync_file && tb_fsync(r, f.fd))
            tb_fail(f.path, "fsync", -1, strerror(errno));
        if (o->verify_write && !fetch_and_check(r, &f, o->write_bytes, r->rank, number))
            tb_fill(&r->pattern, r->data, (size_t)o->write_bytes, r->rank);
    }
    close_file(r, &f);
}

void tb_file_create(struct tb_run *r, const char *path, int64_t number)
{
    fill(r, open_file(r, path, O_RDWR | O_CREAT), number);
}

void tb_file_write(struct tb_run *r, const char *path, int64_t number)
{
    fill(r, open_file(r, path, r->options->verify_write ? O_RDWR : O_WRONLY), number);
}

/* Opened for writing too, as mdtest does. */
void tb_file_read(struct tb_run *r, const char *path, int writer, int64_t number)
{
    const struct tb_options *o = r->options;
    struct tb_posix_file f = open_file(r, path, O_RDWR);
    if (o->read_bytes && o->verify_read)
        fetch_and_check(r, &f, o->read_bytes, writer, number);
    else if (o->read_bytes)
        tb_read(r, &f, o->read_bytes);
    close_file(r, &f);
}
