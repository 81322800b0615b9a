/*
 * A scenario file: how many I/O nodes with how many threads, and what clients do. Of FORGE it reads both formats, the
 * one with phases and the older flat one. Ours, with jobs, runs several applications at the same time on one pool of I/O
 * nodes.
 */
#include "tb_forge.h"

#include <stdlib.h>
#include <string.h>

/* Limits on what a scenario may ask for; a number above them is taken for a typing error. */
enum { MOST_PHASES = 1000, MOST_PATTERNS = 64, MOST_JOBS = 1000, MOST_RANKS = 1000000, MOST_THREADS = 128, MOST_TRANSFERS = 1000000 };

/* A phase or a job counts before it is read, so that tb_scenario_free finds what a refused one already has. */
static bool read_phase(struct tb_phase *phase, const struct tb_json *node, struct tb_complaint *c)
{
    static const char *const keys[] = {"repetitions", "patterns", NULL};
    struct tb_json repetitions = tb_json_member(node, "repetitions"), patterns = tb_json_member(node, "patterns");
    phase->repetitions = 1;
    if (!tb_json_object(node, keys, c) || !tb_json_list(&patterns, 1, MOST_PATTERNS, "patterns", c) ||
        (repetitions.value && !tb_json_whole(&repetitions, 1, MOST_RANKS, &phase->repetitions, c)))
        return false;
    phase->patterns = calloc(json_array_size(patterns.value), sizeof(*phase->patterns));
    if (!phase->patterns)
        return tb_complain(c, "no memory for the scenario");
    for (; phase->count < json_array_size(patterns.value); phase->count++) {
        struct tb_json pattern = tb_json_element(&patterns, phase->count);
        if (!tb_pattern_read(&phase->patterns[phase->count], &pattern, c)) {
            phase->count++; /* what it has is freed with the others */
            return false;
        }
    }
    return true;
}

/* What a pattern may do depends on those before it, also of other phases; so files are resolved when all phases are read. */
static bool read_phases(struct tb_job *job, const struct tb_json *node, struct tb_complaint *c)
{
    struct tb_json phases = tb_json_member(node, "phases");
    if (!tb_json_list(&phases, 1, MOST_PHASES, "phases", c))
        return false;
    size_t count = json_array_size(phases.value);
    job->phases = calloc(count, sizeof(*job->phases));
    if (!job->phases)
        return tb_complain(c, "no memory for the scenario");
    while (job->count < count) {
        struct tb_json phase = tb_json_element(&phases, job->count);
        if (!read_phase(&job->phases[job->count++], &phase, c))
            return false;
    }
    return tb_patterns_resolve(job, &phases, c);
}

/* The report calls the job by its name, so there has to be one. */
static bool read_job(struct tb_job *job, const struct tb_json *node, struct tb_complaint *c)
{
    static const char *const keys[] = {"name", "clients", "phases", NULL};
    struct tb_json name = tb_json_member(node, "name"), clients = tb_json_member(node, "clients");
    const char *text = NULL;
    if (!tb_json_object(node, keys, c) || !tb_json_text(&name, &text, c) || !tb_json_whole(&clients, 1, MOST_RANKS, &job->clients, c))
        return false;
    job->name = strdup(text);
    return job->name ? read_phases(job, node, c) : tb_complain(c, "no memory for the scenario");
}

/*
 * Each job names its clients. Together they must be all ranks that are no I/O nodes, which is known only at the run
 * (tb_scenario_fits).
 */
static bool read_jobs(struct tb_scenario *s, const struct tb_json *root, struct tb_complaint *c)
{
    static const char *const keys[] = {"forwarders", "handlers", "dispatchers", "jobs", NULL};
    struct tb_json jobs = tb_json_member(root, "jobs");
    if (!tb_json_object(root, keys, c) || !tb_json_list(&jobs, 1, MOST_JOBS, "jobs", c))
        return false;
    s->jobs = calloc(json_array_size(jobs.value), sizeof(*s->jobs));
    if (!s->jobs)
        return tb_complain(c, "no memory for the scenario");
    while (s->count < json_array_size(jobs.value)) {
        struct tb_json job = tb_json_element(&jobs, s->count);
        if (!read_job(&s->jobs[s->count++], &job, c))
            return false;
    }
    return true;
}

/* FORGE's: one job of all clients. */
static bool read_one_job(struct tb_scenario *s, const struct tb_json *root, struct tb_complaint *c)
{
    static const char *const keys[] = {"forwarders", "handlers", "dispatchers", "phases", NULL};
    static const char *const flat_keys[] = {"forwarders", "handlers",     "dispatchers", "path",       "number_of_files", "spatiality",
                                            "total_size", "request_size", "validation",  "operations", "direct_io",       "stone_wall",
                                            NULL};
    struct tb_job *job = s->jobs = calloc(1, sizeof(*s->jobs));
    if (!job || !(job->name = strdup("all")))
        return tb_complain(c, "no memory for the scenario");
    s->count = 1;
    if (s->format == TB_PHASES)
        return tb_json_object(root, keys, c) && read_phases(job, root, c);
    job->phases = calloc(1, sizeof(*job->phases));
    if (!job->phases)
        return tb_complain(c, "no memory for the scenario");
    job->count = 1;
    if (!tb_json_object(root, flat_keys, c) || !tb_flat_read(job->phases, root, c))
        return false;
    for (size_t i = 0; i < job->phases->count; i++)
        job->phases->patterns[0].direct |= job->phases->patterns[i].direct;
    return true;
}

