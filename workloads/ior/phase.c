// One pass over the data: open, transfer, close, each timed on a clock common to all ranks, with the
// stonewall of -D. Ranks that must move in step (collective calls) decide together when the wall is reached.
#include "tb_ior.h"

#include <assert.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>

enum { OPEN, TRANSFER, CLOSE, PARTS };

struct pass {
	struct tb_phase *p;
	enum tb_pass kind;
	bool check, lockstep;
	int owner;
	int64_t limit, done;
	int64_t *order;
	struct tb_file file;
	double begin[PARTS], end[PARTS], stonewall_s, stonewall_pairs;
	int64_t pairs_min, pairs_max;
};

static double now(const struct tb_world *w)
{
	return MPI_Wtime() + w->clock_offset;
}

void tb_path(char *path, size_t size, const struct tb_options *o, int owner, int repetition)
{
	char dir[4096], base[4096], number[16] = "";
	snprintf(dir, sizeof dir, "%s", o->file);
	snprintf(base, sizeof base, "%s", o->file);
	if (o->multi_file)
		snprintf(number, sizeof number, ".%d", repetition);
	if (!o->file_per_process)
		snprintf(path, size, "%s%s", o->file, number);
	else if (!o->unique_dir)
		snprintf(path, size, "%s.%08d%s", o->file, owner, number);
	else
		snprintf(path, size, "%.2000s/%d/%.1900s.%08d%s", dirname(dir), owner, basename(base), owner, number);
}

static void report_difference(struct pass *s, int64_t offset, int64_t at)
{
	struct tb_phase *p = s->p;
	if (p->errors++ == 0)
		fprintf(stderr, "tb-ior: %s: wrong data at offset %lld: found 0x%016llx\n", s->file.path,
			(long long)(offset + at), (unsigned long long)p->data[at / 8]);
	if (p->options->quit_on_error)
		tb_io_failed(&s->file, "check", offset + at, "wrong data, and -q asks to stop");
}

static void transfer(struct pass *s, int64_t i)
{
	struct tb_phase *p = s->p;
	const struct tb_options *o = p->options;
	size_t bytes = (size_t)o->transfer;
	int64_t offset = tb_offset(o, p->world->tasks, s->owner, s->order ? s->order[i] : i);
	if (s->kind == TB_WRITE) {
		tb_fill(p->data, bytes, p->signature, s->owner);
		o->backend->write(&s->file, p->data, bytes, offset);
		if (o->fsync_per_write)
			o->backend->sync(&s->file);
		return;
	}
	// All transfers of an owner hold the same bytes: a read that moved nothing must not find the last one's.
	if (s->check)
		tb_spoil(p->data, bytes);
	o->backend->read(&s->file, p->data, bytes, offset);
	int64_t at = s->check ? tb_first_difference(p->data, bytes, p->signature, s->owner) : -1;
	if (at >= 0)
		report_difference(s, offset, at);
}

static bool deadline_over(struct pass *s)
{
	int over = now(s->p->world) - s->begin[TRANSFER] >= s->p->options->deadline_s;
	if (s->lockstep)
		MPI_Allreduce(MPI_IN_PLACE, &over, 1, MPI_INT, MPI_LOR, MPI_COMM_WORLD);
	return over;
}

