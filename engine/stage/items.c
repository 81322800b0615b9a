/*
 * One mutex for the table, the list and the large file that is shared. Only one large file is
 * shared at a time: a second one is copied by its own stream alone, which keeps as many
 * streams busy.
 */
#include "stage/items.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

void tb_items_begin(struct tb_items *s)
{
    memset(s, 0, sizeof(*s));
    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->changed, NULL);
    TAILQ_INIT(&s->held);
    TAILQ_INIT(&s->ready);
}

void tb_items_end(struct tb_items *s)
{
    tb_table_end(&s->table, free);
    pthread_mutex_destroy(&s->mutex);
    pthread_cond_destroy(&s->changed);
}

static struct tb_item *make(const char *source, const char *destination, const struct stat *st)
{
    size_t n = strlen(source) + 1, k = strlen(destination) + 1;
    struct tb_item *i = calloc(1, sizeof(*i) + n + k);
    if (!i)
        return NULL;
    i->source = memcpy(i->names, source, n);
    i->destination = memcpy(i->names + n, destination, k);
    i->content = tb_content_of(st);
    return i;
}

/* Under the mutex. */
static void make_ready(struct tb_items *s, struct tb_item *i)
{
    i->is_moving = i->is_again = false;
    TAILQ_INSERT_TAIL(&s->ready, i, next);
    pthread_cond_broadcast(&s->changed);
}

/* -ENOMEM, or 1. */
static int add_new(struct tb_items *s, const char *source, const char *destination, const struct stat *st)
{
    struct tb_item *i = make(source, destination, st);
    if (!i)
        return -ENOMEM;
    if (tb_table_add(&s->table, i->source, i)) {
        free(i);
        return -ENOMEM;
    }
    TAILQ_INSERT_TAIL(&s->held, i, next);
    return 1;
}

/* The same content that was seen before its move began is in the move. */
static void note_content(struct tb_item *i, struct tb_content now)
{
    struct tb_content was = i->content;
    i->is_again |= i->is_moving && (was.size != now.size || was.mtime != now.mtime || was.ctime != now.ctime);
    i->content = now;
}

/*
 * New items are held back until the log has their line. A stream that took one before could write its DEQUEUE before its
 * ENQUEUE.
 */
int tb_items_add(struct tb_items *s, const char *source, const char *destination, const struct stat *st)
{
    int rc = 0;
    pthread_mutex_lock(&s->mutex);
    struct tb_item *known = tb_table_find(&s->table, source);
    if (!known)
        rc = add_new(s, source, destination, st);
    else
        note_content(known, tb_content_of(st));
    pthread_mutex_unlock(&s->mutex);
    return rc;
}

/* What is held goes first of all to the ready ones: the caller has written the log already. */
bool tb_items_hasten(struct tb_items *s, const char *source)
{
    pthread_mutex_lock(&s->mutex);
    struct tb_item *i = tb_table_find(&s->table, source);
    TAILQ_CONCAT(&s->ready, &s->held, next);
    if (i && !i->is_moving && TAILQ_FIRST(&s->ready) != i) {
        TAILQ_REMOVE(&s->ready, i, next);
        TAILQ_INSERT_HEAD(&s->ready, i, next);
    }
    pthread_mutex_unlock(&s->mutex);
    return i != NULL;
}

void tb_items_release(struct tb_items *s)
{
    pthread_mutex_lock(&s->mutex);
    if (!TAILQ_EMPTY(&s->held)) {
        TAILQ_CONCAT(&s->ready, &s->held, next);
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->mutex);
}

/*
 * The first that is due, and small ones after it while all are small. Small files go together, because each step of a
 * batch is paid once; a large one goes alone, because it has pieces that several streams can take.
 */
static unsigned take_due(struct tb_items *s, struct tb_item *batch[TB_BATCH])
{
    unsigned n = 0;
    uint64_t now = tb_now_ns(), bytes = 0;
    for (struct tb_item *i = TAILQ_FIRST(&s->ready), *next; i && n < TB_BATCH; i = next) {
        next = TAILQ_NEXT(i, next);
        if (i->not_before > now)
            continue;
        if (n && (i->content.size > TB_SMALL || bytes + i->content.size > 16 * TB_SMALL))
            break;
        TAILQ_REMOVE(&s->ready, i, next);
        i->is_moving = true;
        i->is_again = false;
        bytes += i->content.size;
        batch[n++] = i;
        if (i->content.size > TB_SMALL)
            break;
    }
    return n;
}

/* Called and returns with the mutex held. */
static void help(struct tb_items *s)
{
    struct tb_bytes *b = s->shared;
    s->helpers++;
    pthread_mutex_unlock(&s->mutex);
    tb_bytes_work(b);
    pthread_mutex_lock(&s->mutex);
    s->helpers--;
    if (s->shared == b)
        s->shared = NULL; /* no pieces are left to take */
    pthread_cond_broadcast(&s->changed);
}

/*
 * An idle stream helps with the large file until it has no piece left to take. Items that become ready in the meantime
 * wait for another stream.
 */
unsigned tb_items_take(struct tb_items *s, struct tb_item *batch[TB_BATCH])
{
    unsigned n = 0;
    pthread_mutex_lock(&s->mutex);
    while (!s->is_closed && !(n = take_due(s, batch))) {
        if (s->shared)
            help(s);
        else
            pthread_cond_wait(&s->changed, &s->mutex);
    }
    pthread_mutex_unlock(&s->mutex);
    return n;
}

bool tb_items_is_again(struct tb_items *s, const struct tb_item *i)
{
    pthread_mutex_lock(&s->mutex);
    bool again = i->is_again;
    pthread_mutex_unlock(&s->mutex);
    return again;
}

/* The table holds the name, so the item is taken out before it is freed. What was closed again stays in hand. */
bool tb_items_settled(struct tb_items *s, struct tb_item *i)
{
    pthread_mutex_lock(&s->mutex);
    bool settled = !i->is_again;
    if (settled)
        tb_table_remove(&s->table, i->source);
    pthread_mutex_unlock(&s->mutex);
    if (settled)
        free(i);
    return settled;
}

void tb_items_again(struct tb_items *s, struct tb_item *i, uint64_t pause_ns)
{
    pthread_mutex_lock(&s->mutex);
    i->not_before = tb_now_ns() + pause_ns;
    make_ready(s, i);
    pthread_mutex_unlock(&s->mutex);
}

void tb_items_wake(struct tb_items *s)
{
    pthread_mutex_lock(&s->mutex);
    if (!TAILQ_EMPTY(&s->ready))
        pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->mutex);
}

void tb_items_close(struct tb_items *s)
{
    pthread_mutex_lock(&s->mutex);
    s->is_closed = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->mutex);
}

uint64_t tb_items_left(struct tb_items *s)
{
    pthread_mutex_lock(&s->mutex);
    uint64_t n = s->table.n;
    pthread_mutex_unlock(&s->mutex);
    return n;
}

/*
 * The caller works too. The bytes are its own again when no helper is at them. Helpers left from the last large file may
 * still be at work on its pieces. Then this one is copied by its own stream alone.
 */
void tb_items_share(struct tb_items *s, struct tb_bytes *b)
{
    pthread_mutex_lock(&s->mutex);
    bool shares = !s->shared && !s->helpers;
    if (shares) {
        s->shared = b;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->mutex);
    tb_bytes_work(b);
    pthread_mutex_lock(&s->mutex);
    if (s->shared == b)
        s->shared = NULL;
    while (shares && s->helpers)
        pthread_cond_wait(&s->changed, &s->mutex);
    pthread_mutex_unlock(&s->mutex);
}
