/*
 * tb-ior: IOR's command line, access pattern and output, for machines where IOR itself isn't installed.
 *
 * main parses the options (the same on every rank) into tests, run executes a test's repetitions, phase is one timed
 * open/transfer/close, a backend moves the bytes, order says where each transfer is, and an output prints the
 * report. Only rank 0 has a report. A failing transfer ends all ranks at once: none is left waiting for another.
 */
#ifndef TB_IOR_H
#define TB_IOR_H

#include "driver.h"

#include <limits.h>

struct tb_backend;
struct tb_output;
struct tb_tests;

struct tb_options {
    const struct tb_backend *backend;
    const struct tb_output *output;
    const char *api; /* the backend's name as it was given */
    const char *file;
    const char *summary_file; /* NULL: standard output */
    const char *status_file;  /* transfers done per rank under a stonewall, kept for a later read */
    const char *rank_file;    /* CSV of each rank's rates */
    const char *hints_file, *script;
    bool write, read, check_write, check_read;
    bool file_per_process, collective, keep, keep_with_error, use_existing, multi_file, unique_dir;
    bool fsync, fsync_per_write, intra_barriers, single_attempt, random_offset, quit_on_error;
    bool reorder, reorder_random, wear_out, dry_run, version, help;
    bool direct, range_locks, dual_mount, preallocate, file_view, show_hints, no_fill, advise_drop, advise_pattern;
    int64_t block, transfer, segments, signature, alignment, wear_out_transfers, memory_per_task;
    int64_t memory_per_node; /* a share in percent is of this rank's node */
    int64_t prefill;         /* bytes of a transfer that fills the file before -z, 0: none */
    int verbose, deadline_s, least_s, repetitions, delay_s, task_offset, reorder_seed, offset_seed, limit_min; /* minutes */
    int tasks, refnum, outlier_s;
    enum tb_packet packet;
    struct {
        int create_us, transfer_us, close_us;
        bool only_rank0;
    } dummy; /* waits of -a DUMMY */
};

/* The tests of a command line: those of its script, else the one of its options. */
struct tb_tests {
    struct tb_options *options;
    size_t count;
    char *text; /* of the script, into which options point */
};

struct tb_result {
    bool write, removal; /* neither: a read; of a removal only total_s and repetition hold */
    int repetition;
    int64_t bytes, pairs_min, pairs_max; /* the pairs with wear-out only, as stonewall_s */
    const int64_t *pairs;                /* of each rank at the stonewall, until the next pass; on rank 0 */
    double bandwidth_mib, iops, latency_s, open_s, transfer_s, close_s, total_s;
    double stonewall_s, stonewall_mib;                /* with wear-out: when the deadline struck, mean MiB/s a task until then */
    double rank_total_s, rank_transfer_s, rank_bytes; /* this rank's own */
};

struct tb_test {
    const struct tb_options *options;
    struct tb_world world;
    int id;
    const char *platform; /* the report's */
    char began[32], path[4096];
    struct tb_file_system fs;
    struct tb_result *results;
    size_t count;
};

struct tb_report {
    const struct tb_output *output;
    FILE *out; /* NULL until the report is written */
    const char *path, *command_line;
    int verbose;
    char began[32], machine[512], platform[512];
    struct tb_test *tests;
    size_t count;
    FILE *rank_file;
    const char *rank_path;
};

/* options.c and script.c */
bool tb_ior_options(struct tb_options *o, struct tb_tests *tests, int argc, char **argv, int tasks, struct tb_complaint *c);
bool tb_ior_directive(struct tb_options *o, const char *name, const char *value, struct tb_complaint *c);
bool tb_script_read(struct tb_tests *tests, const struct tb_options *defaults, const char *path, struct tb_complaint *c);
bool tb_tests_add(struct tb_tests *tests, const struct tb_options *o, struct tb_complaint *c);
void tb_tests_free(struct tb_tests *tests);
void tb_ior_help(FILE *out);
/* rules.c: may these options be together? */
bool tb_ior_rules_hold(const struct tb_options *o, int tasks, struct tb_complaint *c);

/* order.c: where the transfers of one owner are in its file. */
struct tb_order {
    int64_t per_segment, count;       /* transfers of a segment, of all */
    int64_t transfer, segment, first; /* bytes: of a transfer, from segment to segment, to the first transfer */
    uint32_t *table;                  /* the order in a segment; NULL: `mixed` says it, or one after the other */
    bool mixed;
    int64_t all, skip; /* mixed: the numbers that are mixed, and where this owner's share begins */
    uint64_t key;
};
void tb_order_make(struct tb_order *order, const struct tb_options *o, int tasks, int owner);
int64_t tb_order_offset(const struct tb_order *order, int64_t transfer);
void tb_order_free(struct tb_order *order);
int tb_owner(const struct tb_options *o, const struct tb_world *w, int repetition); /* the rank that wrote what this rank reads */

