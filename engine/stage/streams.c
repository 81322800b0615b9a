/*
 * A stream moves its batch step by step: all files are written, then all are published, then
 * all are told. So the log gets one write for a batch, and the file system can put the files
 * of a batch on its device together.
 */
#include "stage/streams.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

#define FIRST_PAUSE_NS 100000000ull /* a tenth of a second, doubled by each failure */
#define CHANGED_PAUSE_NS 50000000ull

static void tell_queued(const struct tb_carries *moves, struct tb_lines *lines, const struct tb_item *i)
{
    char size[24];
    snprintf(size, sizeof(size), "%" PRIu64, i->content.size);
    tb_lines_fact(lines, "queued", moves->host, i->source, i->destination, size, NULL);
}

/* The content that is written is that of the source before the move. A later look compares the source with it. */
static void tell_moved(const struct tb_carries *moves, struct tb_lines *lines, const struct tb_carry *m)
{
    char size[24], sum[24], mtime[24], ctime[24], seconds[24], rate[24];
    struct tb_content c = tb_content_of(&m->before);
    double s = (double)m->took_ns / 1e9;
    snprintf(size, sizeof(size), "%" PRIu64, c.size);
    snprintf(sum, sizeof(sum), "%016" PRIx64, m->sum);
    snprintf(mtime, sizeof(mtime), "%" PRId64, c.mtime);
    snprintf(ctime, sizeof(ctime), "%" PRId64, c.ctime);
    snprintf(seconds, sizeof(seconds), "%.6f", s);
    snprintf(rate, sizeof(rate), "%.2f", s > 0 ? (double)c.size / s / 1048576 : 0);
    const char *what = m->is_there ? "there" : m->sum || m->bytes.n_pieces ? sum : "link";
    tb_lines_fact(lines, "moved", moves->host, m->source, m->destination, size, what, mtime, ctime, seconds, rate, NULL);
}

static void tell_failed(const struct tb_carries *moves, struct tb_lines *lines, const struct tb_carry *m)
{
    char reason[200];
    if (m->end == TB_CARRY_CLASH)
        snprintf(reason, sizeof(reason), "name clash: what is there does not come from this file");
    else if (m->rc == -EBADMSG)
        snprintf(reason, sizeof(reason), "%s: what was read back is not what was written", m->step);
    else if (m->rc == -ENODEV)
        snprintf(reason, sizeof(reason), "%s: its file system is not there any more", m->step);
    else
        snprintf(reason, sizeof(reason), "%s: %s", m->step, strerror(-m->rc));
    tb_lines_fact(lines, "failed", moves->host, m->source, m->destination, reason, NULL);
}

/*
 * Is it settled? Else it is moved again after `pause`. A changed or stopped move is no failure, and does not count as a
 * try.
 */
static bool is_settled(const struct tb_carries *moves, struct tb_item *i, const struct tb_carry *m, uint64_t *pause)
{
    *pause = CHANGED_PAUSE_NS;
    if (m->end == TB_CARRY_CHANGED || m->end == TB_CARRY_STOPPED)
        return false;
    *pause = FIRST_PAUSE_NS << (i->tries < 20 ? i->tries : 20);
    return m->end != TB_CARRY_FAILED || i->tries++ >= moves->settings->retries;
}

/* A file that was moved and then closed again is ours, and is queued. */
static void tell(const struct tb_carries *moves, struct tb_lines *lines, const struct tb_item *i, const struct tb_carry *m, bool settled)
{
    if (m->end == TB_CARRY_DONE) {
        tell_moved(moves, lines, m);
        if (settled)
            tb_lines_spectral(lines, "DONE", i->destination);
        else
            tell_queued(moves, lines, i);
    } else if (settled && m->end == TB_CARRY_GONE) {
        tb_lines_fact(lines, "gone", moves->host, i->source, i->destination, NULL);
    } else if (settled) {
        tell_failed(moves, lines, m);
    }
}

/* Closed anew after it was told as done: it is enqueued anew. */
static void enqueue_again(struct tb_streams *s, struct tb_item *i)
{
    struct tb_lines lines = {0};
    tb_lines_spectral(&lines, "ENQUEUE", i->destination);
    tell_queued(s->moves, &lines, i);
    tb_ledger_append(s->moves->ledger, &lines);
    tb_lines_free(&lines);
    i->was_dequeued = false;
    i->tries = 0;
    tb_items_again(s->items, i, 0);
}

