/*
 * Finding the nodes (gather.h).
 *
 * Of two nodes the one with the name that sorts first calls. Nodes are called by their records; only a node that proved the
 * secret counts. So a record that an earlier start left costs a call in vain, and its node counts as missing.
 */
#include "net/start/gather.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/start/greet.h"

#define LOOK_MS 20 /* between looks into the folder, */
#define LOOK_MS_MAX 500
#define NAMES_MAX 8192 /* more than nodes can be awaited */

void tb_gather_begin(struct tb_gather *g)
{
    pthread_mutex_init(&g->lock, NULL);
    g->all = NULL;
    g->n = 0;
    g->twice[0] = 0;
    g->is_over = false;
}

void tb_gather_end(struct tb_gather *g)
{
    for (unsigned i = 0; i < g->n; i++)
        if (g->all[i].fd >= 0)
            close(g->all[i].fd);
    free(g->all);
    tb_launcher_forget(g->launcher);
    pthread_mutex_destroy(&g->lock);
}

/*
 * Under the lock. The place of that name, made where it is missing; NULL: too many. The list is sorted by name as it
 * grows, since the order gives the nodes their numbers.
 */
static struct tb_arrival *place_of(struct tb_gather *g, const char *node)
{
    unsigned i = 0;
    while (i < g->n && strcmp(g->all[i].record.node, node) < 0)
        i++;
    if (i < g->n && strcmp(g->all[i].record.node, node) == 0)
        return &g->all[i];
    struct tb_arrival *more = g->n < NAMES_MAX ? realloc(g->all, (g->n + 1) * sizeof(*more)) : NULL;
    if (!more)
        return NULL;
    memmove(&more[i + 1], &more[i], (g->n++ - i) * sizeof(*more));
    more[i] = (struct tb_arrival){.fd = -1};
    snprintf(more[i].record.node, sizeof(more[i].record.node), "%s", node);
    g->all = more;
    return &more[i];
}

/* The start fails with this: nodes are told apart by their names alone. */
static void note_twice(struct tb_gather *g, int fd)
{
    tb_net_describe_other(fd, g->twice, sizeof(g->twice));
    close(fd);
}

/* A second connection of a name: its first process was replaced before the start was over. */
static bool let_in(struct tb_gather *g, int fd, const struct tb_hello *hello)
{
    struct tb_arrival *a = place_of(g, hello->from);
    if (!a)
        return false;
    if (a->fd >= 0)
        close(a->fd);
    memcpy(a->record.start, hello->from_start, sizeof(a->record.start));
    a->record.address = hello->address;
    a->fd = fd;
    return true;
}

/* By the greeter's thread, while tb_gather looks into the folder in its own. */
bool tb_gather_arrived(struct tb_gather *g, int fd, const struct tb_hello *hello)
{
    bool taken = true;
    pthread_mutex_lock(&g->lock);
    if (strcmp(hello->from, g->own.node) == 0)
        note_twice(g, fd);
    else
        taken = !g->is_over && let_in(g, fd, hello);
    pthread_mutex_unlock(&g->lock);
    return taken;
}

/*
 * Waits for the proof, up to TB_GREET_MS; a record of a process that has ended costs less, since the connection is
 * refused.
 */
static int call(struct tb_gather *g, const struct tb_record *r)
{
    struct tb_hello hello = {.address = g->own.address, .purpose = TB_FOR_LIFE};
    snprintf(hello.from, sizeof(hello.from), "%s", g->own.node);
    snprintf(hello.to, sizeof(hello.to), "%s", r->node);
    memcpy(hello.from_start, g->own.start, sizeof(hello.from_start));
    memcpy(hello.to_start, r->start, sizeof(hello.to_start));
    return tb_greet(g->key, &r->address, &g->own.address, &hello, TB_GREET_MS, NULL);
}

