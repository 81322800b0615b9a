/*
 * Looking for the files that have to be moved, and enqueuing them (stage/finds.h). Everything here is done by the mover's main
 * thread alone, so nothing of it is locked. What was decided is in the log before a stream gets the file.
 */
#include "stage/finds.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "stage/walk.h"
#include "text/text.h"

#define LINES_AT_ONCE (1u << 16)
#define MOST_MADE 256 /* each is open */

struct tb_unread {
    struct tb_unread *next;
    const char *destination; /* in `path`, after it */
    char path[];
};

/*
 * Where a file below the pair's, or the folder's, source goes. False: its name would be too long. The rest of the path is
 * kept as it is, so a tree looks the same on both sides.
 */
static bool destination_of(const struct tb_finds *f, const char *path, char *out)
{
    const char *from = f->pair ? f->pair->source : f->from, *to = f->pair ? f->pair->destination : f->to;
    return snprintf(out, PATH_MAX, "%s%s", to, path + strlen(from)) < PATH_MAX;
}

static bool is_known(const struct tb_unread *first, const char *path)
{
    while (first && strcmp(first->path, path) != 0)
        first = first->next;
    return first;
}

static void note_unread(struct tb_unread **first, const char *path, const char *destination)
{
    size_t n = strlen(path) + 1;
    struct tb_unread *new = malloc(sizeof(*new) + n + strlen(destination) + 1);
    if (!new)
        return; /* then it is told at each look */
    strcpy(new->path, path);
    new->destination = strcpy(new->path + n, destination);
    new->next = *first;
    *first = new;
}

static void forget_unread(struct tb_unread **first)
{
    for (struct tb_unread *next; *first; *first = next) {
        next = (*first)->next;
        free(*first);
    }
}

/*
 * A folder that cannot be read: it fails by its own name, once, until it can be read. Where its destination would be too
 * long, the folder above it is in the log.
 */
static void fail_folder(struct tb_finds *f, const char *path, const char *why)
{
    char folder[PATH_MAX], destination[PATH_MAX], reason[120];
    snprintf(folder, sizeof(folder), "%s", path);
    for (char *slash; !destination_of(f, folder, destination) && (slash = strrchr(folder, '/'));)
        *slash = '\0';
    if (!is_known(f->unread_before, folder) && !is_known(f->unread, folder)) {
        snprintf(reason, sizeof(reason), "what is in it is not known: %s", why);
        tb_lines_fact(&f->lines, "failed", f->host, folder, destination, reason, NULL);
    }
    if (!is_known(f->unread, folder))
        note_unread(&f->unread, folder, destination);
}

static void meet_unread(void *arg, const char *path, const char *why)
{
    fail_folder(arg, path, why);
}

/* A stage-in brought it, or is about to. */
static bool is_staged_in(struct tb_finds *f, const char *path, const struct stat *st)
{
    return tb_ledger_brought(f->ledger, path, st) || tb_ledger_waits(f->ledger, path);
}

/* A stage-in writes to the log before it makes the file. So its line is in the log by now, also if it came after the last read of the log. */
static bool is_staged_in_since(struct tb_finds *f, const char *path, const struct stat *st)
{
    tb_ledger_refresh(f->ledger);
    return is_staged_in(f, path, st);
}

/*
 * Is it one that has to be moved, no matter which process has it open? Asked of the log and of the file each time. So a file is never
 * moved twice for two events of one close, and a mover that is started again does not move what the last one brought.
 */
static bool is_due(struct tb_finds *f, const char *path, const char *destination, const struct stat *st)
{
    if (!S_ISREG(st->st_mode) && !S_ISLNK(st->st_mode))
        return false;
    struct tb_content c = tb_content_of(st);
    if (!f->pair && ((c.ctime < f->since && c.mtime < f->since) || is_staged_in(f, path, st)))
        return false;
    if (f->pair && tb_carry_is_removed(f->carries, destination))
        return false;
    bool is_first_look = !f->looked_ns;
    if (!tb_ledger_has_moved(f->ledger, f->host, path, destination, st) || (f->pair && is_first_look && access(destination, F_OK)))
        /* a pair's destination may be another job's folder of the same name; what is missing later was removed */
        return f->pair || !is_staged_in_since(f, path, st);
    if (st->st_nlink > 1)
        tb_links_note(&f->carries->links, st, destination);
    return false;
}

