#include "names.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

static uint32_t *bucket_of(const tb_engine *e, const char *text)
{
    return &e->region.name_buckets[XXH3_64bits(text, strlen(text)) % e->region.n_names];
}

static uint32_t find(const tb_engine *e, const char *text)
{
    uint32_t i = *bucket_of(e, text);
    while (i != TB_NONE && strcmp(e->region.names[i].text, text) != 0)
        i = e->region.names[i].next;
    return i;
}

static uint32_t intern(tb_engine *e, const char *text)
{
    uint32_t i = find(e, text);
    if (i == TB_NONE && (i = e->header->free_name) != TB_NONE) {
        struct tb_name *n = &e->region.names[i];
        uint32_t *head = bucket_of(e, text);
        e->header->free_name = n->next;
        n->refs = 0;
        snprintf(n->text, sizeof(n->text), "%s", text);
        n->next = *head;
        *head = i;
    }
    if (i != TB_NONE)
        e->region.names[i].refs++;
    return i;
}

static void unhash(tb_engine *e, uint32_t i)
{
    uint32_t *link = bucket_of(e, e->region.names[i].text);
    while (*link != i)
        link = &e->region.names[*link].next;
    *link = e->region.names[i].next;
}

static void drop(tb_engine *e, uint32_t i)
{
    if (--e->region.names[i].refs)
        return;
    unhash(e, i);
    e->region.names[i].next = e->header->free_name;
    e->header->free_name = i;
}

int tb_names_set(tb_engine *e, struct tb_file *f, const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t length = strlen(path), directory = slash ? (size_t)(slash - path) : 0;
    char text[TB_NAME_TEXT];
    if (length >= TB_NAME_TEXT || !slash)
        return -ENAMETOOLONG;
    bool fits = strlen(slash + 1) < TB_FILE_NAME;
    snprintf(text, sizeof(text), "%.*s", (int)(fits ? directory : length), path);
    tb_lock_take(&e->header->names_lock);
    f->directory = intern(e, text);
    tb_lock_drop(&e->header->names_lock);
    if (f->directory == TB_NONE)
        return -ENFILE;
    snprintf(f->name, sizeof(f->name), "%s", fits ? slash + 1 : "");
    return 0;
}

void tb_names_clear(tb_engine *e, struct tb_file *f)
{
    tb_lock_take(&e->header->names_lock);
    drop(e, f->directory);
    tb_lock_drop(&e->header->names_lock);
}

size_t tb_names_path(tb_engine *e, const struct tb_file *f, char *out, size_t size)
{
    const char *directory = e->region.names[f->directory].text;
    int n = f->name[0] ? snprintf(out, size, "%s/%s", directory, f->name) : snprintf(out, size, "%s", directory);
    return (size_t)n;
}

static bool claim_directory(tb_engine *e)
{
    uint32_t holder = 0;
    if (atomic_compare_exchange_strong(&e->header->renamer, &holder, e->slot + 1))
        return true;
    return tb_slot_is_dead(e, holder - 1) && atomic_compare_exchange_strong(&e->header->renamer, &holder, e->slot + 1);
}

void tb_names_claim(tb_engine *e)
{
    while (!claim_directory(e))
        nanosleep(&(struct timespec){0, TB_CLAIM_LOOK_NS}, NULL);
}

void tb_names_unclaim(tb_engine *e)
{
    e->header->n_renames++;
    e->header->renamer = 0;
}

bool tb_names_moved(tb_engine *e, uint32_t n_renames)
{
    uint32_t holder;
    while ((holder = e->header->renamer) && !tb_slot_is_dead(e, holder - 1))
        nanosleep(&(struct timespec){0, TB_CLAIM_LOOK_NS}, NULL);
    return e->header->n_renames != n_renames;
}

void tb_names_rename_directory(tb_engine *e, const char *from, const char *to)
{
    size_t length = strlen(from);
    char text[TB_NAME_TEXT];
    tb_lock_take(&e->header->names_lock);
    for (uint32_t i = 0; i < e->region.n_names; i++) {
        struct tb_name *n = &e->region.names[i];
        if (!n->refs || strncmp(n->text, from, length) != 0 || (n->text[length] != '/' && n->text[length]))
            continue;
        if (snprintf(text, sizeof(text), "%s%s", to, n->text + length) >= (int)sizeof(text))
            continue; /* its flush will miss the file by name and say so */
        unhash(e, i);
        snprintf(n->text, sizeof(n->text), "%s", text);
        uint32_t *head = bucket_of(e, n->text);
        n->next = *head;
        *head = i;
    }
    tb_lock_drop(&e->header->names_lock);
}
