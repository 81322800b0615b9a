/*
 * The journal of `fsync: tier`: which ranges of which files are where in the directory
 * tiers, so that an fsynced byte survives the loss of the region. Few bytes are in the
 * journal itself, and then one sync keeps the promise.
 *
 * One file per instance on its first directory tier. Records are whole 512-byte slots,
 * each with magic, length, sequence and checksum, so that a torn record spoils no later
 * one. The order makes it right: bytes, then slab sync, then record, then journal sync.
 * After that the bytes are never written in place (a write goes on in a copy) until there
 * is a newer record or a DROP. A record that has its bytes needs no slab: a torn one is not
 * sound, so it counts whole or not at all.
 *
 *   HEADER  the first; begins a generation
 *   WRITE   range of a file -> slab, buffer, byte, and the checksum of the bytes
 *   BYTES   range of a file, and its bytes
 *   DROP    what records up to its sequence say of the range is void (flushed, cut,
 *           unlinked): a flush drops what it had copied, not what came after
 *   RENAME  a file or directory is about to have another name
 *   UNLINK  the file is about to lose its last name
 *
 * Records follow each other without a gap. Each says where it is, of which instance and
 * generation, and how much of the journal a sync had covered when it was written. The
 * mark, a small file next to the journal, says the same after each sync, and is itself
 * never synced. So a reader (journal/read.h) knows of every hole whether a promise covered
 * it: below the highest such number yes, after it no.
 * Limit: if a power cut takes the last synced records together with the last change of the
 * mark, they are lost silently.
 */
#ifndef TB_JOURNAL_H
#define TB_JOURNAL_H

#include "region/handle.h"

#define TB_JOURNAL_SLOT 512u
#define TB_JOURNAL_MAGIC 0x4b524e4c42545254ull
#define TB_JOURNAL_FILE "journal"
#define TB_JOURNAL_MARK 0x4b52414d42545254ull
#define TB_JOURNAL_MARK_FILE "mark"

enum tb_record_type { TB_RECORD_HEADER = 1, TB_RECORD_WRITE, TB_RECORD_DROP, TB_RECORD_RENAME, TB_RECORD_UNLINK, TB_RECORD_BYTES };
#define TB_RECORD_BYTES_MAX 16384u /* in one record */

#define TB_RENAME_SEPARATOR '\n' /* RENAME's path: old name, this, new name */

struct tb_record {
    uint64_t magic;
    uint32_t type;
    uint32_t slots;    /* length of the record with its path and bytes */
    uint64_t checksum; /* of the record with its path and bytes, this field 0 */
    uint64_t sequence;
    uint64_t device, inode; /* HEADER: of the PFS */
    int64_t birth_ns;
    uint64_t offset, length; /* range of the file; DROP to the end of the file: length 0 */
    uint64_t size;           /* of the file */
    uint32_t slab, buffer;   /* WRITE: buffer within its slab, */
    uint32_t byte;           /* and its byte at which the range starts */
    uint32_t path_length;
    uint64_t data_checksum;        /* WRITE: of its bytes */
    uint64_t digest;               /* HEADER: of the configuration */
    uint64_t instance, generation; /* of the journal */
    uint64_t place;                /* byte of the journal at which the record begins */
    uint64_t synced;               /* bytes of the journal that a sync had covered by then */
};

/* In the file TB_JOURNAL_MARK_FILE. */
struct tb_journal_mark {
    uint64_t magic, instance, generation, synced; /* as in a record */
    uint64_t checksum;
};

/* After the record: the path of the file (HEADER: of the configuration), path_length bytes, no NUL. */
static inline const char *tb_record_path(const struct tb_record *r)
{
    return (const char *)(r + 1);
}

/* BYTES: `length` bytes after the path. */
static inline const char *tb_record_bytes(const struct tb_record *r)
{
    return tb_record_path(r) + r->path_length;
}

/* A range of a file has these bytes from now on. */
static inline bool tb_record_is_write(const struct tb_record *r)
{
    return r->type == TB_RECORD_WRITE || r->type == TB_RECORD_BYTES;
}

/* What follows the record: its path, and its bytes. */
static inline uint64_t tb_record_tail(const struct tb_record *r)
{
    return r->path_length + (r->type == TB_RECORD_BYTES ? r->length : 0);
}

/*
 * The equations of struct tb_journal (region/region.h); locked by journal.lock. While a new
 * generation is not durable yet they say nothing of `end` and `synced`: it is begun again.
 */
bool tb_journal_is_valid(const tb_engine *e);

/* Make an empty journal in an open descriptor. */
int tb_journal_create(tb_engine *e);

/*
 * One WRITE record for bytes [lo, hi) of a buffer; not yet durable.  -EAGAIN: the file is being cut or renamed, or has lost its
 * last name.
 */
int tb_journal_write(tb_engine *e, uint32_t file, const struct tb_buffer *b, uint32_t lo, uint32_t hi, uint64_t checksum);
/* One BYTES record of the same bytes, at most TB_RECORD_BYTES_MAX, of a buffer in memory. -EAGAIN: as above. */
int tb_journal_write_bytes(tb_engine *e, uint32_t file, const struct tb_buffer *b, uint32_t lo, uint32_t hi);
/* May bytes go into the journal? It leaves the larger part of its room to records of the other kind. */
bool tb_journal_takes_bytes(const tb_engine *e);
/* `sequence`: of the newest record that it makes void; 0: all there are. */
int tb_journal_drop(tb_engine *e, uint32_t file, uint64_t offset, uint64_t length, uint64_t sequence);
int tb_journal_unlink(tb_engine *e, uint32_t file);
/* Before a last name goes, where records may be of the file: replay does not look for it then.  Durable. */
int tb_journal_tell_removal(tb_engine *e, uint32_t file);
int tb_journal_rename(tb_engine *e, const char *from, const char *to);
/* Does any record refer to a buffer? */
static inline bool tb_journal_has_records(const tb_engine *e)
{
    return e->journal_fd >= 0 && e->header->journal.n_journaled;
}

int tb_journal_sync(tb_engine *e);
/* A sync of it failed since it was last empty: what is in it now may be lost, whatever later syncs say. */
bool tb_journal_is_doubtful(const tb_engine *e);
/* Empty it when no buffer is journaled any more. */
void tb_journal_trim(tb_engine *e);
/*
 * The daemon's: write a piece of zeros ahead of the records, and sync it by a descriptor that nothing else syncs by. 1: it did;
 * 0: there is room enough; below 0: it cannot.
 */
int tb_journal_make_room(tb_engine *e, int fd);
/* Such a descriptor, or -errno. */
int tb_journal_open_again(tb_engine *e);
/* As long as it may get: an eighth of its tier's capacity, at least 1 MiB. */
bool tb_journal_is_full(tb_engine *e);

uint64_t tb_record_checksum(const struct tb_record *r);
uint64_t tb_checksum(const void *bytes, size_t n);

#endif
