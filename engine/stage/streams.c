/*
 * A stream moves its batch step by step: all files are written, then all are published, then
 * all are told. So the log gets one write for a batch, and the file system can put the files
 * of a batch on its device together.
 *
 * A stream is two threads: one copies a batch while the other puts the batch before on the device, with
 * the help of threads that all streams share (waiters.h). They hand over one batch at a time, so a stream has at
 * most two in hand.
 */
#include "stage/streams.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define FIRST_PAUSE_NS 100000000ull /* a tenth of a second, doubled by each failure */
#define CHANGED_PAUSE_NS 50000000ull
#define MOST_DOUBLINGS 10
#define MOST_CHANGES 6 /* in three seconds: a file that is written on and on is not copied for ever */

struct batch {
    unsigned n;
    struct tb_item *item[TB_BATCH];
    struct tb_carry move[TB_BATCH];
    struct tb_folders folders;
};

struct tb_stream {
    struct tb_streams *all;
    pthread_t copier, publisher;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct batch batch[2];
    struct batch *copied; /* the publisher's, until it is done with it */
    bool is_ended;        /* no batch comes any more */
};

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
    uint64_t hundredths = m->took_ns ? (uint64_t)((double)c.size * 1e11 / 1048576 / (double)m->took_ns) : 0; /* of MiB/s */
    snprintf(size, sizeof(size), "%" PRIu64, c.size);
    snprintf(sum, sizeof(sum), "%016" PRIx64, m->sum);
    snprintf(mtime, sizeof(mtime), "%" PRId64, c.mtime);
    snprintf(ctime, sizeof(ctime), "%" PRId64, c.ctime);
    snprintf(seconds, sizeof(seconds), "%" PRIu64 ".%06" PRIu64, m->took_ns / 1000000000, m->took_ns / 1000 % 1000000);
    snprintf(rate, sizeof(rate), "%" PRIu64 ".%02" PRIu64, hundredths / 100, hundredths % 100);
    const char *what = m->is_there ? "there" : m->sum || m->bytes.n_pieces ? sum : "link";
    tb_lines_fact(lines, "moved", moves->host, m->source, m->destination, size, what, mtime, ctime, seconds, rate, NULL);
}

static void tell_failed(const struct tb_carries *moves, struct tb_lines *lines, const struct tb_carry *m)
{
    char reason[200];
    if (m->end == TB_CARRY_CLASH)
        snprintf(reason, sizeof(reason), "name clash: what is there does not come from this file");
    else if (m->end == TB_CARRY_CHANGED)
        snprintf(reason, sizeof(reason), "it changes again and again while it is moved");
    else if (m->rc == TB_BYTES_DIFFER)
        snprintf(reason, sizeof(reason), "%s: what was read back is not what was written", m->step);
    else if (m->rc == -ENODEV)
        snprintf(reason, sizeof(reason), "%s: its file system is not there any more", m->step);
    else
        snprintf(reason, sizeof(reason), "%s: %s", m->step, strerror(-m->rc));
    tb_lines_fact(lines, "failed", moves->host, m->source, m->destination, reason, NULL);
}

static uint64_t doubled(uint64_t pause, uint32_t times)
{
    return pause << (times < MOST_DOUBLINGS ? times : MOST_DOUBLINGS);
}

/*
 * Is it settled? Else it is moved again after `pause`. Changes and failures are counted apart: a file that changed has as many tries
 * left as before. A stopped move counts as none.
 */
