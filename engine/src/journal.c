#include "journal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "file.h"
#include "medium.h"

uint64_t tb_checksum(const void *bytes, size_t n)
{
    return XXH3_64bits(bytes, n);
}

static uint64_t record_checksum(const struct tb_record *r)
{
    struct tb_record head = *r;
    head.checksum = 0;
    return XXH3_64bits_withSeed(tb_record_path(r), r->path_length, XXH3_64bits(&head, sizeof(head)));
}

/* Space is reserved under the lock, bytes are written outside it: appenders do not wait for each other's device. */
static int append(tb_engine *e, struct tb_record *r, const char *path)
{
    struct tb_header *h = e->header;
    union {
        struct tb_record record;
        char bytes[(sizeof(struct tb_record) + TB_PATH_MAX + TB_JOURNAL_SLOT - 1) / TB_JOURNAL_SLOT * TB_JOURNAL_SLOT];
    } out;
    memset(&out, 0, sizeof(out));
    r->path_length = (uint32_t)strlen(path);
    r->magic = TB_JOURNAL_MAGIC;
    r->slots = (uint32_t)((sizeof(*r) + r->path_length + TB_JOURNAL_SLOT - 1) / TB_JOURNAL_SLOT);
    r->sequence = ++h->sequence;
    out.record = *r;
    memcpy(out.bytes + sizeof(*r), path, r->path_length);
    out.record.checksum = record_checksum(&out.record);
    size_t n = (size_t)r->slots * TB_JOURNAL_SLOT;
    tb_lock_take(&h->journal_lock);
    uint64_t at = h->journal_end;
    h->journal_end += n;
    tb_lock_drop(&h->journal_lock);
    return tb_io_write_all(e->tier[e->journal_tier], e->journal_fd, &out, n, at);
}

int tb_journal_create(tb_engine *e)
{
    struct tb_record r = {.type = TB_RECORD_HEADER, .digest = e->header->digest};
    e->header->journal_end = 0;
    return append(e, &r, e->header->config.file);
}

static int append_for(tb_engine *e, uint32_t file, struct tb_record *r)
{
    const struct tb_file *f = &e->region.files[file];
    char path[TB_PATH_MAX];
    int stripe = tb_file_lock(e, file);
    tb_file_path(e, f, path, sizeof(path));
    tb_file_unlock(e, stripe);
    r->device = f->device;
    r->inode = f->inode;
    r->birth_ns = f->birth_ns;
    r->size = f->size;
    return append(e, r, path);
}

int tb_journal_write(tb_engine *e, uint32_t file, const struct tb_buffer *b, uint32_t lo, uint32_t hi, uint64_t checksum)
{
    struct tb_record r = {.type = TB_RECORD_WRITE, .offset = tb_buffer_start(e, b) + lo, .length = hi - lo, .byte = lo,
                          .slab = b->slab, .buffer = tb_buffer_number(e, b) - tb_slab_layout(e, b)->first_buffer,
                          .data_checksum = checksum};
    return append_for(e, file, &r);
}

int tb_journal_drop(tb_engine *e, uint32_t file, uint64_t offset, uint64_t length)
{
    return append_for(e, file, &(struct tb_record){.type = TB_RECORD_DROP, .offset = offset, .length = length});
}

int tb_journal_rename(tb_engine *e, uint32_t file)
{
    return append_for(e, file, &(struct tb_record){.type = TB_RECORD_RENAME});
}

int tb_journal_sync(tb_engine *e)
{
    struct tb_io *io = e->tier[e->journal_tier];
    return io->ops->fsync(io, e->journal_fd, true);
}

void tb_journal_trim(tb_engine *e)
{
    struct tb_header *h = e->header;
    struct tb_io *io = e->tier[e->journal_tier];
    if (h->n_journaled)
        return;
    /* An appender that has its record but not yet its count would lose it: it counts first (see promise.c). */
    tb_lock_take(&h->journal_lock);
    bool empty = h->n_journaled == 0 && h->journal_end >= 64 * TB_JOURNAL_SLOT;
    uint64_t header = (sizeof(struct tb_record) + strlen(h->config.file) + TB_JOURNAL_SLOT - 1) / TB_JOURNAL_SLOT * TB_JOURNAL_SLOT;
    if (empty && io->ops->ftruncate(io, e->journal_fd, (off_t)header) == 0)
        h->journal_end = header;
    tb_lock_drop(&h->journal_lock);
}

static bool is_sound(const struct tb_record *r, size_t rest)
{
    return r->magic == TB_JOURNAL_MAGIC && r->slots && (size_t)r->slots * TB_JOURNAL_SLOT <= rest &&
           sizeof(*r) + r->path_length <= (size_t)r->slots * TB_JOURNAL_SLOT && r->path_length < TB_PATH_MAX &&
           r->checksum == record_checksum(r);
}

static bool is_zero(const char *slot)
{
    static const char zeros[TB_JOURNAL_SLOT];
    return memcmp(slot, zeros, TB_JOURNAL_SLOT) == 0;
}

static int scan(const char *bytes, size_t n, int (*each)(void *, const struct tb_record *),
                int (*damaged)(void *, uint64_t), void *arg)
{
    bool in_damage = false;
    int rc = 0;
    for (size_t at = 0; at + TB_JOURNAL_SLOT <= n && !rc;) {
        const struct tb_record *r = (const struct tb_record *)(bytes + at);
        if (is_sound(r, n - at)) {
            rc = each(arg, r);
            at += (size_t)r->slots * TB_JOURNAL_SLOT;
            in_damage = false;
            continue;
        }
        if (!is_zero(bytes + at) && !in_damage) {
            rc = damaged(arg, at);
            in_damage = true;
        }
        at += TB_JOURNAL_SLOT;
    }
    return rc;
}

int tb_journal_read(int fd, int (*each)(void *, const struct tb_record *), int (*damaged)(void *, uint64_t), void *arg)
{
    struct tb_io *io = tb_io_libc();
    struct stat st;
    int rc = io->ops->fstat(io, fd, &st);
    char *bytes = rc ? NULL : aligned_alloc(TB_JOURNAL_SLOT, (size_t)st.st_size / TB_JOURNAL_SLOT * TB_JOURNAL_SLOT + TB_JOURNAL_SLOT);
    if (rc || !bytes)
        return rc ? rc : -ENOMEM;
    ssize_t n = tb_io_read_all(io, fd, bytes, (size_t)st.st_size, 0);
    rc = n < 0 ? (int)n : scan(bytes, (size_t)n, each, damaged, arg);
    free(bytes);
    return rc;
}
