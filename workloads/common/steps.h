/*
 * What the programs of steps share (tb-vpic, tb-hacc, tb-alternate, tb-reread): a clock for what all ranks do
 * together, compute that is emulated by waiting, and a result in text and JSON. A step of compute keeps no processor
 * busy, as in h5bench: on the machines of these programs the tiers have a core of their own.
 */
#ifndef TB_STEPS_H
#define TB_STEPS_H

#include "driver.h"

/*
 * Seconds and bytes of all steps; a second counts until the slowest rank is done. Compute is all
 * that is no I/O.
 */
struct tb_steps {
    double open_s, write_s, read_s, close_s, flush_s, compute_s;
    int64_t bytes_written, bytes_read; /* of all ranks */
    int steps, files;
    bool wrong; /* what was read is not what was written */
};

/* A barrier of ranks asleep; MPI's own spins. */
void tb_step_wait(MPI_Comm comm);

/* Both wait for all ranks; the second adds what has passed since the first. */
double tb_step_begin(const struct tb_world *w);
void tb_step_end(const struct tb_world *w, double began, double *seconds);

/*
 * Waits until a step that `began` has taken so long: what a rank did since then, such as to
 * make the data it writes next, is a part of its compute.
 */
void tb_step_compute(double began, int64_t microseconds);

/*
 * Waits until all of a file is on its device, no matter which process wrote it: an fsync of it as a file of its own. NULL: not by
 * this rank.
 */
void tb_step_flush(const struct tb_world *w, const char *path, double *seconds);

/* Of all ranks: true where one of them says so. */
bool tb_step_any(const struct tb_world *w, bool mine);

/* What one of these programs is; its command line is words (a file, a number of particles) and then options. */
struct tb_steps_program {
    const char *usage;
    void *options; /* with their defaults */
    const struct tb_option *table;
    const struct tb_rule *rules;
    bool (*take_words)(void *options, int n, char **words, struct tb_complaint *c);
    struct tb_steps (*run)(const void *options, const struct tb_world *w);
    const char *const *json; /* of the options: where the result is written as JSON; NULL there: nowhere */
};

/* From MPI_Init to MPI_Finalize; returns the exit status. Rank 0 prints the result. */
int tb_steps_main(int argc, char **argv, const struct tb_steps_program *p);

/* A whole number of at least 1 in a word; false and a complaint where it is none. */
bool tb_steps_number(const char *what, const char *word, int64_t *value, struct tb_complaint *c);

#endif
