/*
 * The file of a region: its name in /dev/shm, the link to a directory with huge pages, and
 * which pages the mapping really has (region/region_file.h). In /dev/shm every user can
 * make names. So owner, type and mode are checked before a file is used.
 */
#include "region/region_file.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/huge_place.h"
#include "config/config.h"

#define TARGET_MAX (TB_PATH_MAX + TB_REGION_PATH_MAX + 256)
#define APART '~'
#define APART_DIGITS 16

/* In the order of enum tb_huge_pages. */
const char *tb_huge_pages_name(enum tb_huge_pages kind)
{
    static const char *const names[] = {"none", "shmem THP", "huge tmpfs", "hugetlb"};
    assert((size_t)kind < sizeof(names) / sizeof(names[0]));
    return names[kind];
}

/* `end`: for files that have the name with an ending. */
static bool is_anothers(const char *directory, const char *name, const char *end)
{
    char path[TARGET_MAX + 16];
    struct stat st;
    snprintf(path, sizeof(path), "%s/%s%s", directory, name, end);
    return lstat(path, &st) == 0 && st.st_uid != getuid();
}

/* lstat: a link of another user to our file is not ours. */
static bool is_ours(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && st.st_uid == getuid();
}

/* Is the file called "NAME~" and 16 hexadecimal digits? Names of instances have no "~", so it is of this one. */
static bool is_set_apart(const char *file, const char *name)
{
    size_t n = strlen(name);
    return strncmp(file, name, n) == 0 && file[n] == APART && strspn(file + n + 1, "0123456789abcdef") == APART_DIGITS &&
           !file[n + 1 + APART_DIGITS];
}

/*
 * Another user may have made the plain name first. Then ours has digits after it (set
 * apart), and is looked for. So no user can keep another from an instance by its name.
 */
void tb_region_path(const char *instance, char *out, size_t size)
{
    char name[TB_REGION_PATH_MAX];
    snprintf(name, sizeof(name), "tierbench.%u.%.80s", (unsigned)getuid(), instance);
    snprintf(out, size, "/dev/shm/%s", name);
    DIR *shm = is_ours(out) ? NULL : opendir("/dev/shm");
    for (struct dirent *d; shm && (d = readdir(shm));)
        if (is_set_apart(d->d_name, name)) {
            char path[TARGET_MAX];
            snprintf(path, sizeof(path), "/dev/shm/%s", d->d_name);
            if (is_ours(path))
                snprintf(out, size, "%s", path);
        }
    if (shm)
        closedir(shm);
}

/* The same for a region that is about to be made: it is set apart if the plain name is another user's. */
static void new_path(const char *directory, const char *instance, char *out, size_t size)
{
    uint64_t bits = 0;
    tb_region_path(instance, out, size);
    const char *name = strrchr(out, '/') + 1;
    bool taken = is_anothers("/dev/shm", name, "") || is_anothers("/dev/shm", name, TB_REGION_SHADOW) ||
                 (directory[0] && is_anothers(directory, name, ""));
    size_t n = strlen(out);
    if (taken && getrandom(&bits, sizeof(bits), 0) == sizeof(bits))
        snprintf(out + n, size - n, "%c%0*llx", APART, APART_DIGITS, (unsigned long long)bits);
}

/* The file there has the name of the link, so each is found by the other. */
static void target_path(const char *directory, const char *link, char *out)
{
    assert(link[0] == '/');
    snprintf(out, TARGET_MAX, "%s/%s", directory, strrchr(link, '/') + 1);
}

/* Where the link leads. -EPERM: it is not ours, or leads to a file of another name. -EINVAL: it is no link. */
static int read_link(const char *link, char *target)
{
    struct stat st;
    ssize_t n = readlink(link, target, TARGET_MAX - 1);
    if (n < 0)
        return -errno;
    target[n] = 0;
    const char *name = strrchr(target, '/');
    if (lstat(link, &st) || st.st_uid != getuid() || !name || strcmp(name, strrchr(link, '/')) != 0)
        return -EPERM;
    return 0;
}

/* Fails where there is one: it may be a living instance's region. */
static int create_file(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    return fd < 0 ? -errno : fd;
}

/*
 * Make the link. An old link is replaced only if its file is gone, for example with its mount.
 * Two starts at once: the second symlink fails, and with it that start.
 */
