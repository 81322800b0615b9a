/*
 * The files that FORGE leaves in its output directory, with its names: which ranks were I/O nodes (emulation.map), the times
 * and bandwidth of each read and write (emulation.time), what each I/O node did (emulation.rank-N.stats), and a list of
 * events (emulation.log; its lines are our own). Labels and units are FORGE's; KB and MB are KiB and MiB there.
 */
#include "tb_forge.h"

#include <errno.h>
#include <string.h>

#define RULE "---------------------------\n"

/* Beside its name first, so a run that is killed leaves no file that looks whole. */
void tb_output_begin(struct tb_output *o, const char *directory, const char *name)
{
    snprintf(o->name, sizeof(o->name), "%.4000s/%.150s", directory, name);
    snprintf(o->part, sizeof(o->part), "%s.part", o->name);
    o->file = fopen(o->part, "we");
    if (!o->file)
        tb_fail(o->part, "open", -1, strerror(errno));
}

/* The file comes to its name when it is whole: a reader never sees a part, and a failed run leaves an older one. */
void tb_output_end(struct tb_output *o)
{
    bool bad = ferror(o->file) != 0;
    if (fclose(o->file) || bad) {
        int error = errno;
        remove(o->part);
        tb_fail(o->name, "write", -1, strerror(error));
    }
    if (rename(o->part, o->name))
        tb_fail(o->name, "rename", -1, strerror(errno));
}

/* FORGE's words: an I/O node is a server there. */
static void write_map(const struct tb_report *r)
{
    struct tb_output o;
    tb_output_begin(&o, r->options->directory, "emulation.map");
    for (int i = 0; i < r->world.tasks; i++)
        fprintf(o.file, "rank %d: %s\n", i, i < r->scenario->forwarders ? "server" : "client");
    tb_output_end(&o);
}

/* Five digits, as FORGE prints; Q2 is the median. KB and MB are cut to whole numbers, bytes below them are not told here. */
static void write_times(void *with, int64_t job, const struct tb_access *p, const struct tb_outcome *o)
{
    FILE *out = with;
    (void)job;
    fprintf(out, "\n" RULE " operation: %s\n layout: %s\n spatiality: %s\n", tb_operation_name(p->operation),
            p->shared ? "shared" : "individual", p->strided ? "strided" : "contiguous");
    fprintf(out, " odirect: %d\n stonewall: %lld\n request: %lld KB\n total: %lld MB\n" RULE, p->direct, (long long)p->stonewall,
            (long long)(p->request / 1024), (long long)(p->total / (1024 * 1024)));
    fprintf(out, " min: %.5lf s\n Q1: %.5lf s\n Q2: %.5lf s\n Q3: %.5lf s\n max: %.5lf s\n mean: %.5lf s\n" RULE, o->min, o->q1, o->median,
            o->q3, o->max, o->mean);
    fprintf(out, " data: %.5lf MB\n bandwidth: %.5lf MB/s\n" RULE, (double)o->bytes / TB_MIB, tb_bandwidth(o));
}

/* The header first, then a block for each access pattern. */
static void write_time(const struct tb_report *r)
{
    struct tb_output o;
    tb_output_begin(&o, r->options->directory, "emulation.time");
    fprintf(o.file, RULE " I/O Forwarding Simulation\n" RULE " | %s |\n" RULE " forwarders: %lld\n clients: %lld\n" RULE, r->started,
            (long long)r->scenario->forwarders, (long long)(r->world.tasks - r->scenario->forwarders));
    tb_report_each(r, write_times, o.file);
    tb_output_end(&o);
}

/* FORGE has this file only where it was built with statistics; its keys are all there and no others. */
static void write_stats(const struct tb_report *r, int64_t rank)
{
    const struct tb_node_counts *n = &r->nodes[rank];
    char name[64];
    struct tb_output o;
    snprintf(name, sizeof(name), "emulation.rank-%lld.stats", (long long)rank);
    tb_output_begin(&o, r->options->directory, name);
    fprintf(o.file, "forwarder: %lld\nopen: %lld\nread: %lld\nwrite: %lld\nclose: %lld\nread_size: %lld\nwrite_size: %lld\n",
            (long long)rank, (long long)n->open, (long long)n->read, (long long)n->write, (long long)n->close, (long long)n->read_bytes,
            (long long)n->write_bytes);
    tb_output_end(&o);
}

/* An end is computed from the longest rank, as the report does it. */
static void log_transfer(void *with, int64_t job, const struct tb_access *p, const struct tb_outcome *o)
{
    const char *what = tb_operation_name(p->operation);
    fprintf(with, "%.6f s job %lld: %s of %s begins\n", o->began, (long long)job, what, p->path);
    fprintf(with, "%.6f s job %lld: %s of %s ends: %lld requests, %lld bytes%s\n", o->began + o->max, (long long)job, what, p->path,
            (long long)o->requests, (long long)o->bytes, o->stonewall_hit < 0 ? "" : ", at the stonewall");
}

/* Seconds since the start; maps that clients followed come first. */
static void write_log(const struct tb_report *r)
{
    struct tb_output o;
    tb_output_begin(&o, r->options->directory, "emulation.log");
    fprintf(o.file, "%s start: %lld forwarders, %lld clients\n", r->started, (long long)r->scenario->forwarders,
            (long long)(r->world.tasks - r->scenario->forwarders));
    for (size_t i = 0; i < r->follow_count; i++)
        fprintf(o.file, "%.6f s job %lld: follows map %lld\n", r->follows[i].at, (long long)r->follows[i].job,
                (long long)r->follows[i].epoch);
    tb_report_each(r, log_transfer, o.file);
    tb_output_end(&o);
}

/* By rank 0 alone, after the run; the times are already taken. */
void tb_write_forge_files(const struct tb_report *r)
{
    write_log(r);
    write_map(r);
    write_time(r);
    for (int64_t i = 0; i < r->scenario->forwarders; i++)
        write_stats(r, i);
}
