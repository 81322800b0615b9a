/*
 * Transfers by memory copies into a mapping of the whole file. The file is made as large as all ranks' data before it is mapped,
 * as IOR does, because a page past its end cannot be written.
 */
#include "tb_ior.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char *no_version(void)
{
    return "";
}

/* Before the first transfer; what the kernel makes of it is its own matter. */
static void advise(struct tb_file *f)
{
    const struct tb_options *o = f->options;
    if (o->advise_pattern)
        madvise(f->map, f->map_bytes, o->random_offset ? MADV_RANDOM : MADV_SEQUENTIAL);
    if (o->advise_drop)
        madvise(f->map, f->map_bytes, MADV_DONTNEED);
}

/* A page that finds no space on the file system is a signal, not an error of a call. The launcher ends the other ranks. */
static const char *mapped_path;

/* From a signal handler: no stdio. */
static void say(const char *text)
{
    ssize_t written = write(STDERR_FILENO, text, strlen(text));
    (void)written;
}

/* Only what a signal handler may call. The run ends, because the page can never be written. */
static void on_bus_error(int signal)
{
    (void)signal;
    say(TB_PROGRAM ": ");
    say(mapped_path);
    say(": mmap: no space left for a page, or the file was cut\n");
    _exit(TB_EXIT_IO);
}

/* A page past the end would be a signal in the middle of a pass. */
static void check_size(struct tb_file *f)
{
    int64_t size = lseek(f->posix.fd, 0, SEEK_END);
    if (size < (int64_t)f->map_bytes)
        tb_fail(f->path, "mmap", size, "the file ends here, before what is to be read");
}

/* The file is made long enough first: pages past the end cannot be written. */
static void mmap_open(struct tb_file *f, bool create, bool shared)
{
    (void)shared;
    f->map_bytes = (size_t)tb_aggregate(f->options, f->world);
    f->posix.fd = open(f->path, create ? O_RDWR | O_CREAT : O_RDONLY, 0664);
    if (f->posix.fd < 0)
        tb_fail(f->path, "open", -1, strerror(errno));
    if (!create)
        check_size(f);
    else if (ftruncate(f->posix.fd, (off_t)f->map_bytes))
        tb_fail(f->path, "ftruncate", -1, strerror(errno));
    f->map = mmap(NULL, f->map_bytes, create ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, f->posix.fd, 0);
    if (f->map == MAP_FAILED)
        tb_fail(f->path, "mmap", -1, strerror(errno));
    advise(f);
    mapped_path = f->path;
    signal(SIGBUS, on_bus_error);
}

/* MS_SYNC: the call returns when the bytes are on the file system. */
static void sync_range(struct tb_file *f, char *start, size_t bytes)
{
    if (msync(start, bytes, MS_SYNC))
        tb_fail(f->path, "msync", -1, strerror(errno));
}

/* With -Y every transfer is synced, reads too, and a write then the whole map, as in IOR. */
static void sync_one(struct tb_file *f, size_t bytes, int64_t offset)
{
    if (f->options->fsync_per_write)
        sync_range(f, f->map + offset, bytes);
}

/* Pages reach the file system when the kernel writes them; with -e the sync before the close waits for that. */
static void mmap_write(struct tb_file *f, const void *data, size_t bytes, int64_t offset)
{
    memcpy(f->map + offset, data, bytes);
    sync_one(f, bytes, offset);
}

/* A page that is not in memory is read by the copy itself, so the time is in it. */
static void mmap_read(struct tb_file *f, void *data, size_t bytes, int64_t offset)
{
    memcpy(data, f->map + offset, bytes);
    sync_one(f, bytes, offset);
}

/* All of the mapping, also pages of earlier transfers. */
static void mmap_sync(struct tb_file *f)
{
    sync_range(f, f->map, f->map_bytes);
}

/* The time of the close includes the unmapping. */
static void mmap_close(struct tb_file *f)
{
    if (munmap(f->map, f->map_bytes) || close(f->posix.fd))
        tb_fail(f->path, "close", -1, strerror(errno));
}

const struct tb_backend tb_mmap = {"MMAP", no_version, false, mmap_open, mmap_write, mmap_read, mmap_sync, mmap_sync, mmap_close, false};
