/*
 * Names of files as a tree of directories, shared by all files of a directory
 * (file/name_tree.h). Every change is made under names.lock. Renaming a directory changes
 * one node, however many files are below it.
 */
#include "file/name_tree.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

#include "file/claim.h"
#include "region/clients.h"

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

/* The node is complete before the hash chain leads to it. */
static void put_in_place(tb_engine *e, uint32_t i, uint32_t parent, const struct piece *p)
{
    struct tb_name *n = &e->region.names[i];
    uint32_t *head = bucket_of(e, parent, p);
    n->parent = parent;
    n->length = p->length;
    n->continues = p->continues;
    memcpy(n->text, p->text, p->length);
    n->next = *head;
    *head = i;
}

static void unhash(tb_engine *e, uint32_t i)
{
    uint32_t *link = bucket_of_node(e, &e->region.names[i]);
    while (*link != i)
        link = &e->region.names[*link].next;
    *link = e->region.names[i].next;
}

/* Give back a reference. A node without references is freed, and then perhaps its parent. */
static void drop(tb_engine *e, uint32_t i)
{
    while (i != TB_NONE && --e->region.names[i].refs == 0) {
        uint32_t parent = e->region.names[i].parent;
        unhash(e, i);
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

/* On failure the record has no name, and the caller gives it back. */
int tb_names_set(tb_engine *e, struct tb_file *f, const char *path)
{
    struct piece last;
    uint32_t above;
    tb_lock_take(&e->header->names.lock);
    int rc = intern_above(e, path, TB_FILE_NAME, &above, &last);
    tb_lock_drop(&e->header->names.lock);
    if (rc)
        return rc;
    f->directory = above;
    f->name_length = last.length;
    f->name_continues = last.continues;
    memcpy(f->name, last.text, last.length);
    return 0;
}

void tb_names_clear(tb_engine *e, struct tb_file *f)
{
    tb_lock_take(&e->header->names.lock);
    drop(e, f->directory);
    f->directory = TB_NONE;
    tb_lock_drop(&e->header->names.lock);
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
    tb_lock_drop(&e->header->names.lock);
    return (size_t)snprintf(out, size, "%s", text + at);
}

size_t tb_names_path(tb_engine *e, const struct tb_file *f, char *out, size_t size)
{
    tb_lock_take(&e->header->names.lock);
    return write_path(e, f, out, size);
}

bool tb_names_path_soon(tb_engine *e, const struct tb_file *f, char *out, size_t size)
{
    if (tb_lock_take_soon(&e->header->names.lock) < 0)
        return false;
    write_path(e, f, out, size);
    return true;
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
    tb_lock_take(&e->header->names.lock);
    uint32_t i = find_path(e, from);
    if (i != TB_NONE && !(rc = intern_above(e, to, TB_NAME_TEXT, &above, &last))) {
        uint32_t before = e->region.names[i].parent;
        unhash(e, i);
        put_in_place(e, i, above, &last);
        drop(e, before);
    }
    tb_lock_drop(&e->header->names.lock);
    return rc;
}

static bool claim_directory(tb_engine *e)
{
    uint32_t holder = 0;
    if (atomic_compare_exchange_strong(&e->header->names.renamer, &holder, e->slot + 1))
        return true;
    return tb_slot_is_dead(e, holder - 1) && atomic_compare_exchange_strong(&e->header->names.renamer, &holder, e->slot + 1);
}

/* One rename of a directory at a time. The claim of a killed client can be taken over. */
void tb_names_claim(tb_engine *e)
{
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
