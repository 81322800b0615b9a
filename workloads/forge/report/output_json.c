/*
 * forge-result.json: all that was measured, for programs. analysis/tierbench/base/schemas/forge-result.schema.json says what
 * each member means. It is written last: where it is, the run was good.
 */
#include "tb_forge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A JSON value cannot be made only where memory is short. */
static json_t *made(json_t *value)
{
    if (!value)
        tb_fail("forge-result.json", "write", -1, strerror(ENOMEM));
    return value;
}

/* A value that has a list belongs to it: freeing the whole document at the end frees each. */
static void add(json_t *list, json_t *value)
{
    if (json_array_append_new(list, made(value)))
        tb_fail("forge-result.json", "write", -1, strerror(ENOMEM));
}

/* A path in another encoding than UTF-8 keeps what JSON can hold. */
static json_t *text(const char *bytes)
{
    json_t *value = json_string(bytes);
    return made(value ? value : json_string("(not UTF-8)"));
}

/* Clients are numbered over all jobs, so a job's first one says which they are. */
static json_t *jobs(const struct tb_report *r)
{
    json_t *list = made(json_array());
    int64_t first = 0;
    for (size_t j = 0; j < r->scenario->count; j++) {
        const struct tb_job *job = &r->scenario->jobs[j];
        add(list, json_pack("{s:o, s:I, s:I, s:i}", "name", text(job->name), "first_client", (json_int_t)first, "clients",
                            (json_int_t)job->clients, "nodes", r->job_nodes[j]));
        first += job->clients;
    }
    return list;
}

/* What the scenario asked for, beside what was done: asked_requests and requests differ at a stonewall. */
static void put_access(json_t *o, const struct tb_access *p)
{
    json_t *said = made(json_pack("{s:s, s:o, s:s, s:s, s:I, s:I, s:I, s:b, s:b, s:I}", "operation", tb_operation_name(p->operation),
                                  "path", text(p->path), "layout", p->shared ? "shared" : "individual", "spatiality",
                                  p->strided ? "strided" : "contiguous", "request_bytes", (json_int_t)p->request, "total_bytes",
                                  (json_int_t)p->total, "stonewall_s", (json_int_t)p->stonewall, "direct_io", p->direct, "validation",
                                  p->validate, "asked_requests", (json_int_t)tb_requests_of(p)));
    json_object_update(o, said);
    json_decref(said);
}

/* Over the clients of the job, each from its first request to its last answer. */
static json_t *seconds(const struct tb_outcome *o)
{
    return made(json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "min", o->min, "q1", o->q1, "median", o->median, "q3", o->q3, "max", o->max,
                          "mean", o->mean));
}

/* null where no client met the stonewall: 0 would be a time. */
static void put_pattern(void *with, int64_t job, const struct tb_access *p, const struct tb_outcome *o)
{
    json_t *hit = made(o->stonewall_hit < 0 ? json_null() : json_real(o->stonewall_hit));
    json_t *one = made(json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:f, s:o, s:f, s:I, s:I}", "job", (json_int_t)job, "phase",
                                 (json_int_t)o->phase, "repetition", (json_int_t)o->repetition, "pattern", (json_int_t)o->pattern,
                                 "requests", (json_int_t)o->requests, "bytes", (json_int_t)o->bytes, "stonewall_hit_s", hit, "began_s",
                                 o->began, "seconds", seconds(o), "bandwidth_mib_s", tb_bandwidth(o), "messages", (json_int_t)o->messages,
                                 "validated_bytes", (json_int_t)o->validated));
    put_access(one, p);
    add(with, one);
}

static json_t *patterns(const struct tb_report *r)
{
    json_t *list = made(json_array());
    tb_report_each(r, put_pattern, list);
    return list;
}

/* Calls are fewer than requests where requests were joined (--aggregate). */
static json_t *forwarding(const struct tb_report *r)
{
    json_t *list = made(json_array());
    for (int64_t i = 0; i < r->scenario->forwarders; i++) {
        const struct tb_node_counts *n = &r->nodes[i];
        add(list, json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "io_node", (json_int_t)i, "open", (json_int_t)n->open,
                            "read", (json_int_t)n->read, "write", (json_int_t)n->write, "close", (json_int_t)n->close, "read_bytes",
                            (json_int_t)n->read_bytes, "write_bytes", (json_int_t)n->write_bytes, "read_calls", (json_int_t)n->read_calls,
                            "write_calls", (json_int_t)n->write_calls, "in_place", (json_int_t)n->in_place));
    }
    return list;
}

/* null without --map. The changes are what a job's first client followed; the others follow at their own next look. */
static json_t *map(const struct tb_report *r)
{
    if (!r->options->map)
        return json_null();
    json_t *changes = made(json_array());
    for (size_t i = 0; i < r->follow_count; i++) {
        const struct tb_follow *f = &r->follows[i];
        json_t *nodes = made(json_array());
        for (int k = 0; k < f->count; k++)
            add(nodes, json_integer(f->nodes[k]));
        add(changes,
            json_pack("{s:I, s:I, s:f, s:o}", "job", (json_int_t)f->job, "epoch", (json_int_t)f->epoch, "at_s", f->at, "io_nodes", nodes));
    }
    return made(json_pack("{s:o, s:o}", "file", text(r->options->map), "changes", changes));
}

static json_t *result(const struct tb_report *r)
{
    static const char *const formats[] = {"phases", "flat", "jobs"};
    const struct tb_scenario *s = r->scenario;
    return made(json_pack("{s:i, s:s, s:s, s:s, s:o, s:s, s:i, s:I, s:I, s:I, s:I, s:i, s:i, s:o, s:o, s:o, s:o}", "version", 1, "program",
                          TB_PROGRAM, "program_version", TB_VERSION, "started", r->started, "scenario", text(r->options->scenario),
                          "format", formats[s->format], "ranks", r->world.tasks, "io_nodes", (json_int_t)s->forwarders, "clients",
                          (json_int_t)(r->world.tasks - s->forwarders), "handlers", (json_int_t)s->handlers, "dispatchers",
                          (json_int_t)s->dispatchers, "in_flight", r->options->in_flight, "aggregate", r->options->aggregate, "jobs",
                          jobs(r), "patterns", patterns(r), "forwarding", forwarding(r), "map", map(r)));
}

/* After all other files (tell in main.c). An encoding error or a full device ends the run before the file has its name. */
void tb_write_json(const struct tb_report *r)
{
    struct tb_output o;
    json_t *whole = result(r);
    tb_output_begin(&o, r->options->directory, "forge-result.json");
    if (json_dumpf(whole, o.file, JSON_INDENT(1)))
        tb_fail(o.name, "write", -1, strerror(EIO));
    tb_output_end(&o);
    json_decref(whole);
}
