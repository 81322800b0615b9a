/*
 * The model layer: makes what is below it as slow as a `struct tb_device`.
 *
 * All processes of a region share one clock per device. An operation reserves device time
 * after what is already reserved, and the caller may return no earlier. Sleeps on common
 * machines overshoot by 40-80 us, so a thread lets its debt grow to a fraction of a
 * millisecond and pays in larger pieces, and always at sync and close: rates hold within 5
 * % over any 200 ms.
 */
#ifndef TB_IO_MODEL_H
#define TB_IO_MODEL_H

#include <stdatomic.h>

#include "config/device.h"
#include <tierbench/io.h>

/* Shared by all processes; lives in the region (zeroed memory is a valid clock). */
struct tb_device_clock {
    _Atomic uint64_t transfer_free_at; /* ns on CLOCK_MONOTONIC: reads, writes and syncs are reserved until then */
    _Atomic uint64_t metadata_free_at; /* the same for opens and other metadata operations */
};

enum tb_charge { TB_CHARGE_READ, TB_CHARGE_WRITE, TB_CHARGE_SYNC, TB_CHARGE_OPEN, TB_CHARGE_METADATA };

/*
 * The process models something: the real time of its operations counts from now on.  Before its first operation, or
 * the device's time would come on top of that one's own.  tb_io_model_new does it; memory tiers have no layer.
 */
void tb_model_start(void);

bool tb_model_has_started(void);

/* Reserve device time for `bytes` (memory tiers, which have no chain).  Adds to the calling thread's debt. */
void tb_model_charge(const struct tb_device *device, struct tb_device_clock *clock, enum tb_charge kind, size_t bytes);

/* The thread's modelled time: ns of real time and its debt; where operations are made together, when they began. */
uint64_t tb_model_now(void);
/* How many seconds the reservations of others would delay a transfer of a thread at modelled time `now`. */
double tb_model_queue(struct tb_device_clock *clock, uint64_t now);

/*
 * Transfers between the two are handed to their devices together and waited for
 * together, as by asynchronous I/O: those of different devices take the time of
 * the slowest.  Inside a defer.
 */
void tb_model_together_begin(void);
void tb_model_together_end(void);

/*
 * While a thread defers, its operations reserve time but do not sleep: the
 * engine holds a lock then.  tb_model_settle pays what is owed above the
 * threshold (all of it where `all`).  Defer nests.
 */
void tb_model_defer_begin(void);
void tb_model_defer_end(void);
void tb_model_settle(bool all);
/*
 * Pay all that is owed now, also inside a section: for a caller that waits for a device
 * and holds no lock that others need.
 */
void tb_model_pay(void);

/* For tests: replace clock and sleep of this process (NULL: the real ones). */
struct tb_model_time {
    uint64_t (*now_ns)(void);
    void (*sleep_until_ns)(uint64_t deadline);
};
void tb_model_set_time(const struct tb_model_time *time);

#endif
