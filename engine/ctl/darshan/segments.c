/*
 * Transfers with their times (DXT): what each rank did to each file, writes first, each in
 * order of time. Processes keep them in chunks of a file and direction; here chunks are sorted
 * and written one after the other, without a copy of the segments.
 */
#include "darshan/segments.h"

#include <stdlib.h>
#include <string.h>

#include "darshan/files.h"
#include "darshan/log.h"

/* A chunk in the file of a process, with all that it is sorted by. */
struct piece {
    uint64_t id;
    int64_t rank;
    size_t serial; /* of the process and of the chunk in it */
    const struct tb_trace_file *file;
    const struct tb_trace_chunk *chunk;
};

struct pieces {
    struct piece *piece;
    size_t n, room;
};

/* Room doubles, so a million chunks are moved about once each. */
static bool add(struct pieces *all, const struct piece *p)
{
    if (all->n == all->room) {
        size_t room = all->room ? 2 * all->room : 1024;
        struct piece *more = realloc(all->piece, room * sizeof(*more));
        if (!more)
            return false;
        all->piece = more;
        all->room = room;
    }
    all->piece[all->n++] = *p;
    return true;
}

/* A chunk has the number of its slot; the slot has the id of the file. */
static uint64_t id_of(const struct tb_trace_file *f, const struct tb_trace_chunk *c)
{
    return c->module == TB_TRACE_POSIX ? f->posix[c->file].record.id : f->mpiio[c->file].record.id;
}

/* Chunks follow each other; a process that is killed while it makes one leaves it without room. */
static bool list_process(struct pieces *all, const struct process *p, enum tb_trace_module module)
{
    const struct tb_trace_file *f = p->file;
    size_t at = 16, bytes;
    for (; at + sizeof(struct tb_trace_chunk) <= f->segments_used; at += (bytes + 15) & ~(size_t)15) {
        const struct tb_trace_chunk *c = (const struct tb_trace_chunk *)(f->segments + at);
        bytes = sizeof(*c) + (size_t)c->room * sizeof(c->segment[0]);
        if (c->room == 0 || at + bytes > TB_TRACE_SEGMENTS || c->count > c->room || c->file >= TB_TRACE_FILES || c->access > 1)
            break;
        if (c->module != module || c->count == 0)
            continue;
        struct piece piece = {id_of(f, c), p->rank, all->n, f, c};
        if (!add(all, &piece))
            return false;
    }
    return true;
}

/* By serial last: chunks of one process, file and direction follow each other in time. */
static int in_order(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    if (x->chunk->access != y->chunk->access)
        return x->chunk->access < y->chunk->access ? -1 : 1;
    return x->serial < y->serial ? -1 : 1;
}

/* The pieces of one rank and file, as one record. */
static size_t write_one(struct log *log, const struct piece *p, size_t n)
{
    struct tb_dxt_record r = {.id = p->id, .rank = p->rank};
    size_t same = 0;
    memcpy(r.host, p->file->host, sizeof(r.host));
    for (; same < n && p[same].id == p->id && p[same].rank == p->rank; same++)
        *(p[same].chunk->access == TB_TRACE_READ ? &r.reads : &r.writes) += p[same].chunk->count;
    log_write(log, &r, sizeof(r));
    for (size_t i = 0; i < same; i++)
        log_write(log, p[i].chunk->segment, p[i].chunk->count * sizeof(p[i].chunk->segment[0]));
    return same;
}

/*
 * A module without segments has no region. Partial: some process had no room, and readers must
 * know.
 */
static void write_module(struct log *log, const struct job *job, enum tb_trace_module module, enum log_region region)
{
    struct pieces all = {0};
    bool whole = true;
    for (size_t i = 0; i < job->n && whole; i++)
        whole = job->process[i].left_out || list_process(&all, &job->process[i], module);
    if (all.n)
        qsort(all.piece, all.n, sizeof(all.piece[0]), in_order);
    if (all.n)
        log_begin(log, region);
    for (size_t i = 0; i < all.n;)
        i += write_one(log, all.piece + i, all.n - i);
    if (all.n)
        log_end(log);
    for (size_t i = 0; i < job->n; i++)
        whole &= job->process[i].left_out || !job->process[i].file->dropped_segments[module];
    if (all.n && !whole)
        log_set_partial(log, region);
    free(all.piece);
}

void trace_write_segments(struct log *log, const struct job *job)
{
    write_module(log, job, TB_TRACE_POSIX, LOG_DXT_POSIX);
    write_module(log, job, TB_TRACE_MPIIO, LOG_DXT_MPIIO);
}
