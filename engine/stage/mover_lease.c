/*
 * The lease is an OFD lock: it belongs to the open file, so no other close of this process
 * drops it, and a process that was killed has given it back. Its file is removed by the
 * mover that ends in order; one that is left is taken by the next mover.
 */
#include "stage/mover_lease.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <xxhash.h>

#define IOPRIO_WHO_PROCESS 1
#define IOPRIO_LOW (2 << 13 | 7) /* best effort, its last level */
#define IOPRIO_IDLE (3 << 13)

/* A hash of the folder, since its path would not fit into a name. */
static int path_of(char *out, const char *folder, const char *host, const char *from)
{
    unsigned long long of = XXH3_64bits_withSeed(from, strlen(from), XXH3_64bits(host, strlen(host)));
    int n = snprintf(out, PATH_MAX, "%s/.tierbench-mover-%s-%016llx", folder, host, of);
    return n < PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* A file that was removed between its open and its lock is no lease: another mover may have made the next one. */
int tb_mover_lease_take(struct tb_mover_lease *l, const char *folder, const char *host, const char *from)
{
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct stat st;
    int rc = path_of(l->path, folder, host, from);
    if (rc)
        return rc;
    for (;;) {
        l->fd = open(l->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (l->fd < 0)
            return -errno;
        if (fcntl(l->fd, F_OFD_SETLK, &all)) {
            rc = errno == EAGAIN || errno == EACCES ? -EBUSY : -errno;
            close(l->fd);
            return rc;
        }
        if (fstat(l->fd, &st) == 0 && st.st_nlink)
            return 0;
        close(l->fd);
    }
}

void tb_mover_lease_give_back(struct tb_mover_lease *l)
{
    unlink(l->path);
    close(l->fd);
}

/* Asks the kernel without taking the lock: taking it could make a mover that begins at this moment fail. */
bool tb_mover_lease_is_held(const char *folder, const char *host, const char *from)
{
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char path[PATH_MAX];
    int fd = path_of(path, folder, host, from) ? -1 : open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    bool held = fd >= 0 && fcntl(fd, F_OFD_GETLK, &all) == 0 && all.l_type != F_UNLCK;
    if (fd >= 0)
        close(fd);
    return held;
}

/* A priority that the system refuses is no reason not to move files: processors that are not there are. */
int tb_be_polite(const struct tb_config_stage *s)
{
    uint64_t set[16];
    cpu_set_t cpus;
    if (s->priority != TB_STAGE_NORMAL) {
        setpriority(PRIO_PROCESS, 0, 19);
        syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, s->priority == TB_STAGE_IDLE ? IOPRIO_IDLE : IOPRIO_LOW);
    }
    if (!s->processors[0])
        return 0;
    if (tb_stage_processors(s->processors, set))
        return -EINVAL;
    CPU_ZERO(&cpus);
    for (int i = 0; i < 1024; i++)
        if (set[i / 64] & 1ull << (i % 64))
            CPU_SET(i, &cpus);
    return sched_setaffinity(0, sizeof(cpus), &cpus) ? -errno : 0;
}
