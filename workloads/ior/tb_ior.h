// tb-ior: IOR's command line, access pattern and output, for machines where IOR itself isn't installed.
//
// main parses the options (the same on every rank), run executes the repetitions, phase one timed
// open/transfer/close, a backend moves the bytes, pattern says which bytes, and an output prints the report.
// Only rank 0 prints the report. A failing transfer ends all ranks at once: none is left waiting for another.
#ifndef TB_IOR_H
#define TB_IOR_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { TB_EXIT_DATA = 1, TB_EXIT_USAGE = 2, TB_EXIT_IO = 3 };

#define TB_MIB 1048576.0

struct tb_backend;
struct tb_output;

struct tb_options {
	const struct tb_backend *backend;
	const struct tb_output *output;
	const char *file;
	const char *summary_file; // NULL: standard output
	const char *status_file;  // transfers done per rank under a stonewall, kept for a later read
	bool write, read, check_write, check_read;
	bool file_per_process, collective, keep, use_existing, multi_file, unique_dir;
	bool fsync, fsync_per_write, intra_barriers, single_attempt, random_offset, quit_on_error;
	bool reorder, reorder_random, wear_out, version, help;
	int64_t block, transfer, segments;
	int verbose, deadline_s, repetitions, delay_s, task_offset, reorder_seed;
	uint32_t signature;
};

struct tb_world {
	int rank, tasks, nodes, tasks_per_node;
	double clock_offset; // added to MPI_Wtime: one clock for all ranks
};

struct tb_result {
	bool write;
	int repetition;
	int64_t bytes, pairs_min, pairs_max;
	double bandwidth_mib, iops, latency_s, open_s, transfer_s, close_s, total_s;
	double stonewall_s, stonewall_mib; // with wear-out: when the deadline struck, mean MiB/s a task until then
};

struct tb_report {
	const struct tb_options *options;
	const struct tb_world *world;
	FILE *out;
	const char *command_line;
	char began[32], machine[512], node[256], system[256], path[4096];
	double capacity_gib, used_percent, inodes_mi, used_inodes_percent;
	struct tb_result *results;
	size_t count;
};

// options.c: fills `why` and returns false for a usage error.
bool tb_options_parse(struct tb_options *o, int argc, char **argv, char *why, size_t size);
void tb_usage(FILE *out);

// pattern.c
int64_t tb_transfers(const struct tb_options *o);
int64_t *tb_order(const struct tb_options *o, int owner); // NULL: in order; the caller frees it
int64_t tb_offset(const struct tb_options *o, int tasks, int owner, int64_t transfer);
void tb_fill(uint64_t *words, size_t bytes, uint32_t signature, int owner);
void tb_spoil(uint64_t *words, size_t bytes); // changes a word in every 512 bytes
int64_t tb_first_difference(const uint64_t *words, size_t bytes, uint32_t signature, int owner);
int tb_owner(const struct tb_options *o, const struct tb_world *w); // whose data this rank reads

// A backend aborts all ranks on an error (tb_io_failed), so its functions have nothing to return.
struct tb_file {
	char path[4096];
	int fd;
	MPI_File handle;
	bool single_attempt, collective;
};
struct tb_backend {
	const char *name;
	const char *(*version)(void);
	// True when a sync needs all ranks of a shared file, which then must do the same number of transfers.
	bool collective_sync;
	void (*open)(struct tb_file *f, bool create, bool shared);
	void (*write)(struct tb_file *f, const void *data, size_t bytes, int64_t offset);
	void (*read)(struct tb_file *f, void *data, size_t bytes, int64_t offset);
	void (*sync)(struct tb_file *f);
	void (*close)(struct tb_file *f);
};
extern const struct tb_backend tb_posix, tb_mpiio;
_Noreturn void tb_io_failed(const struct tb_file *f, const char *what, int64_t offset, const char *reason);

// phase.c: one pass over the data, timed.
enum tb_pass { TB_WRITE, TB_READ, TB_CHECK };
struct tb_phase {
	const struct tb_options *options;
	const struct tb_world *world;
	uint64_t *data;
	int64_t *limits; // per owner: transfers that exist
	int64_t errors;  // wrong transfers this rank has seen
	uint32_t signature;
};
struct tb_result tb_phase_run(struct tb_phase *p, enum tb_pass pass, bool check, int repetition);
void tb_path(char *path, size_t size, const struct tb_options *o, int owner, int repetition);

// run.c: all repetitions; returns the exit status, the same on every rank.
int tb_run(const struct tb_options *o, const struct tb_world *w, struct tb_report *report);

// output.c and output_*.c; a report is there only on rank 0 (NULL elsewhere does nothing).
struct tb_output {
	const char *name;
	void (*begin)(struct tb_report *r);
	void (*phase)(struct tb_report *r, bool write);
	void (*result)(struct tb_report *r, const struct tb_result *result);
	void (*removed)(struct tb_report *r, double seconds, int repetition);
	void (*end)(struct tb_report *r);
};
extern const struct tb_output tb_text, tb_csv, tb_json;

struct tb_statistics {
	int count;
	double max, min, mean, deviation, ops_max, ops_min, ops_mean, ops_deviation;
	double time_s, moved_mib, stonewall_s, stonewall_mib;
};
struct tb_statistics tb_summarize(const struct tb_report *r, bool write);
void tb_now(char text[32]);
void tb_human_size(char *text, size_t size, int64_t bytes);
int64_t tb_aggregate(const struct tb_options *o, const struct tb_world *w);
char *tb_join(int argc, char **argv); // the command line as one string; the caller frees it
bool tb_report_open(struct tb_report *r, const struct tb_options *o, const struct tb_world *w,
	const char *command_line);
void tb_report_add(struct tb_report *r, const struct tb_result *result);
bool tb_report_close(struct tb_report *r);

#endif
