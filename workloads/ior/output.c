// What all formats share: the facts of the run, its results and their statistics.
#include "tb_ior.h"

#include <errno.h>
#include <libgen.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <time.h>

void tb_now(char text[32])
{
	struct tm parts;
	time_t seconds = time(NULL);
	localtime_r(&seconds, &parts);
	strftime(text, 32, "%a %b %e %H:%M:%S %Y", &parts);
}

void tb_human_size(char *text, size_t size, int64_t bytes)
{
	const char *units[] = {"MiB", "GiB", "TiB"};
	int unit = 2;
	while (unit >= 0 && bytes < (int64_t)1 << (20 + 10 * unit))
		unit--;
	int64_t whole = (int64_t)1 << (20 + 10 * (unit < 0 ? 0 : unit));
	if (unit < 0)
		snprintf(text, size, "%lld bytes", (long long)bytes);
	else if (bytes % whole)
		snprintf(text, size, "%.2f %s", (double)bytes / (double)whole, units[unit]);
	else
		snprintf(text, size, "%lld %s", (long long)(bytes / whole), units[unit]);
}

int64_t tb_aggregate(const struct tb_options *o, const struct tb_world *w)
{
	return o->block * o->segments * w->tasks;
}

static void describe_machine(struct tb_report *r)
{
	struct utsname u;
	uname(&u);
	snprintf(r->node, sizeof r->node, "%s", u.nodename);
	snprintf(r->system, sizeof r->system, "%s", u.sysname);
	snprintf(r->machine, sizeof r->machine, "%s %s", u.sysname, u.nodename);
	if (r->options->verbose >= 2)
		snprintf(r->machine, sizeof r->machine, "%s %s %s %s %s", u.sysname, u.nodename, u.release, u.version,
			u.machine);
}

static double percent_used(double all, double free)
{
	return all > 0 ? (1 - free / all) * 100 : 0;
}

static void describe_file_system(struct tb_report *r)
{
	char dir[4096];
	struct statvfs fs;
	snprintf(dir, sizeof dir, "%s", r->options->file);
	if (statvfs(dirname(dir), &fs))
		return;
	r->capacity_gib = (double)fs.f_blocks * (double)fs.f_frsize / (1024 * TB_MIB);
	r->used_percent = percent_used((double)fs.f_blocks, (double)fs.f_bfree);
	r->inodes_mi = (double)fs.f_files / TB_MIB;
	r->used_inodes_percent = percent_used((double)fs.f_files, (double)fs.f_ffree);
}

char *tb_join(int argc, char **argv)
{
	char *line = NULL;
	size_t size;
	FILE *f = open_memstream(&line, &size);
	if (!f)
		return NULL;
	for (int i = 0; i < argc; i++)
		fprintf(f, "%s%s", i ? " " : "", argv[i]);
	fclose(f);
	return line;
}

bool tb_report_open(struct tb_report *r, const struct tb_options *o, const struct tb_world *w,
	const char *command_line)
{
	*r = (struct tb_report){.options = o, .world = w, .out = stdout, .command_line = command_line};
	if (o->summary_file && !(r->out = fopen(o->summary_file, "w"))) {
		fprintf(stderr, "tb-ior: -O summaryFile: %s: %s\n", o->summary_file, strerror(errno));
		return false;
	}
	r->results = calloc((size_t)o->repetitions * 2, sizeof *r->results);
	if (!r->results) {
		fprintf(stderr, "tb-ior: no memory for the results of %d repetitions\n", o->repetitions);
		return false;
	}
	tb_now(r->began);
	tb_path(r->path, sizeof r->path, o, 0, 0);
	describe_machine(r);
	describe_file_system(r);
	return true;
}

void tb_report_add(struct tb_report *r, const struct tb_result *result)
{
	r->results[r->count++] = *result;
}

bool tb_report_close(struct tb_report *r)
{
	bool good = !ferror(r->out);
	good = fclose(r->out) == 0 && good;
	if (!good)
		fprintf(stderr, "tb-ior: %s: the report could not be written: %s\n",
			r->options->summary_file ? r->options->summary_file : "standard output", strerror(errno));
	free(r->results);
	return good;
}

static void add_extremes(struct tb_statistics *s, const struct tb_result *x)
{
	if (!s->count++ || x->bandwidth_mib > s->max)
		s->max = x->bandwidth_mib;
	if (s->count == 1 || x->bandwidth_mib < s->min)
		s->min = x->bandwidth_mib;
	s->mean += x->bandwidth_mib;
	s->time_s += x->total_s;
	s->moved_mib = (double)x->bytes / TB_MIB;
	s->stonewall_s += x->stonewall_s;
	s->stonewall_mib += x->stonewall_mib;
}

// The deviation is the population's, as IOR prints it.
struct tb_statistics tb_summarize(const struct tb_report *r, bool write)
{
	struct tb_statistics s = {0};
	double squares = 0, ops = TB_MIB / (double)r->options->transfer;
	for (size_t i = 0; i < r->count; i++)
		if (r->results[i].write == write)
			add_extremes(&s, &r->results[i]);
	if (!s.count)
		return s;
	s.mean /= s.count;
	s.time_s /= s.count;
	s.stonewall_s /= s.count;
	s.stonewall_mib /= s.count;
	for (size_t i = 0; i < r->count; i++)
		if (r->results[i].write == write)
			squares += pow(r->results[i].bandwidth_mib - s.mean, 2);
	s.deviation = sqrt(squares / s.count);
	s.ops_max = s.max * ops;
	s.ops_min = s.min * ops;
	s.ops_mean = s.mean * ops;
	s.ops_deviation = s.deviation * ops;
	return s;
}
