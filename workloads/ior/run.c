// The repetitions: remove what is old, write, check, read, remove, and carry what a stonewall left unwritten
// from the write to the reads.
#include "tb_ior.h"

#include <errno.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct run {
	const struct tb_options *o;
	const struct tb_world *w;
	struct tb_report *report; // NULL except on rank 0
	struct tb_phase phase;
	bool short_file;
};

static _Noreturn void fail(const char *path, const char *what, const char *reason)
{
	struct tb_file f;
	snprintf(f.path, sizeof f.path, "%s", path);
	tb_io_failed(&f, what, -1, reason);
}

static bool owns_file(const struct run *r)
{
	return r->o->file_per_process || r->w->rank == 0;
}

// Only regular files: a device given with -o must survive.
static bool regular_size(const char *path, int64_t *size)
{
	struct stat st;
	if (stat(path, &st) || !S_ISREG(st.st_mode))
		return false;
	*size = st.st_size;
	return true;
}

static double remove_files(const struct run *r, int repetition)
{
	char path[4096];
	int64_t size;
	MPI_Barrier(MPI_COMM_WORLD);
	double start = MPI_Wtime(), seconds;
	tb_path(path, sizeof path, r->o, r->w->rank, repetition);
	if (owns_file(r) && regular_size(path, &size) && unlink(path) && errno != ENOENT)
		fail(path, "remove", strerror(errno));
	if (r->o->unique_dir)
		rmdir(dirname(path)); // stays when it holds anything else
	double elapsed = MPI_Wtime() - start;
	MPI_Allreduce(&elapsed, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	return seconds;
}

static void make_directory(const struct run *r, int repetition)
{
	char path[4096];
	if (!r->o->unique_dir)
		return;
	tb_path(path, sizeof path, r->o, r->w->rank, repetition);
	char *dir = dirname(path);
	if (mkdir(dir, 0775) && errno != EEXIST)
		fail(dir, "mkdir", strerror(errno));
}

static void warn_of_size(const struct run *r, const struct tb_result *result, int64_t found)
{
	int64_t expected = tb_aggregate(r->o, r->w);
	if (r->w->rank || result->bytes == expected)
		return;
	fprintf(stderr, "WARNING: Expected aggregate file size       = %lld\n", (long long)expected);
	fprintf(stderr, "WARNING: Stat() of aggregate file size      = %lld\n", (long long)found);
	fprintf(stderr, "WARNING: Using actual aggregate bytes moved = %lld\n", (long long)result->bytes);
	fprintf(stderr, "WARNING: Maybe caused by deadlineForStonewalling\n");
}

// What the library says was written must be there; a shared file under a stonewall may have holes, never less.
static void check_size(struct run *r, const struct tb_result *result, int repetition)
{
	char path[4096];
	int64_t size[2] = {0, 0};
	tb_path(path, sizeof path, r->o, r->w->rank, repetition);
	size[1] = owns_file(r) && !regular_size(path, &size[0]);
	MPI_Allreduce(MPI_IN_PLACE, size, 2, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
	warn_of_size(r, result, size[0]);
	if (size[1] || size[0] >= result->bytes)
		return;
	r->short_file = true;
	if (r->w->rank == 0)
		fprintf(stderr, "tb-ior: %s: %lld bytes were written, but the files hold %lld\n", r->o->file,
			(long long)result->bytes, (long long)size[0]);
}

static void save_status(const struct run *r)
{
	const char *path = r->o->status_file;
	if (!path || !r->o->deadline_s || r->w->rank)
		return;
	FILE *f = fopen(path, "w");
	if (!f)
		fail(path, "open", strerror(errno));
	for (int i = 0; i < r->w->tasks; i++)
		fprintf(f, "%lld\n", (long long)r->phase.limits[i]);
	bool written = !ferror(f);
	if (fclose(f) || !written)
		fail(path, "write", strerror(errno));
}

static void load_status(struct run *r)
{
	const char *path = r->o->status_file;
	if (r->w->rank == 0) {
		FILE *f = fopen(path, "r");
		if (!f)
			fail(path, "open", strerror(errno));
		long long count;
		for (int i = 0; i < r->w->tasks; i++) {
			if (fscanf(f, "%lld", &count) != 1 || count < 0 || count > tb_transfers(r->o))
				fail(path, "read", "not the transfers of each rank of this run");
			r->phase.limits[i] = count;
		}
		fclose(f);
	}
	MPI_Bcast(r->phase.limits, r->w->tasks, MPI_INT64_T, 0, MPI_COMM_WORLD);
}

static void record(struct run *r, const struct tb_result *result)
{
	if (!r->report)
		return;
	tb_report_add(r->report, result);
	r->o->output->result(r->report, result);
	fflush(r->report->out);
}

static void announce(struct run *r, bool write)
{
	if (r->report)
		r->o->output->phase(r->report, write);
}

static void warn_of_errors(struct run *r, int64_t before, const char *what)
{
	int64_t errors = r->phase.errors - before, all;
	MPI_Allreduce(&errors, &all, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
	if (all && r->w->rank == 0)
		fprintf(stderr, "WARNING: Incorrect data on %s (%lld errors found).\n"
			"Used Time Stamp %u (0x%x) for Data Signature\n", what, (long long)all, r->phase.signature,
			r->phase.signature);
}

static void write_data(struct run *r, int repetition)
{
	if (!r->o->use_existing)
		remove_files(r, repetition);
	make_directory(r, repetition);
	announce(r, true);
	struct tb_result result = tb_phase_run(&r->phase, TB_WRITE, false, repetition);
	check_size(r, &result, repetition);
	save_status(r);
	record(r, &result);
}

static void check_data(struct run *r, int repetition)
{
	int64_t before = r->phase.errors;
	tb_phase_run(&r->phase, TB_CHECK, true, repetition);
	warn_of_errors(r, before, "write");
}

static void read_data(struct run *r, int repetition)
{
	int64_t before = r->phase.errors;
	announce(r, false);
	struct tb_result result = tb_phase_run(&r->phase, TB_READ, r->o->check_read, repetition);
	warn_of_errors(r, before, "read");
	record(r, &result);
}

static void repeat(struct run *r, int repetition)
{
	if (r->o->write)
		write_data(r, repetition);
	else if (r->o->status_file)
		load_status(r);
	if (r->o->check_write)
		check_data(r, repetition);
	if (r->o->read)
		read_data(r, repetition);
	if (r->o->keep)
		return;
	double seconds = remove_files(r, repetition);
	if (r->report)
		r->o->output->removed(r->report, seconds, repetition);
}

static void *buffer(size_t bytes)
{
	void *data = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
	if (data)
		return data;
	fprintf(stderr, "tb-ior: no memory for a transfer of %zu bytes\n", bytes);
	MPI_Abort(MPI_COMM_WORLD, TB_EXIT_IO);
	abort();
}

static uint32_t common_signature(const struct tb_options *o)
{
	uint32_t signature = o->signature ? o->signature : (uint32_t)time(NULL);
	MPI_Bcast(&signature, 1, MPI_UINT32_T, 0, MPI_COMM_WORLD);
	return signature;
}

int tb_run(const struct tb_options *o, const struct tb_world *w, struct tb_report *report)
{
	struct run r = {.o = o, .w = w, .report = report};
	r.phase = (struct tb_phase){.options = o, .world = w, .signature = common_signature(o)};
	r.phase.data = buffer((size_t)o->transfer);
	r.phase.limits = buffer((size_t)w->tasks * sizeof *r.phase.limits);
	for (int i = 0; i < w->tasks; i++)
		r.phase.limits[i] = tb_transfers(o);
	for (int i = 0; i < o->repetitions; i++) {
		if (i && o->delay_s)
			sleep((unsigned)o->delay_s);
		repeat(&r, i);
	}
	int64_t errors = r.phase.errors + r.short_file;
	MPI_Allreduce(MPI_IN_PLACE, &errors, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
	free(r.phase.data);
	free(r.phase.limits);
	return errors ? TB_EXIT_DATA : 0;
}
