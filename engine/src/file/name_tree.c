/*
 * Names of files as a tree of directories, shared by all files of a directory
 * (file/name_tree.h). Every change is made under names.lock. Renaming a directory changes
 * one node, however many files are below it.
 */
#include "file/name_tree.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

#include "base/kill_point.h"
#include "file/claim.h"
#include "region/clients.h"

#define CLAIM_YIELDS 50

/* The part of a path that one node holds. */
struct piece {
    const char *text;
    uint8_t length;
    bool continues; /* it continues the part that begins in the node above */
};

/* The next piece of a path, at most `longest` bytes of it; false at its end. */
static bool next_piece(const char **path, size_t longest, bool inside, struct piece *out)
{
    const char *p = *path;
    out->continues = inside && *p != '/';
    while (!out->continues && *p == '/')
        p++;
    size_t length = strcspn(p, "/");
    out->text = p;
    out->length = (uint8_t)(length < longest ? length : longest);
    *path = p + out->length;
    return length > 0;
}

static uint32_t *bucket_of(const tb_engine *e, uint32_t parent, const struct piece *p)
{
    uint64_t h = XXH3_64bits_withSeed(p->text, p->length, (uint64_t)parent << 1 | p->continues);
    return &e->region.name_buckets[h % e->region.n_names];
}

static uint32_t *bucket_of_node(const tb_engine *e, const struct tb_name *n)
{
    return bucket_of(e, n->parent, &(struct piece){n->text, n->length, n->continues});
}

static bool is_node(const struct tb_name *n, uint32_t parent, const struct piece *p)
{
    return n->parent == parent && n->length == p->length && n->continues == p->continues && memcmp(n->text, p->text, p->length) == 0;
}

static uint32_t find(const tb_engine *e, uint32_t parent, const struct piece *p)
{
    uint32_t i = *bucket_of(e, parent, p);
    while (i != TB_NONE && !is_node(&e->region.names[i], parent, p))
        i = e->region.names[i].next;
    return i;
}

/*
 * The node is complete before the hash chain leads to it. A new one that is not in the chain
 * when its maker is killed is lost until the instance ends; one that moves has `moved`.
 */
static void put_in_place(tb_engine *e, uint32_t i, uint32_t parent, const struct piece *p)
{
    struct tb_name *n = &e->region.names[i];
    uint32_t *head = bucket_of(e, parent, p);
    n->parent = parent;
    n->length = p->length;
    n->continues = p->continues;
    memcpy(n->text, p->text, p->length);
    n->next = *head;
    TB_STEP("name complete");
    *head = i;
}

/* False: the chain of that bucket does not have it. */
static bool take_out(tb_engine *e, uint32_t *link, uint32_t i)
{
    while (*link != i && *link != TB_NONE)
        link = &e->region.names[*link].next;
    bool found = *link == i;
    if (found)
        *link = e->region.names[i].next;
    return found;
}

static void unhash(tb_engine *e, uint32_t i)
{
    bool found = take_out(e, bucket_of_node(e, &e->region.names[i]), i);
    assert(found); /* a node with references is in the hash */
    (void)found;
}

/*
 * Give back a reference. A node without references is freed, and then perhaps its parent.
 * If killed here, the node or the reference on its parent is lost until the instance ends.
 */
static void drop(tb_engine *e, uint32_t i)
{
    while (i != TB_NONE) {
        assert(i < e->region.n_names && e->region.names[i].refs > 0);
        if (--e->region.names[i].refs)
            break;
        TB_STEP("name unused");
        uint32_t parent = e->region.names[i].parent;
        unhash(e, i);
        TB_STEP("name freed");
        e->region.names[i].next = e->header->names.free;
        e->header->names.free = i;
        i = parent;
    }
}

/*
 * The child, made if there is none. The caller's reference on the parent is given back,
 * and it gets one on the child.
 */
static uint32_t descend(tb_engine *e, uint32_t parent, const struct piece *p)
{
    uint32_t i = find(e, parent, p);
    if (i != TB_NONE) {
        e->region.names[i].refs++;
        drop(e, parent);
    } else if ((i = e->header->names.free) != TB_NONE) {
        e->header->names.free = e->region.names[i].next;
        e->region.names[i].refs = 1; /* the caller's reference on the parent is now the child's */
        put_in_place(e, i, parent, p);
    } else {
        drop(e, parent);
    }
    return i;
}