static int make_link(const char *link, const char *target)
{
    char old[TARGET_MAX];
    struct stat st;
    if (symlink(target, link) == 0)
        return 0;
    if (errno != EEXIST || read_link(link, old) || stat(old, &st) == 0 || errno != ENOENT || unlink(link))
        return -EEXIST;
    return symlink(target, link) ? -errno : 0;
}

/* With a directory the link is made first, so that no file there is without a name. */
int tb_region_file_create(const char *directory, const char *instance)
{
    char path[TB_REGION_PATH_MAX], target[TARGET_MAX];
    new_path(directory, instance, path, sizeof(path));
    if (!directory[0])
        return create_file(path);
    target_path(directory, path, target);
    int rc = make_link(path, target);
    int fd = rc ? rc : create_file(target);
    if (!rc && fd < 0 && fd != -EEXIST) /* -EEXIST: the region was there, and the link leads to it again */
        unlink(path);
    return fd;
}

/* Only a regular file of this user that no other may open. */
static int open_private(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == getuid() && !(st.st_mode & 077))
        return fd;
    close(fd);
    return -EPERM;
}

/* A plain file or our link to one: O_NOFOLLOW tells the two apart before anything is opened. */
int tb_region_file_open(const char *instance)
{
    char path[TB_REGION_PATH_MAX], target[TARGET_MAX];
    tb_region_path(instance, path, sizeof(path));
    int fd = open_private(path);
    if (fd != -ELOOP)
        return fd;
    int rc = read_link(path, target);
    return rc ? rc : open_private(target);
}

/* The file goes before the link: if killed between, the link leads nowhere and the next start replaces it. */
int tb_region_file_remove(const char *instance)
{
    char path[TB_REGION_PATH_MAX], target[TARGET_MAX];
    tb_region_path(instance, path, sizeof(path));
    if (read_link(path, target) == 0)
        unlink(target);
    return unlink(path) ? -errno : 0;
}

/* If a name in /dev/shm was removed, the file in the named directory is still there: give it its name back. */
static void relink_in(void *unused, const char *place)
{
    char prefix[64], path[TB_REGION_PATH_MAX], target[TARGET_MAX];
    size_t length = (size_t)snprintf(prefix, sizeof(prefix), "tierbench.%u.", (unsigned)getuid());
    DIR *directory = opendir(place);
    (void)unused;
    for (struct dirent *d; directory && (d = readdir(directory));)
        if (strncmp(d->d_name, prefix, length) == 0 && strlen(d->d_name) - length < 64) {
            tb_region_path(d->d_name + length, path, sizeof(path));
            target_path(place, path, target);
            if (symlink(target, path)) /* the name exists already */
                continue;
        }
    if (directory)
        closedir(directory);
}

void tb_region_file_relink(const struct tb_config *config)
{
    if (config->region.directory[0])
        relink_in(NULL, config->region.directory);
    else
        tb_huge_places(relink_in, NULL);
}

/* Bytes of the mapping that are mapped by huge pages, as /proc/self/smaps says. */
static uint64_t huge_bytes(const void *base)
{
    char line[512];
    unsigned long long start = 0, end = 0, kib, bytes = 0;
    FILE *maps = fopen("/proc/self/smaps", "re");
    while (maps && fgets(line, sizeof(line), maps)) {
        sscanf(line, "%llx-%llx ", &start, &end);
        bool ours = start <= (uintptr_t)base && (uintptr_t)base < end;
        if (ours && (sscanf(line, "ShmemPmdMapped: %llu", &kib) == 1 || sscanf(line, "FilePmdMapped: %llu", &kib) == 1))
            bytes += kib << 10;
    }
    if (maps)
        fclose(maps);
    return bytes;
}

/* From what is mapped, not from what was asked for: a kernel gives huge pages if it can. Half of it counts as all. */
enum tb_huge_pages tb_region_file_pages(int fd, const char *directory, const void *base, uint64_t bytes)
{
    struct statfs fs;
    if (fstatfs(fd, &fs) == 0 && fs.f_type == HUGETLBFS_MAGIC)
        return TB_HUGE_HUGETLB;
    if (huge_bytes(base) < bytes / 2)
        return TB_HUGE_NONE;
    return directory[0] ? TB_HUGE_TMPFS : TB_HUGE_SHMEM;
}
