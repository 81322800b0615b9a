/*
 * Places with huge pages that an administrator has mounted: a hugetlbfs, or a tmpfs with huge=. Users make files
 * there as in /dev/shm, so what others could take away is no such place.
 */
#ifndef TB_HUGE_PLACE_H
#define TB_HUGE_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TB_HUGE_PLACE_MAX 1024

/* What an administrator types, so that /dev/shm has huge pages. */
#define TB_HUGE_ENABLE "mount -o remount,huge=advise /dev/shm"

/*
 * The first place with room for that many bytes in pages of at most 32 MiB, into `out`. False: none. Room is looked at, not
 * taken.
 */
bool tb_huge_place(uint64_t bytes, char out[TB_HUGE_PLACE_MAX]);
/* All of them, with room or without. */
void tb_huge_places(void (*each)(void *arg, const char *directory), void *arg);

/* Pages of this size that are neither used nor reserved. */
uint64_t tb_huge_pages_free(uint64_t page);
/* A file there has whole pages: `bytes` rounded up to the page of a hugetlbfs; elsewhere as it is. */
uint64_t tb_huge_round(int fd, uint64_t bytes);

#endif
