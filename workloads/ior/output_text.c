// IOR's text: header, options, a row per operation and repetition, and the summary.
#include "tb_ior.h"

#include <string.h>

static void begin_header(struct tb_report *r)
{
	FILE *f = r->out;
	fprintf(f, "tb-ior-%s: MPI Coordinated Test of Parallel I/O\n", TB_IOR_VERSION);
	fprintf(f, "Began               : %s\n", r->began);
	fprintf(f, "Command line        : %s\n", r->command_line);
	fprintf(f, "Machine             : %s\n", r->machine);
	fprintf(f, "TestID              : 0\n");
	fprintf(f, "StartTime           : %s\n", r->began);
	fprintf(f, "Path                : %s\n", r->path);
	fprintf(f, "FS                  : %.1f GiB   Used FS: %.1f%%   Inodes: %.1f Mi   Used Inodes: %.1f%%\n",
		r->capacity_gib, r->used_percent, r->inodes_mi, r->used_inodes_percent);
	if (r->options->verbose)
		fprintf(f, "Participating tasks : %d\n", r->world->tasks);
}

static const char *inter_file_order(const struct tb_options *o)
{
	if (o->reorder_random)
		return "random task offset";
	return o->reorder ? "constant task offset" : "no tasks offsets";
}

static void size_line(FILE *f, const char *name, int64_t bytes)
{
	char text[64];
	tb_human_size(text, sizeof text, bytes);
	fprintf(f, "%-20s: %s\n", name, text);
}

static void begin_options(struct tb_report *r)
{
	const struct tb_options *o = r->options;
	FILE *f = r->out;
	fprintf(f, "\nOptions: \n");
	fprintf(f, "api                 : %s\n", o->backend->name);
	fprintf(f, "apiVersion          : %s\n", o->backend->version());
	fprintf(f, "test filename       : %s\n", o->file);
	fprintf(f, "access              : %s\n", o->file_per_process ? "file-per-process" : "single-shared-file");
	fprintf(f, "type                : %s\n", o->collective ? "collective" : "independent");
	fprintf(f, "segments            : %lld\n", (long long)o->segments);
	fprintf(f, "ordering in a file  : %s\n", o->random_offset ? "random" : "sequential");
	fprintf(f, "ordering inter file : %s\n", inter_file_order(o));
	if (o->reorder || o->reorder_random)
		fprintf(f, "task offset         : %d\n", o->task_offset);
	if (o->reorder_random)
		fprintf(f, "reorder random seed : %d\n", o->reorder_seed);
	fprintf(f, "nodes               : %d\n", r->world->nodes);
	fprintf(f, "tasks               : %d\n", r->world->tasks);
	fprintf(f, "clients per node    : %d\n", r->world->tasks_per_node);
	fprintf(f, "repetitions         : %d\n", o->repetitions);
	size_line(f, "xfersize", o->transfer);
	size_line(f, "blocksize", o->block);
	size_line(f, "aggregate filesize", tb_aggregate(o, r->world));
	if (o->verbose)
		fprintf(f, "verbose             : %d\n", o->verbose);
	if (o->deadline_s)
		fprintf(f, "stonewallingTime    : %d\nstoneWallingWearOut : %d\n", o->deadline_s, o->wear_out);
}

static void begin(struct tb_report *r)
{
	begin_header(r);
	begin_options(r);
	fprintf(r->out, "\nResults: \n\n"
		"access    bw(MiB/s)  IOPS       Latency(s)  block(KiB) xfer(KiB)  open(s)    wr/rd(s)   close(s)   "
		"total(s)   iter\n"
		"------    ---------  ----       ----------  ---------- ---------  --------   --------   --------   "
		"--------   ----\n");
	fflush(r->out);
}

static void phase(struct tb_report *r, bool write)
{
	char time[32];
	if (!r->options->verbose)
		return;
	tb_now(time);
	fprintf(r->out, "Commencing %s performance test: %s\n%s", write ? "write" : "read", time, write ? "" : "\n");
}

// Few enough digits for the column: six decimals below one, two below 3600, none above.
static void cell(FILE *f, double value, int width)
{
	char text[64];
	snprintf(text, sizeof text, "%.*f", value < 1 ? 6 : value < 3600 ? 2 : 0, value);
	fprintf(f, "%-*s ", width, text);
}

