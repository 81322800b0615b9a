/*
 * Debts of other nodes (owed.h): a list under one lock, which no thread holds while it asks another node. A debt that is being
 * told is marked, and only the thread that marked it removes it.
 *
 * The list is in this process's memory only, and is gone with it: then the programs of this node have no daemon to ask, and a commit
 * that waits for a debt ends with an error.
 */
#include "owed.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "relay.h"
#include "shared/local.h"

struct debt {
    struct tb_wire_file file;
    uint32_t node;
    uint64_t version, clock; /* clock: of the other node, when it had let go */
    bool told;               /* it does not flush them any more */
    bool paid;               /* it has let go; the keeper is to learn it */
    bool busy;               /* a thread tells it */
    int error;               /* of the last try: the node, or the keeper, is lost */
    struct tb_ranges ranges;
    struct debt *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct debt *debts;

/* Clients look at the count before they ask (shared/commit.c). Under the lock. */
static void show_count(tb_engine *e, const struct tb_wire_file *id)
{
    uint32_t file = tb_local_find(e, id), n = 0;
    for (const struct debt *d = debts; d; d = d->next)
        n += tb_wire_is(&d->file, id);
    if (file != TB_NONE)
        e->region.file_nodes[file].owes = n;
}

static void free_debt(struct debt *d)
{
    tb_ranges_free(&d->ranges);
    free(d);
}

/* NULL: no memory, and nothing is left of it. */
static struct debt *make_debt(const struct tb_wire_file *file, uint32_t node, uint64_t version, const struct tb_ranges *ranges)
{
    struct debt *d = calloc(1, sizeof(*d));
    int rc = d ? 0 : -ENOMEM;
    for (uint32_t i = 0; i < ranges->n && !rc; i++)
        rc = tb_ranges_add(&d->ranges, ranges->at[i].lo, ranges->at[i].hi);
    if (!rc) {
        d->file = *file;
        d->node = node;
        d->version = version;
    } else if (d) {
        free_debt(d);
        d = NULL;
    }
    return d;
}

/* Under the lock. A commit that is sent once more names the same debts again. */
static bool is_listed(const struct debt *new)
{
    const struct debt *d = debts;
    while (d && (d->node != new->node || d->version != new->version || !tb_wire_is(&d->file, &new->file)))
        d = d->next;
    return d != NULL;
}

/* A commit that is asked again names the same debt again: it is listed once. */
int owed_add(tb_engine *e, const struct tb_wire_file *file, uint32_t node, uint64_t version, const struct tb_ranges *ranges)
{
    struct debt *d = make_debt(file, node, version, ranges);
    if (!d)
        return -ENOMEM;
    pthread_mutex_lock(&lock);
    bool listed = is_listed(d);
    if (!listed) {
        d->next = debts;
        debts = d;
        show_count(e, file);
    }
    pthread_mutex_unlock(&lock);
    if (listed)
        free_debt(d);
    return 0;
}

/* Without the lock: the debt is marked. Its length is checked by the node that is told. */
static void tell_node(tb_engine *e, struct tb_net *net, struct debt *d)
{
    size_t n = d->ranges.n * sizeof(*d->ranges.at);
    char *bytes = malloc(sizeof(struct tb_wire) + n);
    if (!bytes)
        return;
    struct tb_wire w = {.op = TB_WIRE_LET_GO,
                        .n = d->ranges.n,
                        .file = d->file,
                        .hi = d->ranges.n ? d->ranges.at[0].hi : 0,
                        .version = d->version,
                        .again = d->told};
    w.lo = d->ranges.n ? d->ranges.at[0].lo : 0;
    memcpy(bytes, &w, sizeof(w));
    if (n)
        memcpy(bytes + sizeof(w), d->ranges.at, n);
    int64_t got = tb_net_call(net, d->node, bytes, sizeof(w) + n, &d->clock, sizeof(d->clock));
    d->paid = got == sizeof(d->clock);
    d->told |= d->paid || got == -EBUSY;
    d->error = d->paid || got == -EBUSY || got == -EAGAIN ? 0 : -EIO;
    if (d->error)
        relay_say_lost(e, net, &w, d->node, got < 0 ? got : -EPROTO);
    free(bytes);
}

/* Only then the debt is over: until the keeper knows it, the other node can't commit bytes of these ranges. True: it knows. */
static bool tell_keeper(tb_engine *e, struct tb_net *net, struct debt *d)
{
    struct {
        struct tb_wire w;
        struct tb_wire_extent gone;
    } m = {.w = {.op = TB_WIRE_GONE, .n_gone = 1, .file = d->file, .hi = d->clock}, .gone = {0, UINT64_MAX, d->version, d->node, 0}};
    char answer[sizeof(struct tb_told) + sizeof(struct tb_wire_extent)];
    unsigned keeper = relay_keeper(net, &d->file);
    int64_t got = tb_net_call(net, keeper, &m, sizeof(m), answer, sizeof(answer));
    if (got < 0) {
        d->error = -EIO;
        relay_say_lost(e, net, &m.w, keeper, got);
    }
    return got >= 0;
}

/* The next debt that no thread tells, older than what was added since the call began: marked. */
static struct debt *take(const struct tb_wire_file *file, const struct debt *after)
{
    struct debt *d = after ? after->next : debts;
    while (d && (d->busy || (file && !tb_wire_is(&d->file, file))))
        d = d->next;
    if (d)
        d->busy = true;
    return d;
}

/* Under the lock, by the thread that marked it. */
static void remove_paid(tb_engine *e, struct debt *d)
{
    struct tb_wire_file file = d->file;
    struct debt **link = &debts;
    while (*link != d)
        link = &(*link)->next;
    *link = d->next;
    show_count(e, &file);
    free_debt(d);
}

/* The mark keeps `d` in the list until the next one is taken: others only remove what they marked. */
void owed_deliver(tb_engine *e, struct tb_net *net, const struct tb_wire_file *file)
{
    pthread_mutex_lock(&lock);
    for (struct debt *d = take(file, NULL), *next; d; d = next) {
        pthread_mutex_unlock(&lock);
        if (!d->paid)
            tell_node(e, net, d);
        bool over = d->paid && tell_keeper(e, net, d);
        pthread_mutex_lock(&lock);
        next = take(file, d);
        d->busy = false;
        if (over)
            remove_paid(e, d);
    }
    pthread_mutex_unlock(&lock);
}

/* The worst of the debts; an error of one of them comes before that. */
int owed_state(const struct tb_wire_file *file, uint64_t version)
{
    int state = TB_OWED_NOTHING, error = 0;
    pthread_mutex_lock(&lock);
    for (const struct debt *d = debts; d; d = d->next)
        if (tb_wire_is(&d->file, file) && d->version <= version) {
            int one = d->told ? TB_OWED_BYTES : TB_OWED_FLUSHES;
            state = one > state ? one : state;
            error = d->error ? d->error : error;
        }
    pthread_mutex_unlock(&lock);
    return error ? error : state;
}
