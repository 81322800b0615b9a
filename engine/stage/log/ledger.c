/*
 * The ledger is a table by destination and a list of movers, filled line by line. One mutex
 * guards it: the streams of a mover ask it a few times for each file, which is little beside
 * moving one.
 */
#include "stage/log/ledger.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

/* What is compared to know a version of a file: size and times. The bytes are only compared where a move is in doubt. */
struct tb_content tb_content_of(const struct stat *st)
{
    return (struct tb_content){.size = (uint64_t)st->st_size,
                               .mtime = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec,
                               .ctime = (int64_t)st->st_ctim.tv_sec * 1000000000 + st->st_ctim.tv_nsec};
}

/* Under the mutex, as all that is static here. */
static struct tb_entry *find(const struct tb_ledger *l, const char *destination)
{
    return tb_table_find(&l->table, destination);
}

/* Texts are mostly the same from line to line, so they are copied only where they differ. */
static void replace(char **text, const char *by)
{
    if (*text && strcmp(*text, by) == 0)
        return;
    free(*text);
    *text = strdup(by);
}

/* There are few of them, and most lines are of the first. NULL: no memory. */
static const char *host_of(struct tb_ledger *l, const char *name)
{
    struct tb_known_host *h = l->hosts;
    while (h && strcmp(h->name, name) != 0)
        h = h->next;
    if (h || !(h = malloc(sizeof(*h) + strlen(name) + 1)))
        return h ? h->name : NULL;
    h->next = l->hosts;
    l->hosts = h;
    return strcpy(h->name, name);
}

/* Most origins are the source itself, and then one text is both. */
static void forget_origin(struct tb_entry *e)
{
    if (e->origin != e->source)
        free(e->origin);
}

/* What was moved keeps its text where that was the source's. */
static void replace_source(struct tb_entry *e, const char *by)
{
    if (e->source && strcmp(e->source, by) == 0)
        return;
    if (e->origin != e->source)
        free(e->source);
    e->source = strdup(by);
}

static void free_entry(void *entry)
{
    struct tb_entry *e = entry;
    forget_origin(e);
    free(e->source);
    free(e->reason);
    free(e);
}

/* NULL where there is no memory: then the entry is as if it had not been read, and its file is moved once more. */
static struct tb_entry *make(struct tb_ledger *l, const char *destination)
{
    struct tb_entry *e = calloc(1, sizeof(*e) + strlen(destination) + 1);
    if (!e)
        return NULL;
    e->state = TB_ENTRY_GONE;
    strcpy(e->destination, destination);
    if (tb_table_add(&l->table, e->destination, e) == 0)
        return e;
    free_entry(e);
    return NULL;
}

/* The counts move with the state, so they are right after every line, whatever the order of the lines. */
static void set_state(struct tb_ledger *l, struct tb_entry *e, enum tb_entry_state state)
{
    l->n_queued += (uint64_t)(state == TB_ENTRY_QUEUED) - (uint64_t)(e->state == TB_ENTRY_QUEUED);
    e->state = state;
}

/* Of one that is being moved; its bytes count once, whatever becomes of it. */
static void set_part(struct tb_ledger *l, struct tb_entry *e, uint64_t part)
{
    l->bytes_moved += part - e->part;
    e->part = part;
}

/* HOST SOURCE DESTINATION BYTES: so many are there. */
static void take_moving(struct tb_ledger *l, char **field, int n)
{
    struct tb_entry *e = n < 4 ? NULL : find(l, field[2]);
    if (n >= 4 && !e && l->only_counts && (e = make(l, field[2])))
        set_state(l, e, TB_ENTRY_QUEUED);
    if (e && e->state == TB_ENTRY_QUEUED)
        set_part(l, e, strtoull(field[3], NULL, 10));
}

/*
 * HOST SOURCE DESTINATION begin the lines of a file. One destination has one entry: the source that was enqueued last is
 * the one that is moved there.
 */
