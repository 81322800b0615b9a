/*
 * Calls of MPI-IO: the MPI adapter reports each one after it returned. The counters are
 * Darshan's. They are made at once and not settled later, unlike POSIX's: an MPI call is
 * rare and long beside what counting it costs.
 */
#include <assert.h>

#include "trace/records.h"
#include "trace/segments.h"

/* Where each way counts: writes, reads. */
static const enum tb_mpiio_counter ops[4][2] = {
    [TB_TRACE_MPI_INDEPENDENT] = {MPIIO_INDEP_WRITES, MPIIO_INDEP_READS},
    [TB_TRACE_MPI_COLLECTIVE] = {MPIIO_COLL_WRITES, MPIIO_COLL_READS},
    [TB_TRACE_MPI_SPLIT] = {MPIIO_SPLIT_WRITES, MPIIO_SPLIT_READS},
    [TB_TRACE_MPI_NONBLOCKING] = {MPIIO_NB_WRITES, MPIIO_NB_READS},
};

/* MODE is that of the last open; hints add up over opens, views and hints of their own. */
static void count_open(struct tb_trace_mpiio *m, const struct tb_trace_mpi *e, struct tb_trace_time time)
{
    struct tb_mpiio_record *r = &m->record;
    r->counters[MPIIO_MODE] = e->amode;
    r->counters[e->way == TB_TRACE_MPI_COLLECTIVE ? MPIIO_COLL_OPENS : MPIIO_INDEP_OPENS]++;
    r->counters[MPIIO_HINTS] += e->hints;
    tb_trace_note_first_last(&r->times[POSIX_F_OPEN_START], &r->times[POSIX_F_OPEN_END], time);
    tb_trace_add_time(&r->times[POSIX_F_META_TIME], &m->meta_until, time);
}

static void count_close(struct tb_trace_mpiio *m, struct tb_trace_time time)
{
    double *times = m->record.times;
    tb_trace_note_first_last(&times[POSIX_F_CLOSE_START], &times[POSIX_F_CLOSE_END], time);
    tb_trace_add_time(&times[POSIX_F_META_TIME], &m->meta_until, time);
}

/* In the order in which Darshan counts, so that the logs of both can be compared. */
static void count_transfer(struct tb_trace_mpiio *m, const struct tb_trace_mpi *e, struct tb_trace_time time)
{
    assert((size_t)e->way < sizeof(ops) / sizeof(ops[0]));
    int64_t *c = m->record.counters, n = (int64_t)e->bytes;
    double *times = m->record.times;
    bool reads = e->call == TB_TRACE_MPI_READ;
    enum tb_trace_access access = reads ? TB_TRACE_READ : TB_TRACE_WRITE;
    c[ops[e->way][access]]++;
    c[reads ? MPIIO_BYTES_READ : MPIIO_BYTES_WRITTEN] += n;
    tb_trace_count_size(&c[reads ? MPIIO_SIZE_READ_0_100 : MPIIO_SIZE_WRITE_0_100], n, 1);
    tb_trace_count_common(&m->sizes, n, 1);
    c[MPIIO_RW_SWITCHES] += m->last && m->last != 1u + access;
    m->last = 1u + access;
    tb_trace_note_first_last(&times[reads ? POSIX_F_READ_START : POSIX_F_WRITE_START], &times[reads ? POSIX_F_READ_END : POSIX_F_WRITE_END],
                             time);
    tb_trace_note_longest(&times[reads ? POSIX_F_MAX_READ_TIME : POSIX_F_MAX_WRITE_TIME],
                          &c[reads ? MPIIO_MAX_READ_TIME_SIZE : MPIIO_MAX_WRITE_TIME_SIZE], n, time);
    tb_trace_add_time(&times[reads ? POSIX_F_READ_TIME : POSIX_F_WRITE_TIME], &m->until[access], time);
}

/* The time of set_view is counted where it brought hints, as Darshan does. */
static void count(struct tb_trace_mpiio *m, const struct tb_trace_mpi *e, struct tb_trace_time time)
{
    struct tb_mpiio_record *r = &m->record;
    switch (e->call) {
    case TB_TRACE_MPI_OPEN: count_open(m, e, time); break;
    case TB_TRACE_MPI_CLOSE: count_close(m, time); break;
    case TB_TRACE_MPI_READ:
    case TB_TRACE_MPI_WRITE: count_transfer(m, e, time); break;
    case TB_TRACE_MPI_SYNC:
        r->counters[MPIIO_SYNCS]++;
        tb_trace_add_time(&r->times[POSIX_F_WRITE_TIME], &m->until[TB_TRACE_WRITE], time);
        break;
    case TB_TRACE_MPI_VIEW:
    case TB_TRACE_MPI_HINT:
        r->counters[MPIIO_VIEWS] += e->call == TB_TRACE_MPI_VIEW;
        r->counters[MPIIO_HINTS] += e->hints;
        if (e->hints)
            tb_trace_add_time(&r->times[POSIX_F_META_TIME], &m->meta_until, time);
        break;
    }
}

/* Without room the transfer is counted and not listed; the log says how many are missing. Locked by the record. */
static void keep_segment(tb_trace *t, int number, const struct tb_trace_mpi *e, struct tb_trace_time time)
{
    enum tb_trace_access access = e->call == TB_TRACE_MPI_READ ? TB_TRACE_READ : TB_TRACE_WRITE;
    struct tb_trace_chunk *c = tb_trace_chunk_of(t->file, &t->file->mpiio[number].slot, access);
    if (!c || c->count == c->room)
        c = tb_trace_chunk_more(t, TB_TRACE_MPIIO, number, access);
    if (c)
        tb_trace_append(c, e->offset, (int64_t)e->bytes, time);
}

/* The times are of the adapter's clock, relative to the start of the job. */
void tb_trace_mpi(tb_trace *t, const struct tb_trace_mpi *e)
{
    if (!tb_trace_enter(t))
        return;
    double start = (double)t->job->start_ns * 1e-9;
    struct tb_trace_time time = {e->times.start - start, e->times.end - start};
    int number = tb_trace_find(t, TB_TRACE_MPIIO, e->path);
    struct tb_trace_mpiio *m = number < 0 ? NULL : &t->file->mpiio[number];
    if (m) {
        tb_trace_take(&m->slot.lock);
        tb_trace_mark(&m->slot);
        if (e->call == TB_TRACE_MPI_READ || e->call == TB_TRACE_MPI_WRITE)
            keep_segment(t, number, e, time);
        count(m, e, time);
        tb_trace_drop(&m->slot.lock);
    }
    tb_trace_leave();
}
