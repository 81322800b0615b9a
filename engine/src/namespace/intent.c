/*
 * Notes of name changes that are under way, in the region. After a kill, repair looks at
 * the PFS for what was done and brings the records to the same state (namespace/intent.h).
 */
#include "namespace/intent.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/kill_point.h"
#include "file/file.h"
#include "file/name_tree.h"
#include "file/state.h"
#include "io/answer.h"
#include "io/identity.h"
#include "namespace/deferred.h"
#include "region/clients.h"

enum { NOTHING, RENAME, EXCHANGE, UNLINK };

/* A file record by number and identity: the number may be another file's by the time of the repair. */
static struct tb_intent_file name_file(const tb_engine *e, uint32_t file)
{
    const struct tb_file *f = file == TB_NONE ? NULL : &e->region.files[file];
    return f ? (struct tb_intent_file){file, f->inode, f->birth_ns} : (struct tb_intent_file){TB_NONE, 0, 0};
}

/* NULL: the record has become another file's, so there is nothing left to repair. */
static struct tb_file *file_of(const tb_engine *e, const struct tb_intent_file *file)
{
    struct tb_file *f = file->number == TB_NONE ? NULL : &e->region.files[file->number];
    return f && f->magic == TB_FILE_MAGIC && f->inode == file->inode && f->birth_ns == file->birth_ns ? f : NULL;
}

/* Of an entry that is held. `kind` NOTHING: its holder has not said yet what it will do, or is done. */
static bool intent_is_valid(const tb_engine *e, const struct tb_intent *t)
{
    return t->holder > 0 && t->holder <= e->region.n_clients && t->kind <= UNLINK;
}

/* Takes over entries of dead clients after finishing what they began. */
static struct tb_intent *take(tb_engine *e)
{
    assert(e->slot != TB_NONE); /* a process without a slot only looks, and changes no names */
    for (uint32_t i = 0;; i = (i + 1) % TB_INTENTS) {
        struct tb_intent *t = &e->header->intents[i];
        uint32_t holder = 0;
        if (atomic_compare_exchange_strong(&t->holder, &holder, e->slot + 1)) {
            assert(intent_is_valid(e, t) && t->kind == NOTHING);
            return t;
        }
        if (!tb_client_is_alive(&e->region.clients[holder - 1]))
            tb_intents_finish(e, holder - 1);
        if (i + 1 == TB_INTENTS)
            sched_yield();
    }
}

/* `kind` is stored last: if killed before, the entry means nothing. */
static struct tb_intent *begin(tb_engine *e, uint32_t kind, uint32_t file, uint32_t over, const char *from, const char *to)
{
    struct tb_intent *t = take(e);
    t->file = name_file(e, file);
    t->over = name_file(e, over);
    snprintf(t->from, sizeof(t->from), "%s", from);
    snprintf(t->to, sizeof(t->to), "%s", to);
    TB_STEP("intent");
    t->kind = kind;
    return t;
}

struct tb_intent *tb_intent_rename(tb_engine *e, uint32_t file, uint32_t over, const char *from, const char *to)
{
    return begin(e, RENAME, file, over, from, to);
}

struct tb_intent *tb_intent_exchange(tb_engine *e, const char *from, const char *to)
{
    return begin(e, EXCHANGE, TB_NONE, TB_NONE, from, to);
}

struct tb_intent *tb_intent_unlink(tb_engine *e, uint32_t file, const char *path)
{
    return begin(e, UNLINK, file, TB_NONE, path, "");
}

/* The kind first: if killed between the two, repair finds nothing to do and frees the entry. */
void tb_intent_end(struct tb_intent *t)
{
    assert(t->holder && t->kind != NOTHING && t->kind <= UNLINK);
    t->kind = NOTHING;
    TB_STEP("intent end");
    t->holder = 0;
}

/* Where a name of an intent is: it is a place already, in the shadow or on the PFS. */
static int identify(const tb_engine *e, const char *path, struct tb_identity *id)
{
    bool in_shadow = e->shadow_length && strncmp(path, e->shadow, e->shadow_length) == 0;
    return tb_identity_of_path(in_shadow ? e->shadow_io : e->pfs, path, id);
}

