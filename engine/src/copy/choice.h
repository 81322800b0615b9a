/*
 * Which way of copying an instance uses: measured once, when its region is made.
 *
 * Measured are random blocks of the region's own memory, as programs use it: copied in and out,
 * in three sizes, with the program's side in four places of its page. One round takes all
 * ways in turn, and the least processor time of some rounds counts.
 *
 * A way is chosen where it takes, over all sizes and places, on average less than
 * TB_COPY_MARGIN of the time of libc's memcpy, and nowhere more than TB_COPY_WORST of it; of
 * several the one with the least average, of equal ones the first. Else it is libc's.
 */
#ifndef TB_COPY_CHOICE_H
#define TB_COPY_CHOICE_H

#include <stdint.h>

#include "copy/ways.h"

#define TB_COPY_SIZES 3u
#define TB_COPY_PLACES 4u
#define TB_COPY_MARGIN 0.95
#define TB_COPY_WORST 1.25

/* Nanoseconds of one copy, in and out halved; 0: not measured. Part of the region's header. */
struct tb_copy_choice {
    uint32_t way; /* index in tb_copy_ways */
    double ns[TB_COPY_WAYS][TB_COPY_SIZES][TB_COPY_PLACES];
};

/* `shared`: n bytes of the region, which keep what they hold if that is zeros. Sizes that it cannot hold are left out. */
void tb_copy_measure(char *shared, size_t n, struct tb_copy_choice *out);

/* By the times alone. */
uint32_t tb_copy_choose(const struct tb_copy_choice *c);

/* The index of what was chosen. */
uint32_t tb_copy_chosen(const struct tb_copy_choice *c);

/* How this process copies: as it was chosen, or by memcpy where it cannot. */
tb_copy_bytes *tb_copy_by(const struct tb_copy_choice *c);

size_t tb_copy_size(uint32_t size);
const char *tb_copy_place_name(uint32_t place);

/* Bytes a second; 0: not measured. */
uint64_t tb_copy_rate(const struct tb_copy_choice *c, uint32_t way, uint32_t size, uint32_t place);

#endif