/* Without I/O nodes their threads do not matter, and FORGE's files say 0 there. */
static bool read_nodes(struct tb_scenario *s, const struct tb_json *root, struct tb_complaint *c)
{
    struct tb_json forwarders = tb_json_member(root, "forwarders"), handlers = tb_json_member(root, "handlers");
    struct tb_json dispatchers = tb_json_member(root, "dispatchers");
    s->handlers = s->dispatchers = 1;
    if (!tb_json_whole(&forwarders, 0, MOST_RANKS, &s->forwarders, c) ||
        (handlers.value && !tb_json_whole(&handlers, 0, MOST_THREADS, &s->handlers, c)) ||
        (dispatchers.value && !tb_json_whole(&dispatchers, s->forwarders > 0, MOST_THREADS, &s->dispatchers, c)))
        return false;
    s->dispatchers += s->dispatchers == 0;
    return true;
}

/* The size of each buffer, at clients and I/O nodes alike. */
static void note_largest(struct tb_scenario *s)
{
    s->largest = 1;
    for (size_t j = 0; j < s->count; j++)
        for (size_t i = 0; i < s->jobs[j].count; i++)
            for (size_t k = 0; k < s->jobs[j].phases[i].count; k++)
                if (s->jobs[j].phases[i].patterns[k].request > s->largest)
                    s->largest = s->jobs[j].phases[i].patterns[k].request;
}

/*
 * The key tells the format: only ours has "jobs", only FORGE's newer one "phases". The number of transfers is checked at
 * the end, as repetitions multiply it; it is the number of rows that rank 0 keeps for a job.
 */
static bool read_root(struct tb_scenario *s, const struct tb_json *root, struct tb_complaint *c)
{
    if (!json_is_object(root->value))
        return tb_json_refuse(root, "an object with forwarders and phases", c);
    s->format = json_object_get(root->value, "jobs") ? TB_JOBS : json_object_get(root->value, "phases") ? TB_PHASES : TB_FLAT;
    if (!read_nodes(s, root, c))
        return false;
    if (!(s->format == TB_JOBS ? read_jobs(s, root, c) : read_one_job(s, root, c)))
        return false;
    note_largest(s);
    for (size_t j = 0; j < s->count; j++)
        if (tb_transfers_of(&s->jobs[j]) > MOST_TRANSFERS)
            return tb_json_refuse(root, "at most 1000000 reads and writes in a job, with repetitions", c);
    return true;
}

/* Text is copied, so the document is freed here. After a refusal the caller frees what was read so far (tb_scenario_free). */
bool tb_scenario_parse(struct tb_scenario *s, const char *text, size_t length, const char *file, struct tb_complaint *c)
{
    *s = (struct tb_scenario){0};
    json_t *document = tb_json_parse(text, length, file, c);
    if (!document)
        return false;
    struct tb_json root = {.value = document, .file = file};
    bool good = read_root(s, &root, c);
    json_decref(document);
    return good;
}

static bool does_not_fit(const char *file, const char *place, int64_t value, int64_t allowed, int tasks, struct tb_complaint *c)
{
    snprintf(c->text, sizeof(c->text), "%.2000s: %s: %lld; allowed: %lld, as there are %d ranks", file, place, (long long)value,
             (long long)allowed, tasks);
    return false;
}

/* FORGE wants as many ranks as a multiple of its I/O nodes; here any number will do, as the map's blocks may differ by one. */
bool tb_scenario_fits(struct tb_scenario *s, int tasks, const char *file, struct tb_complaint *c)
{
    int64_t clients = tasks - s->forwarders, asked = 0;
    if (clients < 1) {
        snprintf(c->text, sizeof(c->text), "%.2000s: forwarders: %lld; allowed: 0 to %d, as there are %d ranks and one is a client", file,
                 (long long)s->forwarders, tasks - 1, tasks);
        return false;
    }
    if (s->format != TB_JOBS)
        s->jobs->clients = clients;
    for (size_t j = 0; j < s->count; j++)
        asked += s->jobs[j].clients;
    return asked == clients || does_not_fit(file, "jobs: clients together", asked, clients, tasks, c);
}

/* The report has a row for each of them, so the room for the rows is known before the run. */
int64_t tb_transfers_of(const struct tb_job *job)
{
    int64_t count = 0;
    for (size_t i = 0; i < job->count; i++)
        for (size_t k = 0; k < job->phases[i].count; k++)
            if (job->phases[i].patterns[k].operation >= TB_WRITE)
                count += job->phases[i].repetitions;
    return count;
}

static void free_phase(struct tb_phase *phase)
{
    for (size_t k = 0; k < phase->count; k++)
        free(phase->patterns[k].path);
    free(phase->patterns);
}

void tb_scenario_free(struct tb_scenario *s)
{
    for (size_t j = 0; j < s->count; j++) {
        for (size_t i = 0; i < s->jobs[j].count; i++)
            free_phase(&s->jobs[j].phases[i]);
        free(s->jobs[j].phases);
        free(s->jobs[j].name);
    }
    free(s->jobs);
}