/*
 * What a client keeps: a reference on the directory of the last new name, so that the next
 * one in it needs no way down the tree, and the directory outlives its last file. Its slot
 * says which node it is, so that a repair gives it back.
 */
static _Atomic uint32_t *kept_by(const tb_engine *e)
{
    return e->slot == TB_NONE ? NULL : &e->region.clients[e->slot].directory;
}

static bool is_kept(const tb_engine *e, const char *path, size_t length)
{
    const struct tb_kept_directory *k = &e->kept_directory;
    const _Atomic uint32_t *kept = kept_by(e);
    return kept && *kept && k->n_moves == e->header->names.n_moves && k->length == length && memcmp(k->path, path, length) == 0;
}

/* If killed before the slot knows it, the node is lost until the instance ends; before the old one is dropped, that one. */
static void keep(tb_engine *e, const char *path, size_t length, uint32_t directory)
{
    _Atomic uint32_t *kept = kept_by(e);
    if (!kept || length > sizeof(e->kept_directory.path))
        return;
    uint32_t before = *kept;
    e->region.names[directory].refs++;
    TB_STEP("directory kept");
    *kept = directory + 1;
    if (before)
        drop(e, before - 1);
    e->kept_directory.n_moves = e->header->names.n_moves;
    e->kept_directory.length = length;
    memcpy(e->kept_directory.path, path, length);
}

/* Locked by names.lock. False: the client keeps none. */
static bool give_up(tb_engine *e, uint32_t slot)
{
    uint32_t kept = atomic_exchange(&e->region.clients[slot].directory, 0);
    if (kept)
        drop(e, kept - 1);
    return kept;
}

/*
 * The node above the last piece of the path, with a reference, and that piece. The piece
 * is at most `longest` bytes.
 * -ENFILE: no node is free. -ENAMETOOLONG.
 */
static int intern_above(tb_engine *e, const char *path, size_t longest, uint32_t *above, struct piece *last)
{
    bool inside = false;
    *above = TB_NONE;
    if (path[0] != '/' || strlen(path) >= TB_PATH_MAX)
        return -ENAMETOOLONG;
    while (path[strspn(path, "/")]) {
        const char *rest = path;
        bool any = next_piece(&rest, TB_NAME_TEXT, inside, last);
        assert(any);
        if (*rest == 0 && last->length <= longest)
            return 0;
        if (*rest == 0) /* it fits a node, but not the record, which holds the last piece */
            last->length = (uint8_t)longest, rest = last->text + longest;
        if ((*above = descend(e, *above, last)) == TB_NONE)
            return -ENFILE;
        inside = *rest && *rest != '/';
        path = rest;
    }
    drop(e, *above);
    return -EINVAL; /* no name, or a slash after it */
}

/*
 * Locked by names.lock. `moved` is complete before `moving` leads to it, and from then on
 * the next holder of the lock finishes the move. A node that was in no chain, or had
 * half a name, would take the names of all files below it along.
 */
static void move_node(tb_engine *e, uint32_t i, uint32_t parent, const struct piece *p)
{
    struct tb_names *names = &e->header->names;
    names->moved = (struct tb_name){.parent = parent, .length = p->length, .continues = p->continues};
    memcpy(names->moved.text, p->text, p->length);
    TB_STEP("name moves");
    names->moving = i;
    TB_STEP("name moving");
    unhash(e, i);
    TB_STEP("name unhashed");
    put_in_place(e, i, parent, p);
    TB_STEP("name placed");
    names->n_moves++;
    names->moving = TB_NONE;
    TB_STEP("name moved");
}

/*
 * The holder was killed in move_node, at any place: the node may be in the chain of its old
 * name, of its new one, or in none. May be killed itself: the next holder starts again.
 */
static void finish_move(tb_engine *e)
{
    struct tb_names *names = &e->header->names;
    const struct tb_name *to = &names->moved;
    bool found = false;
    assert(names->moving < e->region.n_names && to->length > 0 && to->length <= TB_NAME_TEXT);
    for (uint32_t k = 0; k < e->region.n_names && !found; k++)
        found = take_out(e, &e->region.name_buckets[k], names->moving);
    put_in_place(e, names->moving, to->parent, &(struct piece){to->text, to->length, to->continues});
    names->n_moves++;
    atomic_signal_fence(memory_order_seq_cst); /* in the chain first: a repair may be killed, too */
    names->moving = TB_NONE;
}

