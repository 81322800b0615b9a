/*
 * What a place can do: a directory (a tier's or the PFS's) by files in a folder
 * of its own there, memory by copies into memory that was touched before.
 */
#ifndef TB_MEASURE_H
#define TB_MEASURE_H

#include <stdbool.h>
#include <stddef.h>

#define MEASURE_SIZES 7   /* 4 KiB to 16 MiB, powers of 4 */
#define MEASURE_THREADS 4 /* 1, 2, 4, 8 */

struct measure_cell {
    double rate;   /* bytes per second, of all threads together */
    double median; /* seconds of one operation */
};

struct measure {
    struct measure_cell read[MEASURE_SIZES][MEASURE_THREADS], write[MEASURE_SIZES][MEASURE_THREADS];
    double sync_s;     /* a sync of a file with 4 KiB written, without the write */
    double create_s;   /* an open that creates, with its close */
    double metadata_s; /* the mean of an open of what exists with its close, a stat and an unlink */
    const char *how;   /* for people */
};

/* A place that is reached by calls of the caller's, of several threads at once. -errno ends the measuring. */
struct measure_calls {
    int (*read)(void *arg, int lane, size_t at, void *to, size_t n); /* a lane is one thread's; `at` is below 16 MiB */
    int (*write)(void *arg, int lane, size_t at, const void *from, size_t n);
    void *arg;
    const char *how;
};
enum { MEASURE_LANES = 8 };

size_t measure_size(int i); /* bytes of size number i */
int measure_threads(int i);

/*
 * Takes about `seconds`, and what making 128 MiB of files takes.  `path` NULL:
 * memory.  `tick` is called before each of the steps.  Stops where `*stop` turns
 * true.  0, or -errno (-EINTR: stopped), with the folder removed either way.
 */
int measure_place(const char *path, double seconds, const volatile bool *stop, void (*tick)(void *arg, int step, int steps), void *arg,
                  struct measure *out);
/* The same of a place without files: it has no sync and no names. */
int measure_by_calls(const struct measure_calls *calls, double seconds, const volatile bool *stop,
                     void (*tick)(void *arg, int step, int steps), void *arg, struct measure *out);

/* The same in the terms of a device model: what would give these rates. */
struct tb_device;
void measure_fit(const struct measure *m, struct tb_device *out);

#endif