static bool is_settled(const struct tb_carries *moves, struct tb_item *i, const struct tb_carry *m, uint64_t *pause)
{
    *pause = doubled(CHANGED_PAUSE_NS, i->changes);
    if (m->end == TB_CARRY_STOPPED)
        return false;
    if (m->end == TB_CARRY_CHANGED)
        return i->changes++ >= MOST_CHANGES;
    *pause = doubled(FIRST_PAUSE_NS, i->tries);
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

/* Closed again after it was told as done: it is enqueued again. */
static void enqueue_again(struct tb_streams *s, struct tb_item *i)
{
    struct tb_lines lines = {0};
    tb_lines_spectral(&lines, "ENQUEUE", i->destination);
    tell_queued(s->moves, &lines, i);
    tb_ledger_append(s->moves->ledger, &lines);
    tb_lines_free(&lines);
    i->was_dequeued = false;
    i->tries = i->changes = 0;
    tb_items_again(s->items, i, 0);
}

/*
 * The log first, then the items: if killed between the two, the file is in the log and is not moved again. If the log
 * cannot be written the files are moved once more, and found in their places.
 */
static void settle(struct tb_streams *s, struct batch *b)
{
    struct tb_lines lines = {0};
    uint64_t pause[TB_BATCH];
    bool settled[TB_BATCH];
    for (unsigned k = 0; k < b->n; k++) {
        settled[k] = is_settled(s->moves, b->item[k], &b->move[k], &pause[k]) && !tb_items_is_again(s->items, b->item[k]);
        tell(s->moves, &lines, b->item[k], &b->move[k], settled[k]);
    }
    bool told = tb_ledger_append(s->moves->ledger, &lines) == 0;
    tb_lines_free(&lines);
    for (unsigned k = 0; k < b->n; k++) {
        if (!settled[k] || !told)
            tb_items_again(s->items, b->item[k], told ? pause[k] : FIRST_PAUSE_NS);
        else if (!tb_items_settled(s->items, b->item[k]))
            enqueue_again(s, b->item[k]);
    }
}

/* Once a file and not once a try, since the counts of the log are what users compare. */
static void dequeue(struct tb_streams *s, struct batch *b)
{
    struct tb_lines lines = {0};
    for (unsigned k = 0; k < b->n; k++) {
        if (!b->item[k]->was_dequeued)
            tb_lines_spectral(&lines, "DEQUEUE", b->item[k]->destination);
        b->item[k]->was_dequeued = true;
    }
    tb_ledger_append(s->moves->ledger, &lines);
    tb_lines_free(&lines);
}

struct tb_large {
    LIST_ENTRY(tb_large) next;
    const struct tb_carry *move;
};

/* It is in the list for as long as its bytes are copied, so `copied` is there. Other streams help where it has pieces. */
static void copy_large(struct tb_streams *s, struct tb_carry *m)
{
    struct tb_large one = {.move = m};
    pthread_mutex_lock(&s->large_mutex);
    LIST_INSERT_HEAD(&s->large, &one, next);
    pthread_mutex_unlock(&s->large_mutex);
    if (m->bytes.n_pieces > 1)
        tb_items_share(s->items, &m->bytes);
    else
        tb_bytes_work(&m->bytes);
    pthread_mutex_lock(&s->large_mutex);
    LIST_REMOVE(&one, next);
    pthread_mutex_unlock(&s->large_mutex);
}

void tb_streams_tell_large(struct tb_streams *s)
{
    struct tb_lines lines = {0};
    struct tb_large *one;
    char copied[24];
    pthread_mutex_lock(&s->large_mutex);
    LIST_FOREACH(one, &s->large, next)
    {
        snprintf(copied, sizeof(copied), "%" PRIu64, (uint64_t)one->move->bytes.copied);
        tb_lines_fact(&lines, "moving", s->moves->host, one->move->source, one->move->destination, copied, NULL);
    }
    pthread_mutex_unlock(&s->large_mutex);
    tb_ledger_append(s->moves->ledger, &lines);
    tb_lines_free(&lines);
}

/* Its attributes too. A file with several links holds their mutex: so it gets its name before the next one is opened. */
static void write_one(struct tb_streams *s, struct tb_folders *folders, struct tb_carry *m)
{
    tb_carry_open(s->moves, folders, m);
    if (tb_carry_has_bytes(m) && m->bytes.size > TB_SMALL)
        copy_large(s, m);
    else if (tb_carry_has_bytes(m))
        tb_bytes_work(&m->bytes);
    tb_carry_dress(s->moves, m);
    if (m->has_links) {
        tb_carry_sync(m);
        tb_carry_publish(s->moves, m);
    }
}

static void copy(struct tb_streams *s, struct batch *b)
{
    b->folders = (struct tb_folders){0};
    dequeue(s, b);
    for (unsigned k = 0; k < b->n; k++) {
        const struct tb_item *i = b->item[k];
        b->move[k] = (struct tb_carry){.source = i->source, .destination = i->destination, .is_retry = i->tries > 0};
        write_one(s, &b->folders, &b->move[k]);
    }
}

static void begin_to_sync_one(void *batch, unsigned k)
{
    const struct tb_carry *m = &((struct batch *)batch)->move[k];
    if (!m->has_links)
        tb_carry_begin_to_sync(m);
}

static void sync_one(void *batch, unsigned k)
{
    struct tb_carry *m = &((struct batch *)batch)->move[k];
    if (!m->has_links)
        tb_carry_sync(m);
}

/*
 * After the bytes of all files, in this order: fsync of all, names of all, fsync of the folders, and only then the log. So what the
 * log calls done is on the disk, and a batch costs one fsync of a folder. That the storage writes all of them before the first is waited
 * for lets it write them together; one in memory has nothing to begin.
 */
static void publish(struct tb_streams *s, struct batch *b)
{
    if (b->n > 1 && s->waits)
        tb_waiters_do(&s->waiters, b->n, begin_to_sync_one, b);
    s->waits = tb_waiters_do(&s->waiters, b->n, sync_one, b);
    for (unsigned k = 0; k < b->n; k++)
        if (!b->move[k].has_links)
            tb_carry_publish(s->moves, &b->move[k]);
    tb_folders_sync(&b->folders);
    for (unsigned k = 0; k < b->n; k++)
        tb_carry_finish(&b->move[k]);
    tb_folders_close(&b->folders);
    settle(s, b);
}

/* NULL: it is at the end. When it returns the other batch is free. */
static void hand_over(struct tb_stream *s, struct batch *b)
{
    pthread_mutex_lock(&s->mutex);
    while (s->copied)
        pthread_cond_wait(&s->changed, &s->mutex);
    s->copied = b;
    s->is_ended = !b;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->mutex);
}

