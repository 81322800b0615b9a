/*
 * The undo layer; see chain/undo/undo.h. What it does for itself goes to the bottom of the chain, so that no fault hits it
 * and no model charges it. A log that cannot be written ends the process: a test that goes on without it would prove
 * nothing.
 */
#include "chain/undo/undo.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/identity.h"
#include "io/io_layer.h"
#include "io/whole.h"

struct undo {
    struct tb_io io;
    struct tb_io_ops ops;
    struct tb_io *base; /* the last layer, for the log and for what is read */
    int log;
    _Atomic uint64_t syncs; /* of this chain: with the process's id, the number of a sync */
};

/*
 * One append of the whole record: processes share the log, and O_APPEND keeps theirs from mixing. A writer that is killed
 * in it does not come to what it was about to do; what it left of a record is passed over by the reader of the log.
 */
static void note(struct undo *u, const struct tb_undo *r, const void *bytes)
{
    assert(r->magic == TB_UNDO_MAGIC && (bytes || !r->length));
    size_t n = sizeof(*r) + (size_t)r->length;
    char *both = malloc(n);
    if (!both)
        abort();
    memcpy(both, r, sizeof(*r));
    if (r->length)
        memcpy(both + sizeof(*r), bytes, (size_t)r->length);
    if (TB_IO(u->base, write, u->log, both, n) != (ssize_t)n)
        abort();
    free(both);
}

/*
 * What the file has from `offset` on, through a descriptor of our own: the caller's may be write-only. Past its end, `size`,
 * there is nothing to note. A file that cannot be read ends the process, as undoing it would be a guess.
 */
static void note_bytes(struct undo *u, int fd, enum tb_undo_kind kind, uint64_t offset, uint64_t length)
{
    struct tb_identity id;
    char path[64];
    struct tb_io *io = u->base;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    int own = TB_IO(io, open, path, O_RDONLY | O_CLOEXEC, 0);
    if (own < 0 || tb_identity_of_fd(own, &id))
        abort();
    assert(!io->next); /* the chain's last layer: no fault, and no note of this read */
    uint64_t size = id.size, there = size > offset ? size - offset : 0;
    struct tb_undo r = {.magic = TB_UNDO_MAGIC,
                        .kind = kind,
                        .inode = id.inode,
                        .birth = (uint64_t)id.birth_ns,
                        .offset = offset,
                        .length = there < length ? there : length,
                        .size = size,
                        .written = kind == TB_UNDO_WRITE ? length : 0};
    char *bytes = malloc(r.length + 1);
    if (!bytes || tb_io_read_all(io, own, bytes, r.length, offset) < 0)
        abort();
    note(u, &r, bytes);
    free(bytes);
    TB_IO(io, close, own);
}

/* The old bytes are noted before the write: if killed between, undoing changes nothing. */
static ssize_t undo_pwrite(struct tb_io *io, int fd, const void *buf, size_t n, off_t offset)
{
    note_bytes((struct undo *)io, fd, TB_UNDO_WRITE, (uint64_t)offset, n);
    return TB_NEXT(io, pwrite, fd, buf, n, offset);
}

/* Only what is cut off is noted: a file that is made longer gets zeros, which undoing cuts off by the size. */
static int undo_ftruncate(struct tb_io *io, int fd, off_t length)
{
    note_bytes((struct undo *)io, fd, TB_UNDO_CUT, (uint64_t)length, UINT64_MAX);
    return TB_NEXT(io, ftruncate, fd, length);
}

/*
 * The end is noted after the sync: if killed between, the writes count as not synced, which is what a crash may show. A
 * sync covers what was written before it began, so its beginning is noted, too; one that failed has no end and covers
 * nothing.
 */
static int undo_fsync(struct tb_io *io, int fd, bool data_only)
{
    struct undo *u = (struct undo *)io;
    struct tb_identity id;
    if (tb_identity_of_fd(fd, &id))
        return TB_NEXT(io, fsync, fd, data_only); /* no descriptor: it says so */
    struct tb_undo r = {.magic = TB_UNDO_MAGIC,
                        .kind = TB_UNDO_SYNC_BEGIN,
                        .inode = id.inode,
                        .birth = (uint64_t)id.birth_ns,
                        .size = (uint64_t)getpid() << 32 | ++u->syncs};
    note(u, &r, NULL);
    int rc = TB_NEXT(io, fsync, fd, data_only);
    r.kind = TB_UNDO_SYNC_END;
    if (!rc)
        note(u, &r, NULL);
    return rc;
}

/* The log is never removed: the test that plays the crash reads it after all processes are dead. */
static void undo_free(struct tb_io *io)
{
    close(((struct undo *)io)->log);
    free(io);
}

static const struct tb_io_ops undo_ops = {
    .name = "undo", .pwrite = undo_pwrite, .ftruncate = undo_ftruncate, .fsync = undo_fsync, .free = undo_free};

struct tb_io *tb_io_undo_new(const struct tb_io_place *place, const char *text, struct tb_io *next)
{
    (void)place;
    if (!text)
        return next;
    struct undo *u = calloc(1, sizeof(*u));
    struct tb_io *base = next;
    while (base->next)
        base = base->next;
    int log = u ? TB_IO(base, open, text, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -ENOMEM;
    if (log < 0) {
        free(u);
        errno = -log;
        return NULL;
    }
    u->base = base;
    u->log = fcntl(log, F_DUPFD_CLOEXEC, 700); /* above those that programs number themselves */
    TB_IO(base, close, log);
    tb_io_layer_init(&u->io, &u->ops, &undo_ops, next);
    return &u->io;
}