// After the deadline all ranks go on to the count of the fastest.
static void wear_out(struct pass *s)
{
	double elapsed = now(s->p->world) - s->begin[TRANSFER], sum = (double)s->done;
	MPI_Allreduce(&elapsed, &s->stonewall_s, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	MPI_Allreduce(&sum, &s->stonewall_pairs, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	MPI_Allreduce(&s->done, &s->pairs_min, 1, MPI_INT64_T, MPI_MIN, MPI_COMM_WORLD);
	MPI_Allreduce(&s->done, &s->pairs_max, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
	while (s->done < s->limit && s->done < s->pairs_max)
		transfer(s, s->done++);
}

static void transfer_all(struct pass *s)
{
	const struct tb_options *o = s->p->options;
	bool wall = o->deadline_s && s->kind != TB_CHECK;
	while (s->done < s->limit) {
		transfer(s, s->done++);
		if (wall && deadline_over(s))
			break;
	}
	if (wall && o->wear_out)
		wear_out(s);
	if (s->kind == TB_WRITE && o->fsync)
		o->backend->sync(&s->file);
}

static void barrier_between(const struct pass *s)
{
	if (s->p->options->intra_barriers)
		MPI_Barrier(MPI_COMM_WORLD);
}

static void execute(struct pass *s)
{
	const struct tb_options *o = s->p->options;
	const struct tb_world *w = s->p->world;
	MPI_Barrier(MPI_COMM_WORLD);
	s->begin[OPEN] = now(w);
	o->backend->open(&s->file, s->kind == TB_WRITE, !o->file_per_process);
	s->end[OPEN] = now(w);
	barrier_between(s);
	s->begin[TRANSFER] = now(w);
	transfer_all(s);
	s->end[TRANSFER] = now(w);
	barrier_between(s);
	s->begin[CLOSE] = now(w);
	o->backend->close(&s->file);
	s->end[CLOSE] = now(w);
	MPI_Barrier(MPI_COMM_WORLD);
}

static struct tb_result measure(struct pass *s, int repetition)
{
	const struct tb_options *o = s->p->options;
	double begin[PARTS], end[PARTS], latency = 0, bytes = (double)s->done * (double)o->transfer, all;
	if (s->done)
		latency = (s->end[TRANSFER] - s->begin[TRANSFER]) / (double)s->done;
	MPI_Allreduce(s->begin, begin, PARTS, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
	MPI_Allreduce(s->end, end, PARTS, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	MPI_Allreduce(MPI_IN_PLACE, &latency, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	MPI_Allreduce(&bytes, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	struct tb_result r = {.write = s->kind == TB_WRITE, .repetition = repetition, .bytes = (int64_t)all,
		.pairs_min = s->pairs_min, .pairs_max = s->pairs_max, .stonewall_s = s->stonewall_s,
		.open_s = end[OPEN] - begin[OPEN], .transfer_s = end[TRANSFER] - begin[TRANSFER],
		.close_s = end[CLOSE] - begin[CLOSE], .total_s = end[CLOSE] - begin[OPEN],
		.latency_s = latency / s->p->world->tasks};
	// A clock too coarse for the run must not divide by nothing.
	r.bandwidth_mib = all / TB_MIB / (r.total_s > 0 ? r.total_s : 1e-9);
	r.iops = all / (double)o->transfer / (r.transfer_s > 0 ? r.transfer_s : 1e-9);
	if (s->stonewall_s > 0)
		r.stonewall_mib = s->stonewall_pairs / s->p->world->tasks * (double)o->transfer / TB_MIB / s->stonewall_s;
	return r;
}

static int64_t common_limit(const struct pass *s)
{
	int64_t limit = s->p->limits[s->owner];
	if (s->lockstep)
		MPI_Allreduce(MPI_IN_PLACE, &limit, 1, MPI_INT64_T, MPI_MIN, MPI_COMM_WORLD);
	return limit;
}

struct tb_result tb_phase_run(struct tb_phase *p, enum tb_pass kind, bool check, int repetition)
{
	const struct tb_options *o = p->options;
	struct pass s = {.p = p, .kind = kind, .check = check};
	s.owner = kind == TB_WRITE ? p->world->rank : tb_owner(o, p->world);
	s.lockstep = !o->file_per_process && o->backend->collective_sync && (o->collective || o->fsync_per_write);
	s.limit = kind == TB_WRITE ? tb_transfers(o) : common_limit(&s);
	s.order = tb_order(o, s.owner);
	s.file.single_attempt = o->single_attempt;
	// A collective call on a rank's own file has no partner, but is a different path of the library.
	s.file.collective = o->collective;
	tb_path(s.file.path, sizeof s.file.path, o, s.owner, repetition);
	execute(&s);
	assert(s.done <= s.limit);
	if (kind == TB_WRITE)
		MPI_Allgather(&s.done, 1, MPI_INT64_T, p->limits, 1, MPI_INT64_T, MPI_COMM_WORLD);
	free(s.order);
	return measure(&s, repetition);
}
