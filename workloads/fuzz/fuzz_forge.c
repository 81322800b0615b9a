/*
 * Scenario files and maps of tb-forge. The first byte says how many ranks there are, the rest is the file, read as both.
 * A scenario that is accepted must cut its total size into requests that are one beside the other within it.
 */
#include "fuzz_line.h"

#include "tb_forge.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_WALKED = 4096 }; /* requests of a pattern: more take too long */

/* Of one client; their bytes. */
static int64_t check_requests(const struct tb_access *p, int clients, int client)
{
    int64_t bytes = 0, count = tb_requests_at(p, clients, client);
    for (int64_t i = 0; i < count; i++) {
        struct tb_extent e = tb_extent_of(p, clients, client, i);
        fuzz_check(e.size > 0 && (int64_t)e.size <= p->request);
        fuzz_check(e.offset >= 0 && e.offset <= p->total - (int64_t)e.size);
        bytes += (int64_t)e.size;
    }
    return bytes;
}

static void check_pattern(const struct tb_access *p, int clients)
{
    fuzz_check(p->path && *p->path);
    if (p->operation < TB_WRITE)
        return;
    fuzz_check(p->request > 0 && p->total > 0);
    int64_t bytes = 0, requests = tb_requests_of(p);
    for (int client = 0; client < clients && requests <= MOST_WALKED; client++)
        bytes += check_requests(p, clients, client);
    fuzz_check(requests > MOST_WALKED || bytes == p->total);
}

/* Threads and the largest request are what buffers are made of before any request comes. */
static void check_scenario(const struct tb_scenario *s)
{
    fuzz_check(s->dispatchers > 0 && s->largest > 0);
    for (size_t j = 0; j < s->count; j++)
        for (size_t i = 0; i < s->jobs[j].count; i++)
            for (size_t k = 0; k < s->jobs[j].phases[i].count; k++)
                check_pattern(&s->jobs[j].phases[i].patterns[k], (int)s->jobs[j].clients);
}

static void read_scenario(const char *text, size_t length, int tasks)
{
    struct tb_scenario s;
    struct tb_complaint c;
    memset(&c, 'x', sizeof(c));
    if (tb_scenario_parse(&s, text, length, "input", &c) && tb_scenario_fits(&s, tasks, "input", &c))
        check_scenario(&s);
    else
        fuzz_check_complaint(&c);
    tb_scenario_free(&s);
}

/* A map that is accepted has an I/O node, or none, for every client; the search for it relies on that. */
static void read_map(const char *text, size_t length, int clients)
{
    struct tb_map m;
    struct tb_complaint c;
    const int nodes = 4;
    memset(&c, 'x', sizeof(c));
    bool good = tb_map_parse(&m, text, length, "input", clients, nodes, &c);
    if (!good)
        fuzz_check_complaint(&c);
    for (int client = 0; good && client < clients; client++) {
        int node = tb_map_node_of(&m, client);
        fuzz_check(node >= TB_NO_NODE && node < nodes);
    }
    tb_map_free(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int tasks = size ? 1 + data[0] % 64 : 1;
    const char *text = (const char *)data + (size > 0);
    size_t length = size - (size > 0);
    read_scenario(text, length, tasks);
    read_map(text, length, tasks);
    return 0;
}