static struct tb_entry *entry_of(struct tb_ledger *l, char **field, int n)
{
    struct tb_entry *e = n < 3 ? NULL : find(l, field[2]);
    if (n >= 3 && !e && !l->only_counts)
        e = make(l, field[2]);
    if (!e)
        return NULL;
    e->host = host_of(l, field[0]);
    replace_source(e, field[1]);
    return e->host && e->source ? e : NULL;
}

/* `bytes_queued` only grows: it is what was asked for in all, and progress compares it with what was moved in all. */
static void take_queued(struct tb_ledger *l, char **field, int n)
{
    struct tb_entry *e = entry_of(l, field, n);
    l->bytes_queued += n > 3 ? strtoull(field[3], NULL, 10) : 0;
    if (!e)
        return;
    set_part(l, e, 0);
    set_state(l, e, TB_ENTRY_QUEUED);
}

/*
 * HOST SOURCE DESTINATION BYTES XXH3 MTIME CTIME SECONDS RATE. `owner` and `origin` stay when the file is queued again by
 * another node: they say which node may replace the destination.
 */
static void take_moved(struct tb_ledger *l, char **field, int n)
{
    struct tb_entry *e = n < 7 ? NULL : entry_of(l, field, n);
    l->bytes_moved += n < 7 ? 0 : strtoull(field[3], NULL, 10);
    if (!e)
        return;
    e->content = (struct tb_content){strtoull(field[3], NULL, 10), strtoll(field[5], NULL, 10), strtoll(field[6], NULL, 10)};
    e->owner = e->host;
    forget_origin(e);
    e->origin = e->source;
    set_part(l, e, 0);
    set_state(l, e, TB_ENTRY_MOVED);
}

/* What is at the destination stays as it was, so `owner` and `content` do, too. A failure has its reason as fourth field. */
static void take_end(struct tb_ledger *l, char **field, int n, enum tb_entry_state state)
{
    struct tb_entry *e = entry_of(l, field, n);
    if (!e)
        return;
    if (n > 3)
        replace(&e->reason, field[3]);
    set_part(l, e, 0);
    set_state(l, e, state);
}

/* A list, because a log has few movers: one for each job and node. */
static struct tb_known_mover *find_mover(struct tb_ledger *l, const char *id)
{
    struct tb_known_mover *m = l->movers;
    while (m && strcmp(m->id, id) != 0)
        m = m->next;
    return m;
}

/* HOST ID SINCE FROM. It has the lease of its host and folder, so those before it have ended, in whatever way. */
static void take_starts(struct tb_ledger *l, char **field, int n)
{
    struct tb_known_mover *m = n < 4 ? NULL : calloc(1, sizeof(*m));
    if (!m)
        return;
    snprintf(m->host, sizeof(m->host), "%s", field[0]);
    snprintf(m->id, sizeof(m->id), "%s", field[1]);
    m->since = strtoll(field[2], NULL, 10);
    snprintf(m->from, sizeof(m->from), "%s", field[3]);
    for (struct tb_known_mover *other = l->movers; other; other = other->next)
        other->ended |= strcmp(other->host, m->host) == 0 && strcmp(other->from, m->from) == 0 && m->from[0];
    m->next = l->movers;
    l->movers = m;
}

/* A mover of which the log has no start is not known; what it says is passed over. */
static void take_of_mover(struct tb_ledger *l, const char *word, char **field, int n)
{
    struct tb_known_mover *m = n < 2 ? NULL : find_mover(l, field[1]);
    if (m && strcmp(word, "ends") == 0) {
        m->ended = true;
    } else if (m && n > 2) {
        snprintf(m->answered, sizeof(m->answered), "%s", field[2]);
        m->n_open = n > 3 ? strtoul(field[3], NULL, 10) : 0;
        snprintf(m->open, sizeof(m->open), "%s", n > 4 ? field[4] : "");
    }
}