/* A backend ends all ranks on an error (tb_fail), so its functions have nothing to return. */
struct tb_file {
    char path[4096];
    const struct tb_options *options;
    const struct tb_world *world;
    int owner;
    struct tb_posix_file posix;
    MPI_File handle;
    char *map;
    size_t map_bytes;
    int64_t hdf5_file, hdf5_set, hdf5_space, hdf5_memory, hdf5_access, hdf5_segment;
};
struct tb_backend {
    const char *name;
    const char *(*version)(void);
    /* True when a sync needs all ranks of a shared file, which then must do the same number of transfers. */
    bool collective_sync;
    void (*open)(struct tb_file *f, bool create, bool shared);
    void (*write)(struct tb_file *f, const void *data, size_t bytes, int64_t offset);
    void (*read)(struct tb_file *f, void *data, size_t bytes, int64_t offset);
    void (*sync)(struct tb_file *f);
    void (*sync_transfer)(struct tb_file *f); /* of -Y */
    void (*close)(struct tb_file *f);
    bool no_files; /* nothing is made, so nothing is looked at or removed */
};
extern const struct tb_backend tb_posix, tb_mpiio, tb_mmap, tb_hdf5, tb_dummy;
int64_t tb_file_bytes(const struct tb_options *o, const struct tb_world *w); /* of one file, fully written */

/* phase.c: one pass over the data, timed. */
enum tb_pass { TB_WRITE, TB_READ, TB_CHECK };
struct tb_phase {
    const struct tb_options *options;
    const struct tb_world *world;
    uint64_t *data;
    int64_t *limits; /* per owner: transfers that exist */
    int64_t *pairs;  /* rank 0: transfers of each rank when the deadline struck */
    int64_t errors;  /* wrong transfers this rank has seen */
    struct tb_pattern pattern;
};
struct tb_result tb_phase_run(struct tb_phase *p, enum tb_pass pass, bool check, int repetition);
/* A repetition below 0: without the suffix that -m gives it. */
void tb_path(char *path, size_t size, const struct tb_options *o, const struct tb_world *w, int owner, int repetition);

/* status.c: on one rank. `most`: transfers that a rank of this run can have made. */
void tb_status_prepare(const char *path); /* it must have a place before anything is written */
void tb_status_save(const char *path, const int64_t *counts, int ranks);
void tb_status_load(const char *path, int64_t most, int64_t *counts, int ranks);

/* run.c: all repetitions of a test, NULL report except on rank 0; returns the exit status, the same on every rank. */
int tb_run(const struct tb_options *o, const struct tb_world *w, struct tb_report *report);

/* fields.c: what all formats say of a test, by name. Tables end with a row without a name. */
enum tb_field_kind { TB_IS_BOOL, TB_IS_INT, TB_IS_LONG, TB_IS_TEXT, TB_IS_SIZE, TB_IS_MADE, TB_IS_NULL, TB_IS_0 };
struct tb_field {
    const char *name;
    enum tb_field_kind kind;
    size_t offset; /* in the options, or in the test */
    bool of_test, text_only;
    void (*make)(const struct tb_test *t, char *out, size_t size);
    bool (*when)(const struct tb_options *o); /* NULL: always */
};
struct tb_value {
    const char *text; /* NULL: a number, or the text in `room` */
    bool is_text;
    int64_t number;
    char room[256];
};
extern const struct tb_field tb_option_fields[], tb_parameters[], tb_summary_fields[];
struct tb_value tb_field_value(const struct tb_field *f, const struct tb_test *t);

/* output.c and output_*.c; NULL: the format says nothing of it. */
struct tb_output {
    const char *name;
    bool at_end; /* written whole when all is done */
    void (*begin)(struct tb_report *r);
    void (*test)(struct tb_report *r, const struct tb_test *t, uint32_t signature);
    void (*phase)(struct tb_report *r, const struct tb_test *t, enum tb_pass pass); /* begins */
    void (*result)(struct tb_report *r, const struct tb_test *t, const struct tb_result *result);
    void (*removed)(struct tb_report *r, const struct tb_test *t, double seconds, int repetition);
    void (*test_end)(struct tb_report *r, const struct tb_test *t);
    void (*end)(struct tb_report *r);
};
extern const struct tb_output tb_text, tb_csv, tb_json;

struct tb_statistics {
    int count;
    double max, min, mean, deviation, ops_max, ops_min, ops_mean, ops_deviation;
    double time_s, moved_mib, stonewall_s, stonewall_mib;
};
struct tb_statistics tb_summarize(const struct tb_test *t, bool write);
void tb_now(char text[32]);
void tb_human_size(char *text, size_t size, int64_t bytes);
int64_t tb_aggregate(const struct tb_options *o, const struct tb_world *w);
bool tb_report_open(struct tb_report *r, const struct tb_options *o, const char *command_line, size_t tests);
struct tb_test *tb_report_test(struct tb_report *r, const struct tb_options *o, const struct tb_world *w);
void tb_report_add(struct tb_test *t, const struct tb_result *result);
bool tb_report_close(struct tb_report *r);

#endif