static void stonewall_line(struct tb_report *r, const struct tb_result *x)
{
	double unit = (double)r->options->transfer / (1024 * TB_MIB);
	if (r->options->wear_out)
		fprintf(r->out, "stonewalling pairs accessed min: %lld max: %lld -- min data: %.1f GiB mean data: %.1f GiB "
			"time: %.1fs\n", (long long)x->pairs_min, (long long)x->pairs_max, (double)x->pairs_min * unit,
			x->stonewall_mib * x->stonewall_s / 1024, x->stonewall_s);
}

static void result(struct tb_report *r, const struct tb_result *x)
{
	FILE *f = r->out;
	stonewall_line(r, x);
	fprintf(f, "%-10s", x->write ? "write" : "read");
	cell(f, x->bandwidth_mib, 10);
	cell(f, x->iops, 10);
	cell(f, x->latency_s, 11);
	cell(f, (double)r->options->block / 1024, 10);
	cell(f, (double)r->options->transfer / 1024, 10);
	cell(f, x->open_s, 10);
	cell(f, x->transfer_s, 10);
	cell(f, x->close_s, 10);
	cell(f, x->total_s, 10);
	fprintf(f, "%-4d\n", x->repetition);
	if (r->options->wear_out && x->write)
		fprintf(f, "Pairs deadlineForStonewallingaccessed: %lld\n", (long long)x->pairs_max);
}

static void removed(struct tb_report *r, double seconds, int repetition)
{
	if (!r->options->verbose)
		return;
	fprintf(r->out, "remove    -          -          -           -          -          -          -          -          ");
	cell(r->out, seconds, 10);
	fprintf(r->out, "%-4d\n", repetition);
}

static void print_max(struct tb_report *r, bool write)
{
	struct tb_statistics s = tb_summarize(r, write);
	if (s.count && r->options->verbose)
		fprintf(r->out, "Max %s %.2f MiB/sec (%.2f MB/sec)\n", write ? "Write:" : "Read: ", s.max,
			s.max * TB_MIB / 1e6);
}

static void print_row(struct tb_report *r, bool write)
{
	const struct tb_options *o = r->options;
	struct tb_statistics s = tb_summarize(r, write);
	FILE *f = r->out;
	if (!s.count)
		return;
	fprintf(f, "%-9s %10.2f %10.2f %10.2f %10.2f %10.2f %10.2f %10.2f %10.2f %10.5f", write ? "write" : "read",
		s.max, s.min, s.mean, s.deviation, s.ops_max, s.ops_min, s.ops_mean, s.ops_deviation, s.time_s);
	if (o->wear_out)
		fprintf(f, " %10.2f %13.2f", s.stonewall_s, s.stonewall_mib);
	else
		fprintf(f, " %10s %13s", "NA", "NA");
	fprintf(f, " %5d %6d %3d %4d %3d %5d %8d %9d %4d %6lld %8lld %8lld %9.1f %-5s %6d\n", 0, r->world->tasks,
		r->world->tasks_per_node, o->repetitions, o->file_per_process, o->reorder, o->task_offset, o->reorder_random,
		o->reorder_seed, (long long)o->segments, (long long)o->block, (long long)o->transfer, s.moved_mib,
		o->backend->name, 0);
}

static void end(struct tb_report *r)
{
	char time[32];
	print_max(r, true);
	print_max(r, false);
	fprintf(r->out, "\nSummary of all tests:\n"
		"Operation   Max(MiB)   Min(MiB)  Mean(MiB)     StdDev   Max(OPs)   Min(OPs)  Mean(OPs)     StdDev"
		"    Mean(s) Stonewall(s) Stonewall(MiB) Test# #Tasks tPN reps fPP reord reordoff reordrand seed segcnt"
		"   blksiz    xsize aggs(MiB)   API RefNum\n");
	print_row(r, true);
	print_row(r, false);
	tb_now(time);
	fprintf(r->out, "Finished            : %s\n", time);
}

const struct tb_output tb_text = {"default", begin, phase, result, removed, end};
