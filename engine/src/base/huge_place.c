/* Mounted places with huge pages (base/huge_place.h), read from the mounts of this process. */
#include "base/huge_place.h"

#include <linux/magic.h>
#include <mntent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define PAGE_MOST (32ull << 20) /* a region is rounded up to whole pages */

/*
 * Reserved pages are promised to mappings that have not touched them yet, and count as free in the kernel's own number.
 * A system without such pages has no such files: then there are 0.
 */
uint64_t tb_huge_pages_free(uint64_t page)
{
    char path[96];
    unsigned long long n[2] = {0, 0};
    static const char *const names[] = {"free", "resv"};
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "/sys/kernel/mm/hugepages/hugepages-%llukB/%s_hugepages", (unsigned long long)page >> 10, names[i]);
        FILE *f = fopen(path, "re");
        if (f && fscanf(f, "%llu", &n[i]) != 1)
            n[i] = 0;
        if (f)
            fclose(f);
    }
    return n[0] > n[1] ? n[0] - n[1] : 0;
}

/* Ours or the administrator's, and no other user can remove what we make there. */
static bool is_safe(const char *directory)
{
    struct stat st;
    return lstat(directory, &st) == 0 && S_ISDIR(st.st_mode) && (st.st_uid == getuid() || st.st_uid == 0) &&
           (!(st.st_mode & 022) || st.st_mode & S_ISVTX) && access(directory, R_OK | W_OK | X_OK) == 0;
}

/* /dev/shm itself needs no place: a region that is there gets huge pages by advice. */
static bool is_place(const struct mntent *m)
{
    const char *huge = strcmp(m->mnt_type, "tmpfs") == 0 ? hasmntopt(m, "huge") : NULL;
    bool has = strcmp(m->mnt_type, "hugetlbfs") == 0 || (huge && strncmp(huge, "huge=never", 10) != 0);
    return has && strcmp(m->mnt_dir, "/dev/shm") != 0 && is_safe(m->mnt_dir);
}

void tb_huge_places(void (*each)(void *arg, const char *directory), void *arg)
{
    char text[4096];
    struct mntent entry, *m;
    FILE *mounts = setmntent("/proc/self/mounts", "re");
    while (mounts && (m = getmntent_r(mounts, &entry, text, sizeof(text))))
        if (is_place(m))
            each(arg, m->mnt_dir);
    if (mounts)
        endmntent(mounts);
}

/* A tmpfs without a size has as many blocks as its limit; 0 of them: no limit. */
static bool has_room(const char *directory, uint64_t bytes)
{
    struct statfs fs;
    if (statfs(directory, &fs))
        return false;
    uint64_t page = (uint64_t)fs.f_bsize;
    if (fs.f_type == HUGETLBFS_MAGIC)
        return page <= PAGE_MOST && tb_huge_pages_free(page) >= (bytes + page - 1) / page;
    return !fs.f_blocks || fs.f_bavail * page >= bytes;
}

struct search {
    uint64_t bytes;
    char *out;
};

static void take_first(void *arg, const char *directory)
{
    struct search *s = arg;
    if (!s->out[0] && strlen(directory) < TB_HUGE_PLACE_MAX && has_room(directory, s->bytes))
        strcpy(s->out, directory);
}

bool tb_huge_place(uint64_t bytes, char out[TB_HUGE_PLACE_MAX])
{
    out[0] = 0;
    tb_huge_places(take_first, &(struct search){bytes, out});
    return out[0];
}

uint64_t tb_huge_round(int fd, uint64_t bytes)
{
    struct statfs fs;
    if (fstatfs(fd, &fs) || fs.f_type != HUGETLBFS_MAGIC)
        return bytes;
    uint64_t page = (uint64_t)fs.f_bsize;
    return (bytes + page - 1) / page * page;
}
