/*
 * Bytes of this node go for commits of other nodes (let_go.h). Where a part of a block can't go alone, it waits for a flush of what
 * is beside it. But that may be due to go, too, for another commit, and then no flush writes it: so all that is due of a file
 * is tried together.
 */
#include "let_go.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "flush/queue.h"
#include "shared/local.h"
#include "turn.h"

struct due {
    struct tb_wire_file file;
    struct tb_due due;
    struct due *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct due *waiting;

static int take_ranges(const struct tb_wire *w, size_t n, struct tb_ranges *out)
{
    const struct tb_wire_range *range = (const void *)(w + 1);
    int rc = n == sizeof(*w) + (size_t)w->n * sizeof(*range) ? 0 : -EPROTO;
    for (uint32_t i = 0; !rc && i < w->n; i++)
        rc = range[i].lo < range[i].hi ? tb_ranges_add(out, range[i].lo, range[i].hi) : -EPROTO;
    tb_ranges_settle(out);
    return rc;
}

/* With the lock. A commit is told again and again, and is there once. */
static struct due *find(const struct tb_wire_file *file, uint64_t version)
{
    struct due *d = waiting;
    while (d && (d->due.version != version || !tb_wire_is(&d->file, file)))
        d = d->next;
    return d;
}

/* With the lock. The ranges are the list's from then on. 0 or -ENOMEM. */
static int put(const struct tb_wire_file *file, uint64_t version, struct tb_ranges *ranges)
{
    struct due *d = find(file, version);
    if (d)
        return 0;
    if (!(d = calloc(1, sizeof(*d))))
        return -ENOMEM;
    *d = (struct due){.file = *file, .due = {.version = version, .ranges = *ranges}, .next = waiting};
    *ranges = (struct tb_ranges){0};
    waiting = d;
    return 0;
}

/* With the lock. */
static void remove_all(const struct tb_wire_file *file)
{
    for (struct due **link = &waiting, *d; (d = *link);) {
        if (!tb_wire_is(&d->file, file)) {
            link = &d->next;
            continue;
        }
        *link = d->next;
        tb_ranges_free(&d->due.ranges);
        free(d);
    }
}

/* With the lock. NULL: no memory. */
static struct tb_due *list_all(const struct tb_wire_file *file, uint32_t *n)
{
    *n = 0;
    for (const struct due *d = waiting; d; d = d->next)
        *n += tb_wire_is(&d->file, file);
    struct tb_due *all = calloc(*n + 1, sizeof(*all));
    *n = 0;
    for (const struct due *d = waiting; d && all; d = d->next)
        if (tb_wire_is(&d->file, file))
            all[(*n)++] = d->due;
    return all;
}

/* Locked all the while: what is due may be tried by one thread at a time, and is soon done or refused. */
static int let_go_all(tb_engine *e, const struct tb_wire *w, uint32_t *file, uint64_t *clock)
{
    uint32_t n;
    struct tb_due *all = list_all(&w->file, &n);
    int rc = all ? tb_local_let_go(e, &w->file, all, n, w->again, file, clock) : -ENOMEM;
    free(all);
    if (!rc)
        remove_all(&w->file);
    return rc;
}

/*
 * It was told a second time, after its answer was lost, and the node that asks has heard since that it was done: what is here of these
 * ranges may be newer, and no note says so any more.
 */
static bool is_settled(tb_engine *e, const struct tb_wire *w)
{
    uint32_t file = tb_local_find(e, &w->file);
    return file != TB_NONE && w->version <= e->region.file_nodes[file].settled;
}

/*
 * In the file's turn: no list of what is dirty is on its way to the keeper. Where they can't go alone the file is flushed, and the node
 * that asks comes again.
 */
int64_t let_go_answer(tb_engine *e, const struct tb_wire *w, size_t n, void *answer, size_t room)
{
    struct tb_ranges ranges = {0};
    uint32_t file = TB_NONE;
    uint64_t clock = 0;
    int rc = room < sizeof(clock) ? -ENOBUFS : take_ranges(w, n, &ranges);
    turn_take(&w->file);
    if (!rc && is_settled(e, w)) {
        clock = tb_local_tick(e);
    } else {
        pthread_mutex_lock(&lock);
        rc = rc ? rc : put(&w->file, w->version, &ranges);
        rc = rc ? rc : let_go_all(e, w, &file, &clock);
        pthread_mutex_unlock(&lock);
    }
    turn_drop(&w->file);
    tb_ranges_free(&ranges);
    if (rc == -EBUSY)
        tb_flush_queue(e, file);
    if (rc)
        return rc;
    memcpy(answer, &clock, sizeof(clock));
    return sizeof(clock);
}
