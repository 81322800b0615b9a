/*
 * Replay of a journal: which bytes of which files the records still cover, read from the
 * slabs and written to the PFS. Records are applied in the order of their sequence, so
 * newer ones take ranges from older ones. Each byte is checked against its checksum first.
 * Replay changes neither journal nor slabs, so it can be killed and done again.
 */
#include "recovery/replay.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/private_files.h"
#include "base/report.h"
#include "buffer/medium.h"
#include "file/file.h"
#include "io/identity.h"
#include "io/whole.h"
#include "journal/lost.h"
#include "journal/read.h"
#include "region/directories.h"
#include "region/handle.h"

/* A WRITE or BYTES record and the part of its range that no newer record made void. */
struct piece {
    struct tb_record record;
    uint64_t lo, hi; /* of the file */
};

struct event {
    struct tb_record record;
    size_t place; /* in the journal */
    char path[TB_PATH_MAX];
};

struct state {
    const struct tb_replay *replay;
    struct event *events;
    size_t n_events, room_events;
    struct piece *pieces;
    size_t n_pieces, room_pieces;
    char journal[TB_PATH_MAX + 300];
    int journal_fd; /* -1: there is none */
    int error;
    bool foreign;
    struct tb_lost lost;
};

/* The reader has refused records without bytes and beyond any file, and newer records only take from a range. */
static bool piece_is_valid(const struct piece *p)
{
    return p->lo < p->hi && p->lo >= p->record.offset && p->hi - p->record.offset <= p->record.length;
}

static void tell(struct state *s, const char *path, struct tb_file_report *r)
{
    snprintf(r->path, sizeof(r->path), "%s", path);
    if (s->replay->report)
        s->replay->report(s->replay->arg, r);
}

/* The first error is the result; every file is reported. */
static void report(struct state *s, const char *path, uint64_t bytes, int error)
{
    if (error && !s->error)
        s->error = error;
    tell(s, path, &(struct tb_file_report){.bytes = bytes, .error = error});
}

/* Copied, with its path: the reader uses its buffer again. */
static int keep_event(void *arg, const struct tb_record *r)
{
    struct state *s = arg;
    if (s->n_events == s->room_events) {
        size_t room = s->room_events ? 2 * s->room_events : 64;
        struct event *grown = realloc(s->events, room * sizeof(*grown));
        if (!grown)
            return -ENOMEM;
        s->events = grown;
        s->room_events = room;
    }
    assert(s->n_events < s->room_events);
    struct event *e = &s->events[s->n_events];
    e->record = *r;
    e->place = s->n_events++;
    snprintf(e->path, sizeof(e->path), "%.*s", (int)r->path_length, tb_record_path(r));
    return 0;
}

/* Damage is reported and does not stop the replay: all sound records are still worth writing. */
static int keep_damage(void *arg, uint64_t offset)
{
    struct state *s = arg;
    char where[TB_PATH_MAX];
    snprintf(where, sizeof(where), "%.900s: record at byte %llu", s->journal, (unsigned long long)offset);
    report(s, where, 0, -EBADMSG);
    return 0;
}