/* Words that are not known are passed over, so an older program can read a newer log. */
static void take_fact(void *arg, const char *word, char **field, int n)
{
    struct tb_ledger *l = arg;
    if (strcmp(word, "queued") == 0)
        take_queued(l, field, n);
    else if (strcmp(word, "moved") == 0)
        take_moved(l, field, n);
    else if (strcmp(word, "moving") == 0)
        take_moving(l, field, n);
    else if (strcmp(word, "gone") == 0)
        take_end(l, field, n, TB_ENTRY_GONE);
    else if (strcmp(word, "failed") == 0)
        take_end(l, field, n, TB_ENTRY_FAILED);
    else if (strcmp(word, "starts") == 0)
        take_starts(l, field, n);
    else if (strcmp(word, "asks") == 0 && n > 0)
        snprintf(l->asked, sizeof(l->asked), "%s", field[0]);
    else if (strcmp(word, "answers") == 0 || strcmp(word, "ends") == 0)
        take_of_mover(l, word, field, n);
}

/* These lines are for people and are only counted; decisions rest on the facts. */
static void take_spectral(void *arg, const char *word, char **field, int n)
{
    struct tb_ledger *l = arg;
    (void)field;
    (void)n;
    l->enqueued += strcmp(word, "ENQUEUE") == 0;
    l->dequeued += strcmp(word, "DEQUEUE") == 0;
    l->done += strcmp(word, "DONE") == 0;
}

static int open_log(struct tb_ledger *l, const char *folder, bool only_counts)
{
    *l = (struct tb_ledger){.only_counts = only_counts};
    pthread_mutex_init(&l->mutex, NULL);
    int rc = tb_log_open(&l->log, folder);
    return rc ? rc : tb_ledger_refresh(l);
}

/* Read from its beginning: what movers before this one did is known before the first file is looked at. */
int tb_ledger_open(struct tb_ledger *l, const char *folder)
{
    return open_log(l, folder, false);
}

int tb_ledger_open_counts(struct tb_ledger *l, const char *folder)
{
    return open_log(l, folder, true);
}

static void forget_all(struct tb_ledger *l)
{
    tb_table_end(&l->table, free_entry);
    for (struct tb_known_mover *m = l->movers, *next; m; m = next) {
        next = m->next;
        free(m);
    }
    for (struct tb_known_host *h = l->hosts, *next; h; h = next) {
        next = h->next;
        free(h);
    }
}

int tb_ledger_read_all(struct tb_ledger *l)
{
    struct tb_log log = l->log;
    log.at = 0;
    forget_all(l);
    *l = (struct tb_ledger){.log = log, .mutex = PTHREAD_MUTEX_INITIALIZER};
    return tb_ledger_refresh(l);
}

/* No other thread uses it any more. */
void tb_ledger_close(struct tb_ledger *l)
{
    tb_log_close(&l->log);
    forget_all(l);
    pthread_mutex_destroy(&l->mutex);
}

/* The place in the log moves under the mutex, so no line is taken twice. */
int tb_ledger_refresh(struct tb_ledger *l)
{
    pthread_mutex_lock(&l->mutex);
    int rc = tb_log_read(&l->log, take_spectral, take_fact, l);
    pthread_mutex_unlock(&l->mutex);
    return rc;
}

/* The first failure in a row sets the time: that is how long the log has not taken anything. */
static void note_failing(struct tb_ledger *l, int rc)
{
    l->failing = rc;
    if (!rc)
        l->failing_since_ns = 0;
    else if (!l->failing_since_ns)
        l->failing_since_ns = tb_now_ns();
}

/* The own lines come back by the next read like all others, so there is one way into the table. */
int tb_ledger_append(struct tb_ledger *l, struct tb_lines *lines)
{
    if (!lines->n && !lines->error)
        return 0;
    int rc = tb_log_append(&l->log, lines);
    note_failing(l, rc);
    return rc ? rc : tb_ledger_refresh(l);
}