/* Without the lock: only this thread changes records, and calls. */
static void try_to_call(struct tb_gather *g, const struct tb_record *r)
{
    int fd = strcmp(g->own.node, r->node) < 0 ? call(g, r) : -ENOTCONN;
    pthread_mutex_lock(&g->lock);
    struct tb_arrival *a = place_of(g, r->node);
    if (a && a->fd < 0) {
        bool is_same = memcmp(a->record.start, r->start, sizeof(r->start)) == 0;
        if (!is_same || a->rc != -EACCES) /* which is told, whatever comes after it */
            a->rc = fd >= 0 ? 0 : fd;
        a->record = *r;
        a->fd = fd >= 0 ? fd : -1;
    } else if (fd >= 0) {
        close(fd);
    }
    pthread_mutex_unlock(&g->lock);
}

static bool is_connected(struct tb_gather *g, const char *node)
{
    bool connected = false;
    pthread_mutex_lock(&g->lock);
    for (unsigned i = 0; i < g->n; i++)
        connected |= g->all[i].fd >= 0 && strcmp(g->all[i].record.node, node) == 0;
    pthread_mutex_unlock(&g->lock);
    return connected;
}

/* A record with this node's name that is not its own: another process took the name. */
static void look_at_own(struct tb_gather *g, const struct tb_record *r)
{
    if (memcmp(r->start, g->own.start, sizeof(r->start)) == 0)
        return;
    pthread_mutex_lock(&g->lock);
    snprintf(g->twice, sizeof(g->twice), "%s port %s", r->address.host, r->address.port);
    pthread_mutex_unlock(&g->lock);
}

/* A name is looked at again and again until it is connected: a record may be there before its node answers. */
static void seen(void *arg, const char *node, const struct tb_record *r)
{
    struct tb_gather *g = arg;
    if (!r)
        g->foreign++;
    else if (strcmp(node, g->own.node) == 0)
        look_at_own(g, r);
    else if (!is_connected(g, node))
        try_to_call(g, r);
}

/*
 * The name in the folder. A node that has it already either answers, with a proof, and then the name came twice; or the record
 * is of a start that is over.
 */
static int take_name(struct tb_gather *g)
{
    struct tb_record other;
    int rc = tb_members_write(g->peers, g->key, &g->own, false);
    if (rc != -EEXIST)
        return rc;
    int fd = tb_members_read(g->peers, g->key, g->own.node, &other) == 0 ? call(g, &other) : -ENOENT;
    if (fd >= 0) {
        note_twice(g, fd);
        return 0;
    }
    return tb_members_write(g->peers, g->key, &g->own, true);
}

struct words {
    char *at;
    size_t left;
};

__attribute__((format(printf, 2, 3))) static void say(struct words *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(w->at, w->left, format, args);
    va_end(args);
    size_t step = n < 0 ? 0 : (size_t)n < w->left ? (size_t)n : w->left - 1;
    w->at += step;
    w->left -= step;
}

/* Under the lock. */
static unsigned count(const struct tb_gather *g)
{
    unsigned n = 1;
    for (unsigned i = 0; i < g->n; i++)
        n += g->all[i].fd >= 0;
    return n;
}

static void say_who_came(const struct tb_gather *g, struct words *w)
{
    bool said_own = false; /* this node is not in the list, and is said in its place */
    const char *comma = "";
    for (unsigned i = 0; i <= g->n; i++) {
        bool own_is_next = !said_own && (i == g->n || strcmp(g->own.node, g->all[i].record.node) < 0);
        if (own_is_next) {
            say(w, "%s%s", comma, g->own.node);
            said_own = true;
            comma = ", ";
        }
        if (i < g->n && g->all[i].fd >= 0) {
            say(w, "%s%s", comma, g->all[i].record.node);
            comma = ", ";
        }
    }
}