static void tell_queued(struct tb_finds *f, const char *path, const char *destination, const struct stat *st)
{
    char size[24];
    snprintf(size, sizeof(size), "%jd", (intmax_t)st->st_size);
    if (tb_ledger_waits(f->ledger, destination))
        return; /* a mover before this one did not get to it */
    tb_lines_spectral(&f->lines, "ENQUEUE", destination);
    tb_lines_fact(&f->lines, "queued", f->host, path, destination, size, NULL);
}

/* Before a file in them can be told as moved. */
static void sync_made(struct tb_finds *f)
{
    char reason[120];
    tb_folders_sync(&f->made);
    for (const struct tb_folder *one = f->made.first; one; one = one->next) {
        snprintf(reason, sizeof(reason), "fsync the folder: %s", strerror(-one->synced));
        if (one->synced)
            tb_lines_fact(&f->lines, "failed", f->host, f->pairs->source, one->path, reason, NULL);
    }
    tb_folders_close(&f->made);
}

/*
 * The log before the streams: so a file's lines are in their order. What the log does not take is held back, and goes to it the next
 * time.
 */
void tb_finds_release(struct tb_finds *f)
{
    sync_made(f);
    if (tb_ledger_append(f->ledger, &f->lines) == 0)
        tb_items_release(f->items);
}

/*
 * For each file that an event or a walk names. A file of a pair is moved although a program writes it, since a list is
 * moved once; in a watched folder its last close comes as an event.
 */
void tb_finds_meet(void *arg, const char *path, const struct stat *st)
{
    struct tb_finds *f = arg;
    char destination[PATH_MAX];
    if (*f->stop)
        return;
    if (!destination_of(f, path, destination))
        return fail_folder(f, path, "the path of a file in it is too long");
    if (!is_due(f, path, destination, st))
        return;
    if (!f->pair && S_ISREG(st->st_mode) && tb_file_has_writer(path)) {
        if (!f->n_open++)
            snprintf(f->open, sizeof(f->open), "%s", path);
        return; /* its last close is told later */
    }
    if (tb_items_add(f->items, path, destination, st) > 0)
        tell_queued(f, path, destination, st);
    if (f->lines.n > LINES_AT_ONCE)
        tb_finds_release(f);
}

/* A pair's folder comes as well, also an empty one. What fails here is told at the end: until then it may have been made for a file. */
static void meet_folder(void *arg, const char *path, const struct stat *st)
{
    struct tb_finds *f = arg;
    char destination[PATH_MAX];
    (void)st;
    if (f->pair && !*f->stop && destination_of(f, path, destination))
        tb_carry_make_folder(f->carries, &f->made, path, destination);
    if (f->made.n > MOST_MADE)
        sync_made(f);
}

/* A source that is not there is told, too, as a directive may name what the program did not make; one that was moved may go. */
static void walk_pair(struct tb_finds *f, const struct tb_walk *walk)
{
    int rc = tb_walk(walk, f->pair->source);
    if (rc && walk->unread && !tb_ledger_owns(f->ledger, f->host, f->pair->source, f->pair->destination))
        walk->unread(f, f->pair->source, strerror(-rc));
}

static void walk_all(struct tb_finds *f, struct tb_walk walk)
{
    walk.arg = f;
    for (size_t i = 0; i < f->n_pairs; i++) {
        f->pair = &f->pairs[i];
        walk_pair(f, &walk);
    }
    f->pair = NULL;
    int rc = f->from ? tb_walk(&walk, f->from) : 0;
    if (rc && walk.unread)
        walk.unread(f, f->from, strerror(-rc));
}

/* A folder that could be read this time, or is not there any more: what was told of it does not hold. */
static void forgive(struct tb_finds *f)
{
    for (const struct tb_unread *u = f->unread_before; u; u = u->next)
        if (!is_known(f->unread, u->path))
            tb_lines_fact(&f->lines, "gone", f->host, u->path, u->destination, NULL);
    forget_unread(&f->unread_before);
    f->unread_before = f->unread;
    f->unread = NULL;
}

/* A stop in the middle leaves folders unread that nothing is known of. */
void tb_finds_look(struct tb_finds *f)
{
    f->n_open = 0;
    walk_all(f, (struct tb_walk){tb_finds_meet, f->looked_ns ? NULL : meet_folder, meet_unread, NULL});
    if (!*f->stop)
        forgive(f);
    tb_finds_release(f);
    f->looked_ns = tb_now_ns();
}