/*
 * What a lock call said, as an error. `moving` says what a killed holder left, not the lock:
 * a process that only looks for waiting processes (instance/instance.c) may have had that lock since.
 */
static int taken(tb_engine *e, int rc)
{
    if (rc >= 0 && e->header->names.moving != TB_NONE)
        finish_move(e);
    return rc < 0 ? rc : 0;
}

static void lock_names(tb_engine *e)
{
    int rc = taken(e, tb_lock_take(&e->header->names.lock));
    assert(rc == 0); /* no signal handler of ours takes it */
    (void)rc;
}

static void unlock_names(tb_engine *e)
{
    assert(e->header->names.moving == TB_NONE);
    tb_lock_drop(&e->header->names.lock);
}

/* As intern_above, for a file: most are in the same directory as the file before. */
static int intern_file(tb_engine *e, const char *path, uint32_t *above, struct piece *last)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t length = (size_t)(name - path), n = strlen(name);
    bool fits = n > 0 && n <= TB_FILE_NAME && length + n < TB_PATH_MAX;
    if (fits && is_kept(e, path, length)) {
        *above = *kept_by(e) - 1;
        e->region.names[*above].refs++;
        *last = (struct piece){name, (uint8_t)n, false};
        return 0;
    }
    int rc = intern_above(e, path, TB_FILE_NAME, above, last);
    if (rc == -ENFILE && e->slot != TB_NONE && give_up(e, e->slot))
        rc = intern_above(e, path, TB_FILE_NAME, above, last);
    else if (!rc && fits && *above != TB_NONE)
        keep(e, path, length, *above);
    return rc;
}

/* On failure the record has no name, and the caller gives it back. */
int tb_names_set(tb_engine *e, struct tb_file *f, const char *path)
{
    struct piece last;
    uint32_t above;
    lock_names(e);
    int rc = intern_file(e, path, &above, &last);
    unlock_names(e);
    if (rc)
        return rc;
    f->directory = above;
    f->name_length = last.length;
    f->name_continues = last.continues;
    memcpy(f->name, last.text, last.length);
    return 0;
}

void tb_names_forget_client(tb_engine *e, uint32_t slot)
{
    lock_names(e);
    give_up(e, slot);
    unlock_names(e);
}

void tb_names_clear(tb_engine *e, struct tb_file *f)
{
    lock_names(e);
    drop(e, f->directory);
    f->directory = TB_NONE;
    unlock_names(e);
}

/* The new directory first: if killed between, the old one keeps a reference too many. */
void tb_names_take(tb_engine *e, struct tb_file *f, struct tb_file *from)
{
    uint32_t before = f->directory;
    assert(from != f && from->name_length > 0 && from->name_length <= TB_FILE_NAME);
    lock_names(e);
    f->directory = from->directory;
    f->name_length = from->name_length;
    f->name_continues = from->name_continues;
    memcpy(f->name, from->name, from->name_length);
    from->directory = TB_NONE;
    drop(e, before);
    unlock_names(e);
}

/* Write a piece in front of what is at `at`; returns where it starts. */
static size_t prepend(char *out, size_t at, const char *text, uint8_t length, bool continues)
{
    size_t n = length + !continues;
    assert(n <= at);
    memcpy(out + at - length, text, length);
    if (!continues)
        out[at - n] = '/';
    return at - n;
}

/* Called with names.lock held; drops it. The path is built from its end. */
static size_t write_path(tb_engine *e, const struct tb_file *f, char *out, size_t size)
{
    char text[TB_PATH_MAX + 1];
    size_t at = prepend(text, TB_PATH_MAX, f->name, f->name_length, f->name_continues);
    text[TB_PATH_MAX] = 0;
    for (uint32_t i = f->directory; i != TB_NONE; i = e->region.names[i].parent) {
        const struct tb_name *n = &e->region.names[i];
        at = prepend(text, at, n->text, n->length, n->continues);
    }
    unlock_names(e);
    return (size_t)snprintf(out, size, "%s", text + at);
}

size_t tb_names_path(tb_engine *e, const struct tb_file *f, char *out, size_t size)
{
    lock_names(e);
    return write_path(e, f, out, size);
}

