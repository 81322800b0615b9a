/*
 * Buffers of a client that an I/O node on the same compute node sees, too: it writes from them and reads into them, and the
 * request and its answer travel alone. The memory is a file without a name, which the other process finds as a descriptor
 * of the client. If that is not there, or another file than it was told, the processes do not see each other's memory (containers,
 * another user), and bytes go in messages. What one stores before it sends a message the other sees after it has come.
 */
#include "message.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

size_t tb_room_size(size_t largest)
{
    return TB_PAGE + (largest + TB_PAGE - 1) / TB_PAGE * TB_PAGE;
}

static void *map_all(int fd, size_t size)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return at == MAP_FAILED ? NULL : at;
}

void *tb_memory_new(size_t size, struct tb_seen *seen)
{
    struct stat st;
    int fd = memfd_create("tb-forge", MFD_CLOEXEC);
    void *at = fd >= 0 && !ftruncate(fd, (off_t)size) && !fstat(fd, &st) ? map_all(fd, size) : NULL;
    if (at)
        *seen = (struct tb_seen){getpid(), fd, st.st_dev, st.st_ino, size};
    else if (fd >= 0)
        close(fd);
    return at;
}

void *tb_memory_of(const struct tb_seen *seen)
{
    char name[64];
    struct stat st;
    snprintf(name, sizeof(name), "/proc/%lld/fd/%lld", (long long)seen->process, (long long)seen->descriptor);
    bool same =
        seen->size && !stat(name, &st) && st.st_dev == seen->device && st.st_ino == seen->inode && (uint64_t)st.st_size == seen->size;
    int fd = same ? open(name, O_RDWR | O_CLOEXEC) : -1;
    void *at = fd >= 0 ? map_all(fd, seen->size) : NULL;
    if (fd >= 0)
        close(fd);
    return at;
}

void tb_memory_free(void *at, const struct tb_seen *seen)
{
    munmap(at, seen->size);
    close((int)seen->descriptor);
}