/* The words for what a user can act on; a connection that is reset was closed by a node that was looked for by an old start. */
static const char *why_not_reached(int rc)
{
    return rc == -ENOTCONN   ? "it did not call"
         : rc == -EACCES     ? "what is there did not prove the secret"
         : rc == -ECONNRESET ? "what is there is of another start"
                             : strerror(-rc);
}

/* Says which nodes came, how many are missing, and why each record has no answer: so the user sees which node to look at. */
static int say_missing(const struct tb_gather *g, int start_ms, struct tb_error *err)
{
    struct words w = {err->text, sizeof(err->text)};
    unsigned n = count(g);
    say(&w, "%u of %u nodes came within %d s: ", n, g->n_nodes, (start_ms + 999) / 1000);
    say_who_came(g, &w);
    if (g->n_nodes - n == 1)
        say(&w, "; one is missing");
    else
        say(&w, "; %u are missing", g->n_nodes - n);
    for (unsigned i = 0; i < g->n; i++)
        if (g->all[i].fd < 0)
            say(&w, "; %s left its address %s port %s: %s", g->all[i].record.node, g->all[i].record.address.host,
                g->all[i].record.address.port, why_not_reached(g->all[i].rc));
    if (g->foreign)
        say(&w, "; records of another start or instance: %u", g->foreign);
    return -ETIMEDOUT;
}

/* Under the lock. 1: not all are there yet. */
static int judge(struct tb_gather *g, struct tb_error *err)
{
    struct words w = {err->text, sizeof(err->text)};
    unsigned n = count(g);
    if (g->twice[0]) {
        say(&w, "node %s came twice: here, at %s port %s, and at %s", g->own.node, g->own.address.host, g->own.address.port, g->twice);
        return -EEXIST;
    }
    if (n > g->n_nodes) {
        say(&w, "%u nodes came where %u are awaited: ", n, g->n_nodes);
        say_who_came(g, &w);
        return -ENOSPC;
    }
    return n < g->n_nodes;
}

/* A node that is only in the folder is forgotten: the rest is the list. */
static void close_list(struct tb_gather *g)
{
    unsigned n = 0;
    for (unsigned i = 0; i < g->n; i++)
        if (g->all[i].fd >= 0)
            g->all[n++] = g->all[i];
    g->n = n;
}

/* One decision under one lock: after it no node is let in, so the list that was judged is the list that is used. */
static int judge_now(struct tb_gather *g, bool is_late, int start_ms, struct tb_error *err)
{
    pthread_mutex_lock(&g->lock);
    int rc = judge(g, err);
    if (rc > 0 && is_late)
        rc = say_missing(g, start_ms, err);
    g->is_over = rc <= 0;
    if (rc == 0)
        close_list(g);
    pthread_mutex_unlock(&g->lock);
    return rc;
}

/*
 * Looks into the folder in longer and longer steps, because with many nodes each look reads as many files of a shared file
 * system.
 */
int tb_gather(struct tb_gather *g, int start_ms, struct tb_error *err)
{
    uint64_t until_ns = tb_now_ns() + (uint64_t)start_ms * 1000000u;
    char text[TB_RECORD_MAX];
    int rc = take_name(g);
    tb_record_put(g->key, &g->own, text);
    g->launcher = rc ? NULL : tb_launcher_ask(text, g->n_nodes);
    if (rc)
        snprintf(err->text, sizeof(err->text), "the record of node %s cannot be written: %s", g->own.node, strerror(-rc));
    for (long look_ms = LOOK_MS; !rc;) {
        g->foreign = 0;
        tb_members_list(g->peers, g->key, seen, g);
        tb_launcher_list(g->launcher, g->key, seen, g);
        rc = judge_now(g, tb_now_ns() >= until_ns, start_ms, err);
        if (rc <= 0)
            return rc;
        nanosleep(&(struct timespec){0, look_ms * 1000000}, NULL);
        look_ms = look_ms * 2 < LOOK_MS_MAX ? look_ms * 2 : LOOK_MS_MAX;
        rc = 0;
    }
    return rc;
}
