/*
 * Reading the journal for recovery: records of this instance's last generation, in the
 * order of the file. What a sync covered must be there; if it is not, that place is
 * damaged and is reported. What comes after may be an unfinished end, and is left out.
 */
#include "journal/read.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "io/whole.h"

struct reader {
    const char *bytes;
    uint64_t n;
    uint64_t instance, generation;
    uint64_t promised; /* bytes of the journal that a sync covered */
    uint64_t sequence; /* highest of the records read */
    int (*each)(void *, const struct tb_record *);
    int (*damaged)(void *, uint64_t);
    void *arg;
};

static bool is_sound(const struct tb_record *r, uint64_t at, uint64_t rest)
{
    return r->magic == TB_JOURNAL_MAGIC && r->slots && (uint64_t)r->slots * TB_JOURNAL_SLOT <= rest && r->path_length < TB_PATH_MAX &&
           (r->type != TB_RECORD_BYTES || r->length <= TB_RECORD_BYTES_MAX) &&
           sizeof(*r) + tb_record_tail(r) <= (uint64_t)r->slots * TB_JOURNAL_SLOT && r->place == at && r->checksum == tb_record_checksum(r);
}

/* Bytes of the file are believed only after this: a length in them may say anything. */
static const struct tb_record *sound_at(const struct reader *j, uint64_t at)
{
    const struct tb_record *r = (const struct tb_record *)(j->bytes + at);
    return j->n - at >= TB_JOURNAL_SLOT && is_sound(r, at, j->n - at) ? r : NULL;
}

/* The next record of this journal's generation from `at` on, or NULL. */
static const struct tb_record *next_own(const struct reader *j, uint64_t at)
{
    for (; at + TB_JOURNAL_SLOT <= j->n; at += TB_JOURNAL_SLOT) {
        const struct tb_record *r = sound_at(j, at);
        if (r && r->instance == j->instance && r->generation == j->generation)
            return r;
    }
    return NULL;
}

/* Of a sound record, so the sum is in the file. */
static uint64_t end_of(const struct tb_record *r)
{
    return r->place + (uint64_t)r->slots * TB_JOURNAL_SLOT;
}

/*
 * If the header is damaged, the mark says which generation counts and, if nothing else
 * does, which instance. Without a mark: the first sound record.
 */
static void identify(struct reader *j, const struct tb_journal_mark *mark)
{
    const struct tb_record *r = j->n ? sound_at(j, 0) : NULL;
    for (uint64_t at = 0; !r && !mark && at + TB_JOURNAL_SLOT <= j->n; at += TB_JOURNAL_SLOT)
        r = sound_at(j, at);
    j->generation = r ? r->generation : mark ? mark->generation : 0;
    if (!j->instance)
        j->instance = r ? r->instance : mark ? mark->instance : 0;
}

/* The header names another instance. */
static bool is_foreign(const struct reader *j)
{
    const struct tb_record *r = j->n ? sound_at(j, 0) : NULL;
    return r && r->instance != j->instance;
}

/* A mark of a later generation was written after that was synced: then this journal is an older copy of the file. */
static bool contradicts(const struct reader *j, const struct tb_journal_mark *mark)
{
    return mark && mark->generation > j->generation;
}

/*
 * The largest bound that the mark or any record states. Each record says how far the
 * journal was synced when it was written.
 */
static uint64_t promised(const struct reader *j, const struct tb_journal_mark *mark)
{
    uint64_t most = mark && mark->generation == j->generation ? mark->synced : 0;
    for (const struct tb_record *r = next_own(j, 0); r; r = next_own(j, end_of(r)))
        most = r->synced > most ? r->synced : most;
    return most;
}

/* Values that the engine never writes. A flipped bit would spoil the checksum, so this is a defect or a forgery. */
static bool makes_sense(const struct reader *j, const struct tb_record *r)
{
    bool known = r->type >= TB_RECORD_HEADER && r->type <= TB_RECORD_BYTES && (r->type == TB_RECORD_HEADER) == (r->place == 0);
    bool in_file = r->offset <= INT64_MAX && r->length <= INT64_MAX - r->offset && (r->length || !tb_record_is_write(r));
    return known && in_file && r->synced <= r->place && (r->sequence > j->sequence || r->type == TB_RECORD_DROP);
}

static int visit(struct reader *j, const struct tb_record *r)
{
    if (!makes_sense(j, r))
        return j->damaged(j->arg, r->place);
    j->sequence = r->sequence > j->sequence ? r->sequence : j->sequence;
    return j->each(j->arg, r);
}

static int visit_all(struct reader *j)
{
    uint64_t at = 0;
    int rc = 0;
    for (const struct tb_record *r = next_own(j, 0); r && !rc; r = next_own(j, at)) {
        assert(r->place >= at && end_of(r) <= j->n); /* as is_sound let it pass */
        if (r->place > at && at < j->promised)
            rc = j->damaged(j->arg, at);
        rc = rc ? rc : visit(j, r);
        at = end_of(r);
    }
    return !rc && at < j->promised ? j->damaged(j->arg, at) : rc;
}

/* False: there is no mark, or a crash tore it. */
static bool read_mark(int fd, struct tb_journal_mark *out)
{
    return fd >= 0 && tb_io_read_all(tb_io_libc(), fd, out, sizeof(*out), 0) == (ssize_t)sizeof(*out) && out->magic == TB_JOURNAL_MARK &&
           out->checksum == tb_checksum(out, offsetof(struct tb_journal_mark, checksum));
}

static int read_bytes(int fd, char **bytes, uint64_t *n)
{
    struct tb_io *io = tb_io_libc();
    struct stat st = {.st_size = 0};
    int rc = fd < 0 ? 0 : TB_IO(io, fstat, fd, &st);
    *bytes = rc ? NULL : aligned_alloc(TB_JOURNAL_SLOT, (size_t)st.st_size / TB_JOURNAL_SLOT * TB_JOURNAL_SLOT + TB_JOURNAL_SLOT);
    if (rc || !*bytes)
        return rc ? rc : -ENOMEM;
    ssize_t got = fd < 0 ? 0 : tb_io_read_all(io, fd, *bytes, (size_t)st.st_size, 0);
    *n = got < 0 ? 0 : (uint64_t)got;
    return got < 0 ? (int)got : 0;
}

int tb_journal_read(int journal_fd, int mark_fd, uint64_t instance, int (*each)(void *, const struct tb_record *),
                    int (*damaged)(void *, uint64_t), void *arg)
{
    struct reader j = {.instance = instance, .each = each, .damaged = damaged, .arg = arg};
    struct tb_journal_mark mark, *there = read_mark(mark_fd, &mark) && (!instance || mark.instance == instance) ? &mark : NULL;
    char *bytes = NULL;
    int rc = read_bytes(journal_fd, &bytes, &j.n);
    j.bytes = bytes;
    if (!rc) {
        identify(&j, there);
        j.promised = promised(&j, there);
        rc = is_foreign(&j) || contradicts(&j, there) ? damaged(arg, 0) : visit_all(&j);
    }
    free(bytes);
    return rc;
}