bool tb_names_path_soon(tb_engine *e, const struct tb_file *f, char *out, size_t size)
{
    if (taken(e, tb_lock_take_soon(&e->header->names.lock)))
        return false;
    write_path(e, f, out, size);
    return true;
}

/* A node of the hash: found by its own key, complete, and its parent is in use. */
static bool node_is_valid(const tb_engine *e, uint32_t i)
{
    const struct tb_name *n = &e->region.names[i];
    bool top = n->parent == TB_NONE;
    return n->length > 0 && n->length <= TB_NAME_TEXT && (top ? !n->continues : n->parent < e->region.n_names) &&
           (top || e->region.names[n->parent].refs) && find(e, n->parent, &(struct piece){n->text, n->length, n->continues}) == i;
}

/*
 * At rest. References are at least what uses them, in sum: each node of the hash is one on
 * its parent, each file one on its directory. Killed clients leave some too many.
 */
bool tb_names_are_whole(const tb_engine *e)
{
    uint64_t refs = 0, users = 0, nodes = 0;
    for (uint32_t k = 0; k < e->region.n_names; k++)
        for (uint32_t i = e->region.name_buckets[k]; i != TB_NONE; i = e->region.names[i].next) {
            if (++nodes > e->region.n_names || !node_is_valid(e, i))
                return false;
            refs += e->region.names[i].refs;
            users += e->region.names[i].parent != TB_NONE;
        }
    for (uint32_t i = 0; i < e->region.n_file_buckets; i++) {
        const struct tb_file *f = &e->region.files[i];
        bool below = f->magic == TB_FILE_MAGIC && f->directory != TB_NONE;
        if (below && (f->directory >= e->region.n_names || !e->region.names[f->directory].refs))
            return false;
        users += below;
    }
    return e->header->names.moving == TB_NONE && refs >= users;
}

/* The node of a directory's whole name, TB_NONE where no file's name goes through it. */
static uint32_t find_path(const tb_engine *e, const char *path)
{
    uint32_t i = TB_NONE;
    struct piece p;
    for (bool inside = false; next_piece(&path, TB_NAME_TEXT, inside, &p); inside = *path && *path != '/')
        if ((i = find(e, i, &p)) == TB_NONE)
            break;
    return i;
}

/* Locked by names.lock. One node moves, so all files below have their new name at once. */
int tb_names_rename_directory(tb_engine *e, const char *from, const char *to)
{
    struct piece last;
    uint32_t above;
    int rc = 0;
    lock_names(e);
    uint32_t i = find_path(e, from);
    if (i != TB_NONE && !(rc = intern_above(e, to, TB_NAME_TEXT, &above, &last))) {
        uint32_t before = e->region.names[i].parent;
        move_node(e, i, above, &last);
        drop(e, before); /* if killed before, the old parent keeps a reference too many */
    }
    unlock_names(e);
    return rc;
}

static bool claim_directory(tb_engine *e)
{
    uint32_t holder = 0;
    if (atomic_compare_exchange_strong(&e->header->names.renamer, &holder, e->slot + 1))
        return true;
    return tb_slot_is_dead(e, holder - 1) && atomic_compare_exchange_strong(&e->header->names.renamer, &holder, e->slot + 1);
}

/*
 * One rename of a directory at a time. The claim of a killed client can be taken over. Most
 * renames take less time than a sleep, so the waiter gives way a few times first.
 */
void tb_names_claim(tb_engine *e)
{
    for (int yields = 0; e->header->names.renamer && yields < CLAIM_YIELDS; yields++)
        sched_yield();
    while (!claim_directory(e))
        nanosleep(&(struct timespec){0, TB_CLAIM_LOOK_NS}, NULL);
}

void tb_names_unclaim(tb_engine *e)
{
    e->header->names.n_renames++;
    e->header->names.renamer = 0;
}

/* Waits for a rename that is under way. True: a directory was renamed since, so the path may lead to the file now. */
bool tb_names_moved(tb_engine *e, uint32_t n_renames)
{
    uint32_t holder;
    while ((holder = e->header->names.renamer) && !tb_slot_is_dead(e, holder - 1))
        nanosleep(&(struct timespec){0, TB_CLAIM_LOOK_NS}, NULL);
    return e->header->names.n_renames != n_renames;
}
