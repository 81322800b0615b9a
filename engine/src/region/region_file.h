/*
 * The file of a region, and the pages that it has.
 *
 * Its name is /dev/shm/tierbench.UID.NAME. If the configuration names a directory (a tmpfs
 * or hugetlbfs with huge pages), or one is found, that name is a symbolic link to the file there: listing,
 * attaching and removing go by the name alone, as they know no configuration. Name, link
 * and file must be this user's, and closed to all others. A link may lead only to a file
 * of the same name.
 */
#ifndef TB_REGION_FILE_H
#define TB_REGION_FILE_H

#include <stddef.h>
#include <stdint.h>

struct tb_config;

enum tb_huge_pages { TB_HUGE_NONE, TB_HUGE_SHMEM, TB_HUGE_TMPFS, TB_HUGE_HUGETLB };
/* "none", "shmem THP" (in /dev/shm), "huge tmpfs", "hugetlb". */
const char *tb_huge_pages_name(enum tb_huge_pages kind);

#define TB_REGION_PATH_MAX 128
/* End of the name of the directory for scratch prefixes, if there is no directory tier. */
#define TB_REGION_SHADOW ".shadow"
/* "/dev/shm/tierbench.UID.NAME", and "~" with 16 digits after it where another user took that name first. */
void tb_region_path(const char *instance, char *out, size_t size);

/*
 * An empty file for a new region, in `directory` ("": /dev/shm); its descriptor, -EEXIST where there is one (then attachable, if it
 * ever was), or -errno.
 */
int tb_region_file_create(const char *directory, const char *instance);
/* -ENOENT none; -EPERM not this user's alone; or another negative errno. */
int tb_region_file_open(const char *instance);
int tb_region_file_remove(const char *instance);

/* A region in the configuration's directory, or in one that was found, may have lost its name in /dev/shm: make the name again. */
void tb_region_file_relink(const struct tb_config *config);

/* Which pages the mapping of `fd` at `base` really has, asked of the kernel after it was touched. */
enum tb_huge_pages tb_region_file_pages(int fd, const char *directory, const void *base, uint64_t bytes);

#endif
