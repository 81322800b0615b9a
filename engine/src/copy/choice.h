/*
 * Which ways of copying an instance uses: measured once, when its region is made.
 *
 * Measured are random blocks of the region's own memory, as programs use it: copied in and out,
 * in three sizes, with the program's side in four places of its page. A copy out begins where
 * the bytes of the last one say, and one in after a locked instruction, as a call of a program does:
 * what a processor saves by beginning the next copy early is not measured. One round takes all
 * ways in turn, and the least processor time of some rounds counts.
 *
 * Short copies and long ones (TB_COPY_LONG), in and out, each have their way. A way is chosen where it
 * takes, over the sizes and places of such copies, on average less than TB_COPY_MARGIN of the time of
 * libc's memcpy, and nowhere more than TB_COPY_WORST of it; of several the one with the least average, of
 * equal ones the first. Else it is libc's. Short ones in are also measured with their first bytes asked for
 * ahead, and these are asked for where that takes less than TB_COPY_MARGIN of what was chosen without.
 */
#ifndef TB_COPY_CHOICE_H
#define TB_COPY_CHOICE_H

#include <stdint.h>

#include "copy/copy.h"

#define TB_COPY_SIZES 3u
#define TB_COPY_PLACES 4u
#define TB_COPY_MARGIN 0.95
#define TB_COPY_WORST 1.25

enum tb_copy_kind { TB_COPY_IN, TB_COPY_OUT, TB_COPY_IN_AHEAD, TB_COPY_KINDS };
#define TB_COPY_DIRECTIONS 2u /* the first two kinds */

/* Nanoseconds of one copy; 0: not measured. Part of the region's header. */
struct tb_copy_choice {
    uint32_t way[TB_COPY_DIRECTIONS][2]; /* index in tb_copy_ways, of short ones and of long ones */
    uint32_t ahead;                      /* short ones in are asked for ahead */
    double ns[TB_COPY_KINDS][TB_COPY_WAYS][TB_COPY_SIZES][TB_COPY_PLACES];
};

/* `shared`: n bytes of the region, which keep what they hold if that is zeros. Sizes that it cannot hold are left out. */
void tb_copy_measure(char *shared, size_t n, struct tb_copy_choice *out);

/* By the times alone: sets `way` and `ahead`. */
void tb_copy_choose(struct tb_copy_choice *c);

/* The index of what was chosen. */
uint32_t tb_copy_chosen(const struct tb_copy_choice *c, uint32_t direction, bool is_long);

/* How this process copies: as it was chosen, or by memcpy where it cannot. */
struct tb_copier tb_copy_by(const struct tb_copy_choice *c);

size_t tb_copy_size(uint32_t size);
const char *tb_copy_place_name(uint32_t place);
/* "in", "out", "in, asked for ahead" */
const char *tb_copy_kind_name(uint32_t kind);

/* Bytes a second; 0: not measured. */
uint64_t tb_copy_rate(const struct tb_copy_choice *c, uint32_t kind, uint32_t way, uint32_t size, uint32_t place);

#endif