/* The source alone would not do: nodes have different files under one name. */
static bool is_from(const struct tb_entry *e, const char *host, const char *source)
{
    return e->owner && e->origin && strcmp(e->owner, host) == 0 && strcmp(e->origin, source) == 0;
}

/* Size, modification and change time must all be as they were: a file that was written again is moved again. */
bool tb_ledger_has_moved(struct tb_ledger *l, const char *host, const char *source, const char *destination, const struct stat *st)
{
    struct tb_content now = tb_content_of(st);
    pthread_mutex_lock(&l->mutex);
    const struct tb_entry *e = find(l, destination);
    bool has = e && e->state == TB_ENTRY_MOVED && is_from(e, host, source) && e->content.size == now.size &&
               e->content.mtime == now.mtime && e->content.ctime == now.ctime;
    pthread_mutex_unlock(&l->mutex);
    return has;
}

/* True also after a failed or a new move: what this source once brought it may replace. */
bool tb_ledger_owns(struct tb_ledger *l, const char *host, const char *source, const char *destination)
{
    pthread_mutex_lock(&l->mutex);
    const struct tb_entry *e = find(l, destination);
    bool owns = e && is_from(e, host, source);
    pthread_mutex_unlock(&l->mutex);
    return owns;
}

/* Enqueued and not moved yet, by any mover: it is not enqueued a second time. */
bool tb_ledger_waits(struct tb_ledger *l, const char *destination)
{
    pthread_mutex_lock(&l->mutex);
    const struct tb_entry *e = find(l, destination);
    bool waits = e && e->state == TB_ENTRY_QUEUED;
    pthread_mutex_unlock(&l->mutex);
    return waits;
}

/* For stage-out: what is there as a stage-in left it is not carried back. */
bool tb_ledger_brought(struct tb_ledger *l, const char *path, const struct stat *st)
{
    struct tb_content now = tb_content_of(st);
    pthread_mutex_lock(&l->mutex);
    const struct tb_entry *e = find(l, path);
    bool brought = e && e->owner && e->content.size == now.size && e->content.mtime == now.mtime;
    pthread_mutex_unlock(&l->mutex);
    return brought;
}

/* The oldest mover of that folder decides, since the list is walked to its end. */
int64_t tb_ledger_since(struct tb_ledger *l, const char *host, const char *from)
{
    int64_t since = INT64_MIN;
    pthread_mutex_lock(&l->mutex);
    for (const struct tb_known_mover *m = l->movers; m; m = m->next) /* the newest comes first */
        if (strcmp(m->host, host) == 0 && strcmp(m->from, from) == 0)
            since = m->since;
    pthread_mutex_unlock(&l->mutex);
    return since;
}

static int by_destination(const void *a, const void *b)
{
    return strcmp((*(const struct tb_entry *const *)a)->destination, (*(const struct tb_entry *const *)b)->destination);
}

/* A file that is gone at its source is not left: there is nothing to move. */
static bool is_left(const struct tb_entry *e)
{
    return e && (e->state == TB_ENTRY_QUEUED || e->state == TB_ENTRY_FAILED);
}

/* In their order; where there is no memory for it, in none. `act` must not ask the ledger: the mutex is held. */
void tb_ledger_each_left(struct tb_ledger *l, void (*act)(void *arg, const struct tb_entry *entry), void *arg)
{
    size_t n = 0;
    pthread_mutex_lock(&l->mutex);
    const struct tb_entry **sorted = malloc((l->table.n + 1) * sizeof(*sorted));
    for (size_t i = 0; i < l->table.room; i++) {
        const struct tb_entry *e = l->table.place[i].item;
        if (is_left(e) && sorted)
            sorted[n++] = e;
        else if (is_left(e))
            act(arg, e);
    }
    if (sorted)
        qsort(sorted, n, sizeof(*sorted), by_destination);
    for (size_t i = 0; i < n; i++)
        act(arg, sorted[i]);
    free(sorted);
    pthread_mutex_unlock(&l->mutex);
}