/* Does the path lead to the file of that record, now? 1 yes, 0 no, or the file system cannot say. */
static int names(const tb_engine *e, const char *path, const struct tb_file *f)
{
    struct tb_identity id;
    int rc = identify(e, path, &id);
    return rc ? (tb_io_failed(rc) ? rc : 0) : tb_identity_is(f, &id);
}

/* A record that has the name already is renamed to what it is called: nothing changes. */
static void gets_name(tb_engine *e, const struct tb_intent_file *file, const char *path)
{
    struct tb_file *f = file_of(e, file);
    if (!f || names(e, path, f) <= 0)
        return;
    tb_file_rename(e, file->number, path);
    if (tb_file_untie(f)) /* another process asked for it by its old name in between */
        f->error = 0;
}

/*
 * Only a name that is known to be gone is taken from a record: with it go the file's dirty
 * bytes. A record that keeps a wrong one is told by its next flush.
 */
static void lose_name(tb_engine *e, struct tb_file *f, const char *a, const char *b)
{
    if (names(e, a, f) == 0 && (!b || names(e, b, f) == 0))
        tb_file_lose_name(f);
}

/* The name of a record below one of two exchanged names, if the other one was meant. */
static bool exchanged(const char *path, const char *from, const char *to, char *out)
{
    size_t n = strlen(from);
    bool is_below = strncmp(path, from, n) == 0 && (!path[n] || path[n] == '/');
    return is_below && snprintf(out, TB_PATH_MAX, "%s%s", to, path + n) < TB_PATH_MAX;
}

/* The record keeps its name if the file system cannot say, or if the name is right. */
static void settle_one(tb_engine *e, uint32_t file, const char *from, const char *to)
{
    struct tb_file *f = &e->region.files[file];
    char path[TB_PATH_MAX], other[TB_PATH_MAX];
    int stripe = tb_file_lock(e, file);
    bool live = f->magic == TB_FILE_MAGIC && !(f->flags & TB_FILE_UNLINKED);
    if (live)
        tb_file_path(e, f, path, sizeof(path));
    struct tb_intent_file id = name_file(e, file);
    tb_file_unlock(e, stripe);
    if (live && (exchanged(path, from, to, other) || exchanged(path, to, from, other)) && names(e, path, f) == 0)
        gets_name(e, &id, other);
}

void tb_intent_settle_exchange(tb_engine *e, const char *from, const char *to)
{
    for (uint32_t i = 0; i < e->region.n_file_buckets; i++)
        if (e->region.files[i].magic == TB_FILE_MAGIC)
            settle_one(e, i, from, to);
}

/* By what the PFS shows now, so it may be run twice. */
static void finish_rename(tb_engine *e, const struct tb_intent *t)
{
    struct tb_identity id;
    struct tb_file *over = file_of(e, &t->over);
    gets_name(e, &t->file, t->to);
    gets_name(e, &t->over, t->from); /* exchanged */
    if (over)
        lose_name(e, over, t->to, t->from);
    if (t->file.number == TB_NONE && identify(e, t->from, &id) == -ENOENT && identify(e, t->to, &id) == 0)
        tb_names_rename_directory(e, t->from, t->to);
    if (t->file.number == TB_NONE)
        tb_waiting_settle(e, t->from, t->to); /* if that fails, files that wait there are told by their flush */
}

static void finish_exchange(tb_engine *e, const struct tb_intent *t)
{
    tb_intent_settle_exchange(e, t->from, t->to);
    tb_waiting_settle(e, t->from, t->to); /* as above */
}

/*
 * An entry is taken over before it is finished, so that it is finished once, and no other
 * client takes it in between. If killed here, the next repair finds it as this client's.
 */
void tb_intents_finish(tb_engine *e, uint32_t slot)
{
    for (uint32_t i = 0; i < TB_INTENTS; i++) {
        struct tb_intent *t = &e->header->intents[i];
        uint32_t holder = slot + 1;
        if (!atomic_compare_exchange_strong(&t->holder, &holder, e->slot + 1))
            continue;
        TB_MEETING("intent taken over");
        if (t->kind == RENAME)
            finish_rename(e, t);
        else if (t->kind == EXCHANGE)
            finish_exchange(e, t);
        else if (t->kind == UNLINK && file_of(e, &t->file))
            lose_name(e, file_of(e, &t->file), t->from, NULL);
        t->kind = NOTHING;
        t->holder = 0;
    }
}