/* A DROP has the sequence of the newest record that it makes void, and comes after it in the journal. */
static int by_sequence(const void *a, const void *b)
{
    const struct event *x = a, *y = b;
    if (x->record.sequence != y->record.sequence)
        return x->record.sequence < y->record.sequence ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

/* By device, inode and birth time, as the record has them: its name may have changed between records. */
static bool same_file(const struct tb_record *a, const struct tb_record *b)
{
    return a->inode == b->inode && a->device == b->device && a->birth_ns == b->birth_ns;
}

/* Pieces are kept in one array that grows; they are sorted before the writing. */
static int add_piece(struct state *s, const struct tb_record *r, uint64_t lo, uint64_t hi)
{
    if (s->n_pieces == s->room_pieces) {
        size_t room = s->room_pieces ? 2 * s->room_pieces : 64;
        struct piece *grown = realloc(s->pieces, room * sizeof(*grown));
        if (!grown)
            return -ENOMEM;
        s->pieces = grown;
        s->room_pieces = room;
    }
    assert(s->n_pieces < s->room_pieces);
    s->pieces[s->n_pieces++] = (struct piece){*r, lo, hi};
    return 0;
}

/* Range [lo, hi) of the file is void: pieces of older records lose it. */
static int make_void(struct state *s, const struct tb_record *by, uint64_t lo, uint64_t hi)
{
    int rc = 0;
    for (size_t i = 0, n = s->n_pieces; i < n && !rc; i++) {
        struct piece *p = &s->pieces[i];
        if (!same_file(&p->record, by) || p->hi <= lo || p->lo >= hi)
            continue;
        struct piece old = *p;
        p->hi = old.lo < lo ? lo : old.lo; /* the part before it, perhaps empty */
        if (old.hi > hi)
            rc = add_piece(s, &old.record, hi, old.hi);
    }
    return rc;
}

/* In order of sequence: each record takes its range from the older ones first. */
static int apply(struct state *s, const struct event *e)
{
    const struct tb_record *r = &e->record;
    uint64_t hi = r->length ? r->offset + r->length : UINT64_MAX;
    if (r->type == TB_RECORD_HEADER) {
        s->foreign |= r->digest != tb_config_digest(s->replay->config);
        s->lost.root = (struct tb_identity){.inode = r->inode, .birth_ns = r->birth_ns};
    }
    if (!tb_record_is_write(r) && r->type != TB_RECORD_DROP)
        return 0;
    int rc = make_void(s, r, r->offset, hi);
    return rc || r->type == TB_RECORD_DROP ? rc : add_piece(s, r, r->offset, hi);
}

/*
 * A file of the instance in a tier. Directory and file must be this user's alone: another
 * user could have forged them.
 */
static int open_in_tier(const struct tb_replay *r, uint32_t tier, const char *name)
{
    char path[TB_PATH_MAX + 256];
    tb_tier_directory(&r->config->tiers[tier], r->host, r->name, path, sizeof(path));
    int directory = tb_private_directory(path);
    int fd = directory < 0 ? directory : tb_private_file(directory, name, O_RDONLY);
    if (directory >= 0)
        close(directory);
    return fd;
}

/* The record once more, with its bytes: as sound as when the journal was read, or none of it counts. */
static int read_recorded(struct state *s, const struct tb_record *w, char **out)
{
    size_t n = (size_t)w->slots * TB_JOURNAL_SLOT;
    char *bytes = malloc(n);
    if (!bytes)
        return -ENOMEM;
    ssize_t got = tb_io_read_all(tb_io_libc(), s->journal_fd, bytes, n, w->place);
    const struct tb_record *r = (const struct tb_record *)(const void *)bytes;
    int rc = got < 0 ? (int)got : (size_t)got == n && memcmp(r, w, sizeof(*w)) == 0 && tb_record_checksum(r) == w->checksum ? 0 : -EBADMSG;
    if (!rc)
        memmove(bytes, tb_record_bytes(r), w->length);
    *out = bytes;
    return rc;
}

/* The record is checked against the layout before it is used: a journal may be damaged or forged. */
static int read_piece(struct state *s, const struct piece *p, char **out)
{
    const struct tb_replay *r = s->replay;
    const struct tb_record *w = &p->record;
    char name[TB_SLAB_NAME_MAX];
    if (w->type == TB_RECORD_BYTES)
        return read_recorded(s, w, out);
    if (w->slab >= r->layout->n_slabs || w->buffer >= r->layout->slab[w->slab].n_buffers ||
        w->length > r->layout->slab[w->slab].buffer_size || w->byte > r->layout->slab[w->slab].buffer_size - w->length)
        return -EBADMSG;
    const struct tb_layout_slab *l = &r->layout->slab[w->slab];
    struct tb_io *io = r->tier[l->tier];
    if (!io)
        return -EBADMSG; /* no tier of files: the engine records no bytes in memory */
    tb_slab_file(w->slab, name);
    int fd = open_in_tier(r, l->tier, name);
    if (fd < 0)
        return fd;
    *out = malloc(w->length);
    ssize_t n = *out ? tb_io_read_all(io, fd, *out, w->length, w->buffer * l->buffer_size + w->byte) : -ENOMEM;
    TB_IO(io, close, fd);
    if (n < 0)
        return (int)n;
    return (uint64_t)n == w->length && tb_checksum(*out, w->length) == w->data_checksum ? 0 : -EBADMSG;
}

/* Whole parts: "/pfs2" is not below "/pfs". */
static bool is_below(const char *path, const char *prefix)
{
    size_t n = strlen(prefix);
    n -= n && prefix[n - 1] == '/';
    return strncmp(path, prefix, n) == 0 && (path[n] == '/' || !path[n]);
}

/* Could an instance of this configuration have recorded the name? A forged record must not lead to other files. */
static bool is_managed(const struct tb_config *c, const char *path)
{
    bool managed = is_below(path, c->pfs.path);
    for (uint32_t i = 0; i < c->n_prefixes && !managed; i++)
        managed = is_below(path, c->prefixes[i].prefix);
    for (const char *p = path; managed && (p = strstr(p, "/..")); p++)
        managed = p[3] && p[3] != '/';
    return managed && path[0] == '/';
}

/* Inode and birth time must agree; device numbers change with a reboot. Never waits if a fifo has the name now. */
static int open_path(struct state *s, const struct tb_record *r, const char *path)
{
    struct tb_io *io = s->replay->io;
    struct tb_identity id;
    int fd = is_managed(s->replay->config, path) ? TB_IO(io, open, path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0) : -EXDEV;
    if (fd < 0)
        return fd;
    if (tb_identity_of_fd(fd, &id) || id.inode != r->inode || id.birth_ns != r->birth_ns) {
        TB_IO(io, close, fd);
        return -ESTALE;
    }
    return fd;
}

/* The name that `path` has after that rename, of the file itself or of a directory above it. */
static bool renamed_by(const struct event *e, const char *path, char *out)
{
    const char *separator = strchr(e->path, TB_RENAME_SEPARATOR);
    if (e->record.type != TB_RECORD_RENAME || !separator)
        return false;
    size_t from = (size_t)(separator - e->path);
    if (strncmp(path, e->path, from) != 0 || (path[from] && path[from] != '/'))
        return false;
    return snprintf(out, TB_PATH_MAX, "%s%s", separator + 1, path + from) < TB_PATH_MAX;
}

/*
 * Open the file by the name that it had in a record, or by one that later renames may have
 * given it. A rename is recorded before it is done, so it may not have happened: all names
 * are tried, and the identity decides.
 */
static int open_by_record(struct state *s, const struct tb_record *r, size_t at, char *path)
{
    char next[TB_PATH_MAX];
    snprintf(path, TB_PATH_MAX, "%s", s->events[at].path);
    int fd = open_path(s, r, path);
    for (size_t i = 0; i < s->n_events && fd < 0; i++)
        if (renamed_by(&s->events[i], path, next)) {
            snprintf(path, TB_PATH_MAX, "%s", next);
            fd = open_path(s, r, path);
        }
    return fd;
}

/* Records of renames and removals name files too, but by what they do. */
static bool has_name(const struct event *e, const struct tb_record *r)
{
    return same_file(&e->record, r) && (tb_record_is_write(&e->record) || e->record.type == TB_RECORD_DROP);
}

/* The newest names are tried first. */
static int open_recorded(struct state *s, const struct tb_record *r, char *path)
{
    const char *tried = "";
    int fd = -ENOENT;
    for (size_t i = s->n_events; i-- > 0 && fd < 0;)
        if (has_name(&s->events[i], r) && strcmp(s->events[i].path, tried) != 0) {
            fd = open_by_record(s, r, i, path);
            tried = s->events[i].path;
        }
    return fd;
}

/* An UNLINK record says that the file was about to lose its last name, and it has none now. */
static bool is_unlinked(const struct state *s, const struct tb_record *r)
{
    for (size_t i = 0; i < s->n_events; i++)
        if (s->events[i].record.type == TB_RECORD_UNLINK && same_file(&s->events[i].record, r))
            return true;
    return false;
}

/* The piece may be a part of its record; the checksum is of the whole record. */
static int write_piece(struct state *s, const struct piece *p, int fd)
{
    char *bytes = NULL;
    assert(piece_is_valid(p));
    int rc = read_piece(s, p, &bytes);
    if (!rc)
        rc = tb_io_write_all(s->replay->io, fd, bytes + (p->lo - p->record.offset), p->hi - p->lo, p->lo);
    free(bytes);
    return rc;
}

/* Write all pieces of the file of piece `first`, in order of sequence. `fd` is its descriptor, or -errno. */
static int flush_pieces(struct state *s, size_t first, int fd, uint64_t *bytes)
{
    assert(first < s->n_pieces);
    struct tb_record file = s->pieces[first].record;
    struct tb_io *io = s->replay->io;
    int rc = fd < 0 ? fd : 0;
    for (size_t i = first; i < s->n_pieces; i++) {
        struct piece *p = &s->pieces[i];
        if (!same_file(&p->record, &file) || p->lo >= p->hi)
            continue;
        int one = fd < 0 ? fd : write_piece(s, p, fd);
        *bytes += one ? 0 : p->hi - p->lo;
        rc = rc ? rc : one;
        p->lo = p->hi;
    }
    if (!rc)
        rc = TB_IO(io, fsync, fd, true);
    if (fd >= 0)
        TB_IO(io, close, fd);
    return rc;
}

/* The file is gone, and no record says that it was to go: another program removed it. Its bytes are kept apart. */
static void keep_lost(struct state *s, size_t first, const char *path, int error)
{
    char kept[TB_PATH_MAX + 500];
    struct tb_file_report r = {.error = error};
    int fd = tb_lost_open(&s->lost, path, s->pieces[first].record.inode, kept, sizeof(kept));
    int rc = flush_pieces(s, first, fd < 0 ? error : fd, &r.bytes);
    if (fd < 0 || rc) {
        report(s, path, 0, rc);
    } else {
        tb_lost_say(kept, r.bytes, r.why, sizeof(r.why));
        tell(s, path, &r);
    }
}

/* A file that was removed on purpose (UNLINK) needs no bytes and no report. */
static void flush_file(struct state *s, size_t first)
{
    assert(first < s->n_pieces && piece_is_valid(&s->pieces[first]));
    struct tb_record file = s->pieces[first].record;
    char path[TB_PATH_MAX];
    uint64_t bytes = 0;
    int fd = open_recorded(s, &file, path);
    bool gone = fd < 0 && tb_lost_is_gone(fd), unlinked = gone && is_unlinked(s, &file);
    if (gone && !unlinked) {
        keep_lost(s, first, path, fd);
        return;
    }
    int rc = flush_pieces(s, first, fd, &bytes);
    if (!unlinked)
        report(s, path, bytes, rc);
}

/* Newer bytes last, so that they stay where pieces of one file overlap by mistake. */
static int by_piece_sequence(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    return x->record.sequence < y->record.sequence ? -1 : x->record.sequence > y->record.sequence;
}

/* *out is -1 if there is no such file. */
static int open_to_read(const struct tb_replay *r, uint32_t tier, const char *name, int *out)
{
    int fd = open_in_tier(r, tier, name);
    *out = fd < 0 ? -1 : fd;
    return fd < 0 && fd != -ENOENT ? fd : 0;
}

/*
 * The journal is read and sorted whole before the first byte is written, because a later
 * record may make an earlier one void.
 */
int tb_replay(const struct tb_replay *r)
{
    struct state s = {.replay = r, .lost = {.config = r->config, .name = r->name, .pfs = r->io}};
    char directory[TB_PATH_MAX + 256];
    uint32_t t = tb_journal_tier(r->config);
    if (t == TB_NONE)
        return 0;
    tb_tier_directory(&r->config->tiers[t], r->host, r->name, directory, sizeof(directory));
    snprintf(s.journal, sizeof(s.journal), "%s/" TB_JOURNAL_FILE, directory);
    int fd, mark_fd = -1, rc = open_to_read(r, t, TB_JOURNAL_FILE, &fd);
    rc = rc ? rc : open_to_read(r, t, TB_JOURNAL_MARK_FILE, &mark_fd);
    rc = rc ? rc : tb_journal_read(fd, mark_fd, r->id, keep_event, keep_damage, &s);
    s.journal_fd = fd;
    if (mark_fd >= 0)
        close(mark_fd);
    if (s.n_events)
        qsort(s.events, s.n_events, sizeof(*s.events), by_sequence);
    for (size_t i = 0; i < s.n_events && !rc; i++)
        rc = apply(&s, &s.events[i]);
    *r->is_foreign = s.foreign;
    if (s.n_pieces)
        qsort(s.pieces, s.n_pieces, sizeof(*s.pieces), by_piece_sequence);
    for (size_t i = 0; i < s.n_pieces && !rc && !s.foreign; i++)
        if (s.pieces[i].lo < s.pieces[i].hi)
            flush_file(&s, i);
    *r->n_lost += s.lost.n;
    if (fd >= 0)
        close(fd);
    free(s.events);
    free(s.pieces);
    if (rc)
        report(&s, s.journal, 0, rc);
    return s.error;
}