/*
 * The log first, then the items: if killed between the two, the file is in the log and is not moved again. If the log
 * cannot be written the files are moved once more, and found in their places.
 */
static void settle(struct tb_streams *s, struct tb_item **item, const struct tb_carry *move, unsigned n)
{
    struct tb_lines lines = {0};
    uint64_t pause[TB_BATCH];
    bool settled[TB_BATCH];
    for (unsigned k = 0; k < n; k++) {
        settled[k] = is_settled(s->moves, item[k], &move[k], &pause[k]) && !tb_items_is_again(s->items, item[k]);
        tell(s->moves, &lines, item[k], &move[k], settled[k]);
    }
    bool told = tb_ledger_append(s->moves->ledger, &lines) == 0;
    tb_lines_free(&lines);
    for (unsigned k = 0; k < n; k++) {
        if (!settled[k] || !told)
            tb_items_again(s->items, item[k], told ? pause[k] : FIRST_PAUSE_NS);
        else if (!tb_items_settled(s->items, item[k]))
            enqueue_again(s, item[k]);
    }
}

/* Once a file and not once a try, since the counts of the log are what users compare. */
static void dequeue(struct tb_streams *s, struct tb_item **item, unsigned n)
{
    struct tb_lines lines = {0};
    for (unsigned k = 0; k < n; k++) {
        if (!item[k]->was_dequeued)
            tb_lines_spectral(&lines, "DEQUEUE", item[k]->destination);
        item[k]->was_dequeued = true;
    }
    tb_ledger_append(s->moves->ledger, &lines);
    tb_lines_free(&lines);
}

/* Its attributes too. A file with several links holds their mutex: so it gets its name before the next one is opened. */
static void write_one(struct tb_streams *s, struct tb_folders *folders, struct tb_carry *m)
{
    tb_carry_open(s->moves, folders, m);
    if (tb_carry_has_bytes(m))
        tb_items_share(s->items, &m->bytes);
    tb_carry_dress(s->moves, m);
    if (m->has_links) {
        tb_carry_sync(m);
        tb_carry_publish(s->moves, m);
    }
}

/*
 * In this order: bytes of all files, fsync of all, names of all, fsync of the folders, and only then the log. So what the
 * log calls done is on the disk, and a batch costs one fsync of a folder.
 */
static void move_batch(struct tb_streams *s, struct tb_item **item, struct tb_carry *move, unsigned n)
{
    struct tb_folders folders = {0};
    dequeue(s, item, n);
    for (unsigned k = 0; k < n; k++) {
        move[k] = (struct tb_carry){.source = item[k]->source, .destination = item[k]->destination};
        write_one(s, &folders, &move[k]);
    }
    for (unsigned k = 0; k < n; k++)
        if (!move[k].has_links)
            tb_carry_sync(&move[k]);
    for (unsigned k = 0; k < n; k++)
        if (!move[k].has_links)
            tb_carry_publish(s->moves, &move[k]);
    tb_folders_sync(&folders);
    for (unsigned k = 0; k < n; k++)
        tb_carry_finish(&move[k]);
    tb_folders_close(&folders);
    settle(s, item, move, n);
}

static void *run(void *arg)
{
    struct tb_streams *s = arg;
    struct tb_item *item[TB_BATCH];
    struct tb_carry move[TB_BATCH];
    for (unsigned n; (n = tb_items_take(s->items, item));)
        move_batch(s, item, move, n);
    return NULL;
}

/*
 * Where one thread cannot be made the others are ended: fewer streams than asked for would be a slower mover that nobody
 * notices.
 */
int tb_streams_begin(struct tb_streams *s, struct tb_carries *moves, struct tb_items *items)
{
    *s = (struct tb_streams){.moves = moves, .items = items};
    for (unsigned i = 0; i < moves->settings->streams && i < TB_MOST_STREAMS; i++) {
        int rc = pthread_create(&s->thread[i], NULL, run, s);
        if (rc) {
            tb_streams_end(s);
            return -rc;
        }
        s->n++;
    }
    return 0;
}

void tb_streams_end(struct tb_streams *s)
{
    tb_items_close(s->items);
    for (unsigned i = 0; i < s->n; i++)
        pthread_join(s->thread[i], NULL);
    s->n = 0;
}
