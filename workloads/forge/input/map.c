/*
 * Which I/O node serves a client. Without a map file each I/O node has a block of neighbours, as in FORGE. A map file
 * gives ranges of clients their I/O nodes; its writer renames a new one over the old one, so a reader always sees a
 * whole map.
 */
#include "tb_forge.h"

#include <stdlib.h>

void tb_map_free(struct tb_map *m)
{
    for (size_t i = 0; i < m->count; i++)
        free(m->entries[i].nodes);
    free(m->entries);
    *m = (struct tb_map){0};
}

/* An entry with no I/O node: its clients do without. */
static bool make_nodes(struct tb_map_entry *entry, int count)
{
    entry->count = count;
    entry->nodes = malloc(((size_t)count + 1) * sizeof(*entry->nodes));
    return entry->nodes != NULL;
}

/* One entry of all clients and all I/O nodes: tb_map_node_of then gives each node its block. */
bool tb_map_default(struct tb_map *m, int clients, int nodes)
{
    *m = (struct tb_map){.entries = calloc(1, sizeof(*m->entries))};
    if (!m->entries || !make_nodes(m->entries, nodes))
        return false;
    m->count = 1;
    m->entries->last = clients - 1;
    for (int i = 0; i < nodes; i++)
        m->entries->nodes[i] = i;
    return true;
}

/* Both ends belong to the range. The last one is compared with the first, so that no range is empty. */
static bool read_range(struct tb_map_entry *entry, const struct tb_json *node, int clients, struct tb_complaint *c)
{
    struct tb_json range = tb_json_member(node, "clients");
    int64_t first, last;
    if (!tb_json_list(&range, 2, 2, "clients, the first and the last", c))
        return false;
    struct tb_json low = tb_json_element(&range, 0), high = tb_json_element(&range, 1);
    if (!tb_json_whole(&low, 0, clients - 1, &first, c) || !tb_json_whole(&high, first, clients - 1, &last, c))
        return false;
    entry->first = (int)first;
    entry->last = (int)last;
    return true;
}

/*
 * An I/O node may be named in several entries, and one that is in none serves no client. An empty list is allowed: these
 * clients do their own requests.
 */
static bool read_nodes(struct tb_map_entry *entry, const struct tb_json *node, int nodes, struct tb_complaint *c)
{
    struct tb_json list = tb_json_member(node, "io_nodes");
    if (!tb_json_list(&list, 0, (size_t)nodes, "I/O nodes", c))
        return false;
    if (!make_nodes(entry, (int)json_array_size(list.value)))
        return tb_complain(c, "no memory for the map");
    for (int i = 0; i < entry->count; i++) {
        struct tb_json one = tb_json_element(&list, (size_t)i);
        int64_t number;
        if (!tb_json_whole(&one, 0, nodes - 1, &number, c))
            return false;
        entry->nodes[i] = (int)number;
    }
    return true;
}

static bool read_entry(struct tb_map_entry *entry, const struct tb_json *node, int clients, int nodes, struct tb_complaint *c)
{
    static const char *const keys[] = {"clients", "io_nodes", NULL};
    return tb_json_object(node, keys, c) && read_range(entry, node, clients, c) && read_nodes(entry, node, nodes, c);
}

static int by_first(const void *a, const void *b)
{
    const struct tb_map_entry *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

/* In order, each entry begins where the one before it ended. A client in two entries, or in none, is refused. */
static bool covers_all(struct tb_map *m, const struct tb_json *list, int clients, struct tb_complaint *c)
{
    int next = 0;
    qsort(m->entries, m->count, sizeof(*m->entries), by_first);
    for (size_t i = 0; i < m->count; i++) {
        if (m->entries[i].first != next)
            return tb_json_refuse(list, "entries in which each client is once", c);
        next = m->entries[i].last + 1;
    }
    return next == clients || tb_json_refuse(list, "entries in which each client is once", c);
}

/* A map that refuses one client is refused whole: half a map would leave clients without a place. */
static bool read_map(struct tb_map *m, const struct tb_json *root, int clients, int nodes, struct tb_complaint *c)
{
    static const char *const keys[] = {"epoch", "map", NULL};
    struct tb_json epoch = tb_json_member(root, "epoch"), list = tb_json_member(root, "map");
    if (!tb_json_object(root, keys, c) || !tb_json_whole(&epoch, 0, INT64_MAX, &m->epoch, c) ||
        !tb_json_list(&list, 1, (size_t)clients, "entries", c))
        return false;
    size_t count = json_array_size(list.value);
    m->entries = calloc(count, sizeof(*m->entries));
    if (!m->entries)
        return tb_complain(c, "no memory for the map");
    while (m->count < count) {
        struct tb_json entry = tb_json_element(&list, m->count);
        if (!read_entry(&m->entries[m->count++], &entry, clients, nodes, c))
            return false;
    }
    return covers_all(m, &list, clients, c);
}

/* Numbers of the text are copied, so the document is freed at once; a map that is read while clients run does not grow. */
bool tb_map_parse(struct tb_map *m, const char *text, size_t length, const char *file, int clients, int nodes, struct tb_complaint *c)
{
    *m = (struct tb_map){0};
    json_t *document = tb_json_parse(text, length, file, c);
    if (!document)
        return false;
    struct tb_json root = {.value = document, .file = file};
    bool good = read_map(m, &root, clients, nodes, c);
    json_decref(document);
    if (!good)
        tb_map_free(m);
    return good;
}

/* By each client itself while it runs: no message between clients is needed, and each finds a new map at its own next look. */
bool tb_map_read(struct tb_map *m, const char *file, int clients, int nodes, struct tb_complaint *c)
{
    size_t length = 0;
    char *text = tb_text_of(file, TB_MOST_MAP_BYTES, &length, c);
    bool good = text && tb_map_parse(m, text, length, file, clients, nodes, c);
    free(text);
    return good;
}

/* The entries are sorted and have every client once, so the search always ends at one. */
const struct tb_map_entry *tb_map_entry_of(const struct tb_map *m, int client)
{
    size_t i = 0;
    while (m->entries[i].last < client)
        i++;
    return &m->entries[i];
}

/* The I/O nodes of an entry share its clients in blocks. */
int tb_map_node_of(const struct tb_map *m, int client)
{
    const struct tb_map_entry *e = tb_map_entry_of(m, client);
    int64_t clients = (int64_t)e->last - e->first + 1;
    if (!e->count)
        return TB_NO_NODE;
    return e->nodes[(client - e->first) * (int64_t)e->count / clients];
}
