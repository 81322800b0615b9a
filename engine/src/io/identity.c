/*
 * The identity of a file: device, inode, birth time and what kind of file it is, asked by
 * descriptor or by path. The birth time tells a file from a later one with the same inode
 * number.
 */
#include "io/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define WANTED (STATX_BASIC_STATS | STATX_BTIME)

static struct {
    uint64_t now, as_recorded;
} called;

void tb_identity_call_device(uint64_t now, uint64_t as_recorded)
{
    called.now = now;
    called.as_recorded = as_recorded;
}

static uint64_t device_of(const struct statx *x)
{
    uint64_t device = makedev(x->stx_dev_major, x->stx_dev_minor);
    return device == called.now ? called.as_recorded : device;
}

/* Without a birth time (0) a file is told from a later one of the same inode number by nothing. */
static void fill(const struct statx *x, struct tb_identity *out)
{
    *out = (struct tb_identity){
        .device = device_of(x),
        .inode = x->stx_ino,
        .size = x->stx_size,
        .birth_ns = x->stx_mask & STATX_BTIME ? x->stx_btime.tv_sec * 1000000000ll + x->stx_btime.tv_nsec : 0,
        .mtime_ns = x->stx_mtime.tv_sec * 1000000000ll + x->stx_mtime.tv_nsec,
        .ctime_ns = x->stx_ctime.tv_sec * 1000000000ll + x->stx_ctime.tv_nsec,
        .links = x->stx_nlink,
        .regular = S_ISREG(x->stx_mode),
        .link = S_ISLNK(x->stx_mode),
        .read_only = !(x->stx_mode & S_IWUSR),
    };
}

/*
 * Of a descriptor the kernel answers by itself, so this is no operation of the chain. Past
 * an adapter's statx, which would answer for its own descriptors.
 */
int tb_identity_of_fd(int fd, struct tb_identity *out)
{
    static const char *_Atomic name; /* none; kernels before 6.11 want an empty one, which is copied and looked at each time */
    struct statx x;
    while (syscall(SYS_statx, fd, atomic_load_explicit(&name, memory_order_relaxed), AT_EMPTY_PATH, WANTED, &x)) {
        if (errno != EFAULT || name)
            return -errno;
        name = "";
    }
    fill(&x, out);
    return 0;
}

static int identify(struct tb_io *io, const char *path, int flags, struct tb_identity *out)
{
    struct statx x;
    int rc = TB_IO(io, statx, path, flags, WANTED, &x);
    if (!rc)
        fill(&x, out);
    return rc;
}

int tb_identity_of_path(struct tb_io *io, const char *path, struct tb_identity *out)
{
    return identify(io, path, 0, out);
}

int tb_identity_of_name(struct tb_io *io, const char *path, struct tb_identity *out)
{
    return identify(io, path, AT_SYMLINK_NOFOLLOW, out);
}