bool tb_finds_is_own(const struct tb_finds *f, const struct tb_entry *e)
{
    bool own = f->from && tb_path_is_under(e->source, f->from);
    for (size_t i = 0; i < f->n_pairs && !own; i++)
        own = tb_path_is_under(e->source, f->pairs[i].source);
    return own && strcmp(e->host, f->host) == 0;
}

/*
 * What an earlier mover had in hand and is not there any more. Nothing says whether a user removed it or a node lost it: so it is a
 * failure, once. One that was told as a failure before is gone.
 */
static void settle_vanished(struct tb_finds *f, const struct tb_entry *e)
{
    if (e->state == TB_ENTRY_QUEUED)
        tb_lines_fact(&f->lines, "failed", e->host, e->source, e->destination, "it was removed before it was moved", NULL);
    else
        tb_lines_fact(&f->lines, "gone", e->host, e->source, e->destination, NULL);
}

static void settle_before(void *arg, const struct tb_entry *e)
{
    struct tb_finds *f = arg;
    struct stat st;
    if (!tb_finds_is_own(f, e))
        return;
    bool there = lstat(e->source, &st) == 0;
    if (there && S_ISDIR(st.st_mode) && e->state == TB_ENTRY_FAILED)
        note_unread(&f->unread_before, e->source, e->destination);
    else if (!there && (errno == ENOENT || errno == ENOTDIR))
        settle_vanished(f, e);
}

void tb_finds_begin(struct tb_finds *f)
{
    tb_ledger_each_left(f->ledger, settle_before, f);
}

void tb_finds_end(struct tb_finds *f)
{
    forget_unread(&f->unread);
    forget_unread(&f->unread_before);
    tb_lines_free(&f->lines);
}

static void tell_open(void *arg, const char *path, const struct stat *st)
{
    struct tb_finds *f = arg;
    char destination[PATH_MAX];
    if (destination_of(f, path, destination) && S_ISREG(st->st_mode) && is_due(f, path, destination, st) && tb_file_has_writer(path))
        tb_lines_fact(&f->lines, "failed", f->host, path, destination, "a process has it open for writing", NULL);
}

static void tell_missing_folder(void *arg, const char *path, const struct stat *st)
{
    struct tb_finds *f = arg;
    struct stat there;
    char destination[PATH_MAX];
    (void)st;
    if (!f->pair || !destination_of(f, path, destination))
        return;
    bool is_there = stat(destination, &there) == 0;
    if (is_there && S_ISDIR(there.st_mode))
        return;
    int rc = is_there ? -ENOTDIR : tb_carry_make_folder(f->carries, &f->made, path, destination);
    if (rc && rc != -EIDRM)
        tb_lines_fact(&f->lines, "failed", f->host, path, destination, strerror(-rc), NULL);
}

/* Files are only walked where the last look left some to their writers: most often there are none. */
void tb_finds_tell_rest(struct tb_finds *f)
{
    if (f->n_open || f->n_pairs)
        walk_all(f, (struct tb_walk){f->n_open ? tell_open : NULL, tell_missing_folder, NULL, NULL});
    tb_finds_release(f);
}

static void note_left(void *arg, const char *path, const struct stat *st)
{
    struct tb_finds *f = arg;
    char destination[PATH_MAX];
    if (!destination_of(f, path, destination) || !is_due(f, path, destination, st))
        return;
    f->n_left++;
    if (f->left)
        tb_left_add(f->left, path, destination, NULL);
}

static void note_unread_left(void *arg, const char *path, const char *why)
{
    struct tb_finds *f = arg;
    char destination[PATH_MAX];
    f->n_left++;
    if (f->left && destination_of(f, path, destination))
        tb_left_add(f->left, path, destination, why);
}

/*
 * Files that are open count: the PFS lacks them. A walk and not the table in memory: a file that failed to come into hand is
 * counted, too.
 */
unsigned long tb_finds_count_left(struct tb_finds *f, struct tb_left *left)
{
    f->left = left;
    f->n_left = 0;
    walk_all(f, (struct tb_walk){note_left, NULL, note_unread_left, NULL});
    return f->n_left;
}