static struct batch *await_copied(struct tb_stream *s)
{
    pthread_mutex_lock(&s->mutex);
    while (!s->copied && !s->is_ended)
        pthread_cond_wait(&s->changed, &s->mutex);
    struct batch *b = s->copied;
    pthread_mutex_unlock(&s->mutex);
    return b;
}

static void let_go(struct tb_stream *s)
{
    pthread_mutex_lock(&s->mutex);
    s->copied = NULL;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->mutex);
}

static void *run_copier(void *arg)
{
    struct tb_stream *s = arg;
    struct batch *b = s->batch;
    while ((b->n = tb_items_take(s->all->items, b->item))) {
        copy(s->all, b);
        hand_over(s, b);
        b = b == s->batch ? s->batch + 1 : s->batch;
    }
    hand_over(s, NULL);
    return NULL;
}

static void *run_publisher(void *arg)
{
    struct tb_stream *s = arg;
    for (struct batch *b; (b = await_copied(s)); let_go(s))
        publish(s->all, b);
    return NULL;
}

static void end_stream(struct tb_stream *s)
{
    pthread_join(s->copier, NULL);
    pthread_join(s->publisher, NULL);
    pthread_mutex_destroy(&s->mutex);
    pthread_cond_destroy(&s->changed);
    free(s);
}

/* 0 or an error number. A publisher without a copier is told that nothing comes. */
static int begin_stream(struct tb_streams *all, struct tb_stream **out)
{
    struct tb_stream *s = *out = calloc(1, sizeof(*s));
    if (!s)
        return ENOMEM;
    s->all = all;
    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->changed, NULL);
    int rc = pthread_create(&s->publisher, NULL, run_publisher, s);
    if (rc)
        return free(s), rc;
    rc = pthread_create(&s->copier, NULL, run_copier, s);
    if (rc) {
        hand_over(s, NULL);
        pthread_join(s->publisher, NULL);
        free(s);
    }
    return rc;
}

/*
 * Where one thread cannot be made the others are ended: fewer streams than asked for would be a slower mover, without
 * a word.
 */
int tb_streams_begin(struct tb_streams *s, struct tb_carries *moves, struct tb_items *items)
{
    *s = (struct tb_streams){.moves = moves, .items = items, .waits = true, .large_mutex = PTHREAD_MUTEX_INITIALIZER};
    LIST_INIT(&s->large);
    tb_waiters_begin(&s->waiters);
    for (unsigned i = 0; i < moves->settings->streams && i < TB_MOST_STREAMS; i++) {
        int rc = begin_stream(s, &s->stream[i]);
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
        end_stream(s->stream[i]);
    tb_waiters_end(&s->waiters);
    s->n = 0;
}
