/*
 * Modification times of files with buffered bytes: shown by stat before the flush, given
 * to the backing file by it. The engine's time is kept as a positive number while the
 * backing file lacks it, and as a negative one once the backing file has it.
 */
#include "file/times.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000ll

static struct timespec of_ns(int64_t ns)
{
    return (struct timespec){ns / SECOND, ns % SECOND};
}

static int64_t to_ns(struct timespec t)
{
    return t.tv_sec * SECOND + t.tv_nsec;
}

/* The coarse clock, as file systems use. Stored only if it changed: other processes share the cache line. */
void tb_times_written(struct tb_file *f)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    if (f->written_ns != to_ns(now))
        f->written_ns = to_ns(now);
}

TB_UNLOCKED bool tb_times_are_old(const struct tb_file *f, const struct stat *st)
{
    return f->written_ns < 0 && to_ns(st->st_ctim) != f->backing_ctime_ns;
}

static TB_UNLOCKED void show_written(const struct tb_file *f, struct stat *st)
{
    int64_t written = f->written_ns;
    if (written > 0)
        st->st_mtim = st->st_ctim = of_ns(written);
    else if (written < 0 && to_ns(st->st_ctim) == f->backing_ctime_ns)
        st->st_ctim = of_ns(-written);
}

/* What the backing file has, and the buffers that it gets; of a file without holes that is at least its size. */
static TB_UNLOCKED blkcnt_t most_blocks(const tb_engine *e, const struct tb_file *f, const struct stat *st)
{
    const struct tb_layout *l = tb_layout_of(e);
    return st->st_blocks + (blkcnt_t)f->n_dirty * (blkcnt_t)(l->class_size[l->n_classes - 1] / 512);
}

void tb_times_show(const tb_engine *e, const struct tb_file *f, struct stat *st)
{
    blkcnt_t filled = (st->st_size + 4095) / 4096 * 8, most = most_blocks(e, f, st);
    show_written(f, st);
    if (f->n_dirty && st->st_blocks < filled)
        st->st_blocks = filled < most ? filled : most;
}

/* A file of another user keeps the time of the flush: only the owner may set times. */
int64_t tb_times_give(const struct tb_file *f, int fd)
{
    int64_t written = f->written_ns;
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, of_ns(written)};
    return written > 0 && syscall(SYS_utimensat, fd, NULL, times, 0) == 0 ? written : 0;
}

/* If a write came in between, the exchange fails, and its time is still to be given. */
void tb_times_given(struct tb_file *f, int64_t written)
{
    if (written)
        atomic_compare_exchange_strong(&f->written_ns, &written, -written);
}
