/*
 * The region: created and touched by the daemon, mapped by every process, checked before
 * anything in it is believed (region/region.h).
 */
#include "base/clock.h"
#include "region/region.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/huge_place.h"
#include "base/private_files.h"
#include "base/report.h"
#include "region/lease.h"
#include "region/sample.h"

#define TOUCH_PIECE (16u << 20)
#define TOUCH_THREADS 15
#define HUGE_PAGE (2u << 20) /* where it is larger (aarch64 with pages of 64 KiB), the kernel refuses these, and pages stay small */
#define REFUSALS_MOST 4u     /* then there are hardly any to be had, and each further try would cost a search for one */
#define SWEPT_LOOKS 500      /* half a second: it is held for a moment */
#define SWEPT_LOOK_NS 1000000
#define SWEPT_MOST 8
#define SLOW_NS 50000000 /* ten times what it takes to clear one in the slowest memory that was met: it was searched for */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

/* Where the sections are in this process's mapping. */
static void locate(struct tb_region *r, const struct tb_layout *l)
{
    const struct tb_layout_section *s = l->section;
    r->header = (struct tb_header *)(r->base + s[TB_SECTION_HEADER].offset);
    assert(s[TB_SECTION_HEADER].offset == 0 && l->total_bytes <= r->bytes); /* verified, or made here */
    r->locks = (struct tb_locks *)(r->base + s[TB_SECTION_LOCKS].offset);
    r->slabs = (struct tb_slab *)(r->base + s[TB_SECTION_SLABS].offset);
    r->buckets = (uint32_t *)(r->base + s[TB_SECTION_BUCKETS].offset);
    r->buffers = (struct tb_buffer *)(r->base + s[TB_SECTION_BUFFERS].offset);
    r->fragments = (struct tb_interval *)(r->base + s[TB_SECTION_FRAGMENTS].offset);
    r->files = (struct tb_file *)(r->base + s[TB_SECTION_FILES].offset);
    r->n_file_buckets = (uint32_t)s[TB_SECTION_FILES].count;
    r->file_buckets = (uint32_t *)(r->files + s[TB_SECTION_FILES].count);
    r->names = (struct tb_name *)(r->base + s[TB_SECTION_DIRS].offset);
    r->n_names = (uint32_t)s[TB_SECTION_DIRS].count;
    r->name_buckets = (uint32_t *)(r->names + s[TB_SECTION_DIRS].count);
    r->opens = (struct tb_open *)(r->base + s[TB_SECTION_OPENS].offset);
    r->n_opens = (uint32_t)s[TB_SECTION_OPENS].count;
    r->holders = (_Atomic uint64_t *)(r->opens + s[TB_SECTION_OPENS].count);
    r->n_clients = (uint32_t)s[TB_SECTION_CLIENTS].count;
    r->n_holders = r->n_clients / TB_CLIENTS_WORD;
    r->clients = (struct tb_client *)(r->base + s[TB_SECTION_CLIENTS].offset);
    r->ghosts = (struct tb_ghost *)(r->base + s[TB_SECTION_GHOSTS].offset);
    r->n_ghosts = (uint32_t)s[TB_SECTION_GHOSTS].count;
    r->units = (struct tb_unit_range *)(r->base + s[TB_SECTION_UNITS].offset);
    r->samples = (struct tb_sample *)(r->base + s[TB_SECTION_SAMPLES].offset);
    r->file_nodes = s[TB_SECTION_NODES].count ? (struct tb_file_nodes *)(r->base + s[TB_SECTION_NODES].offset) : NULL;
    r->recent = (struct tb_recent *)(r->base + s[TB_SECTION_RECENT].offset);
    r->n_recent = (uint32_t)s[TB_SECTION_RECENT].count;
    r->requests = r->base + s[TB_SECTION_REQUESTS].offset;
    r->n_requests = (uint32_t)s[TB_SECTION_REQUESTS].count;
    r->request_bytes = s[TB_SECTION_REQUESTS].each;
}

struct touching {
    int fd;
    char *base;
    uint64_t bytes;
    bool wants_huge;
    _Atomic uint64_t next, done;
    _Atomic uint32_t n_refused; /* huge pages */
    _Atomic int error;
};

/* A plain store could be a SIGBUS. */
static bool make_one_huge(char *at)
{
    uint64_t start = tb_now_ns();
    return madvise(at, TB_BLOCK_MIN, MADV_POPULATE_WRITE) == 0 && madvise(at, HUGE_PAGE, MADV_COLLAPSE) == 0 &&
           tb_now_ns() - start < SLOW_NS;
}

/*
 * One page of each is touched, and then the kernel is asked to make the whole a huge page (Linux 6.1 and later): it clears it once,
 * and needs neither a privilege nor a mount with `huge=`. What is refused is touched page by page.
 */
static void make_huge(struct touching *t, uint64_t at, uint64_t n)
{
    for (uint64_t end = at + n; t->n_refused < REFUSALS_MOST && at + HUGE_PAGE <= end; at += HUGE_PAGE)
        t->n_refused += !make_one_huge(t->base + at);
}

/*
 * EFAULT means that the file system is full: a plain store would be a SIGBUS. Kernels before
 * 5.14 know no such call. There the file system reserves the piece, so that stores can't fail.
 */
static int touch_piece(struct touching *t, uint64_t at, uint64_t n)
{
    if (t->wants_huge)
        make_huge(t, at, n);
    if (madvise(t->base + at, n, MADV_POPULATE_WRITE) == 0)
        return 0;
    if (errno != EINVAL)
        return errno == EFAULT ? -ENOSPC : -errno;
    int rc = -posix_fallocate(t->fd, (off_t)at, (off_t)n);
    for (uint64_t i = 0; i < n && !rc; i += TB_BLOCK_MIN)
        *(volatile char *)(t->base + at + i) = 0;
    return rc;
}

/* Touch piece after piece until none is left; `progress` may be NULL. The first error of any thread ends all of them. */
static void touch_pieces(struct touching *t, tb_progress *progress, void *arg)
{
    for (uint64_t at; !t->error && (at = atomic_fetch_add(&t->next, TOUCH_PIECE)) < t->bytes;) {
        uint64_t n = t->bytes - at < TOUCH_PIECE ? t->bytes - at : TOUCH_PIECE;
        int rc = touch_piece(t, at, n);
        if (rc)
            t->error = rc;
        t->done += n;
        if (progress)
            progress(arg, "touching the region", t->done, t->bytes);
    }
}

static void *touch_beside(void *arg)
{
    touch_pieces(arg, NULL, NULL);
    return NULL;
}

/*
 * The first touch of a page costs up to 50 times a later one, so the daemon's threads pay it
 * before any program writes. They touch through the mapping: fallocate alone leaves pages to be
 * cleared at their first fault, and then the kernel maps none of their neighbours around
 * (buffer/medium.c).
 */
static int touch(struct touching t, tb_progress *progress, void *arg)
{
    pthread_t helper[TOUCH_THREADS];
    long n = 0, most = sysconf(_SC_NPROCESSORS_ONLN) - 1;
    while (n < most && n < TOUCH_THREADS && (uint64_t)n < t.bytes / TOUCH_PIECE && !pthread_create(&helper[n], NULL, touch_beside, &t))
        n++;
    touch_pieces(&t, progress, arg);
    while (n > 0)
        pthread_join(helper[--n], NULL);
    return t.error;
}

/*
 * Two processes that open a file one after the other write into their descriptions with each call that moves an offset. So these are
 * no neighbours in one cache line: each third is in the list first, then those after them.
 */
static uint32_t next_open(uint32_t i, uint32_t n)
{
    const uint32_t apart = TB_CACHE_LINE_BYTES / sizeof(struct tb_open) + 2;
    if (i + apart < n)
        return i + apart;
    return i % apart + 1 < apart && i % apart + 1 < n ? i % apart + 1 : TB_NONE;
}

/*
 * Before the magic is written, so no other process sees the lists half made. All records are
 * in the lists in order: the first ones are used first, and pages that are not needed are not
 * touched again.
 */
static void init_free_lists(struct tb_region *r)
{
    struct tb_header *h = r->header;
    for (uint32_t i = 0; i < r->n_file_buckets; i++) {
        r->files[i].next = i + 1 < r->n_file_buckets ? i + 1 : TB_NONE;
        r->file_buckets[i] = TB_NONE;
    }
    for (uint32_t i = 0; i < r->n_names; i++) {
        r->names[i].next = i + 1 < r->n_names ? i + 1 : TB_NONE;
        r->name_buckets[i] = TB_NONE;
    }
    for (uint32_t i = 0; i < r->n_opens; i++)
        r->opens[i].next_free = next_open(i, r->n_opens);
    uint64_t per_fragment = h->layout.fragment_bytes / sizeof(struct tb_interval);
    for (uint32_t i = 0; i < h->layout.n_fragments; i++)
        memcpy(&r->fragments[i * per_fragment], &(uint32_t){i + 1 < h->layout.n_fragments ? i + 1 : TB_NONE}, 4);
    h->fragments.free = h->layout.n_fragments ? 0 : TB_NONE;
    h->opens.free = 0;
    h->files.free = h->names.free = 0;
    h->names.moving = TB_NONE;
    h->queue.head = h->queue.tail = TB_NONE;
}

/* In front of the list. */
static void put_free(struct tb_region *r, struct tb_lane *lane, uint32_t slab, uint32_t buffer)
{
    r->buffers[buffer] =
        (struct tb_buffer){.next = lane->free, .file = TB_NONE, .fragment = TB_NONE, .prev = TB_NONE, .slab = (uint16_t)slab};
    lane->free = buffer;
    lane->n_free++;
}

/* A slab without buffers (a share of 0) has empty lists, and so have the last lanes of one with few. Buckets are all TB_NONE, which is all bits. */
static void init_slabs(struct tb_region *r)
{
    const struct tb_layout *l = &r->header->layout;
    memset(r->buckets, 0xff, l->n_buckets * sizeof(uint32_t));
    for (uint32_t s = 0; s < l->n_slabs; s++) {
        struct tb_lane *lane = r->slabs[s].lane;
        for (uint32_t i = 0; i < TB_LANES; i++) {
            tb_lock_init(&lane[i].lock);
            lane[i].free = TB_NONE;
        }
        for (uint32_t i = l->slab[s].n_buffers; i-- > 0;)
            put_free(r, &lane[i / TB_LANE_RUN % TB_LANES], s, l->slab[s].first_buffer + i);
    }
}

/* All locks are robust and shared between processes. A lock of the header that is missing in this list would be no lock. */
static void init_locks(struct tb_region *r)
{
    struct tb_header *h = r->header;
    for (uint32_t i = 0; i < TB_STRIPES; i++) {
        tb_lock_init(&r->locks->chunk[i].lock);
        tb_lock_init(&r->locks->file[i].lock);
        tb_lock_init(&r->locks->end[i].lock);
        tb_lock_init(&r->locks->offset[i].lock);
    }
    for (uint32_t i = 0; i < TB_NAME_STRIPES; i++)
        tb_lock_init(&r->locks->name[i].lock);
    for (uint32_t i = 0; i < r->n_recent; i++) {
        tb_lock_init(&r->recent[i].lock);
    }
    struct tb_lock *single[] = {&h->daemon.lock,
                                &h->queue.lock,
                                &h->names.lock,
                                &h->fragments.lock,
                                &h->files.lock,
                                &h->registry.lock,
                                &h->journal.slab_commit.lock,
                                &h->journal.commit.lock,
                                &h->journal.lock,
                                &h->sampling.lock,
                                &h->shadows.lock};
    for (size_t i = 0; i < sizeof(single) / sizeof(single[0]); i++)
        tb_lock_init(single[i]);
}

/* 0: it cannot be looked at now, which says nothing of its content. */
static int64_t mtime_ns(const char *path)
{
    struct stat st;
    return stat(path, &st) ? 0 : st.st_mtim.tv_sec * 1000000000ll + st.st_mtim.tv_nsec;
}

bool tb_region_config_changed(const struct tb_header *h)
{
    int64_t now = mtime_ns(h->config.file);
    return now && now != h->config_mtime_ns;
}

/*
 * The magic stays 0 until the caller has made everything. Memory of a new file is zeros, and
 * so are all counters and claims.
 */
static void init_header(struct tb_region *r, const struct tb_config *config, const struct tb_layout *layout, const char *instance)
{
    struct tb_header *h = r->header;
    h->version = TB_REGION_VERSION;
    h->uid = getuid();
    h->bytes = r->bytes;
    h->digest = tb_config_digest(config);
    h->config_mtime_ns = mtime_ns(config->file);
    snprintf(h->name, sizeof(h->name), "%s", instance);
    h->pid_namespace = tb_pid_namespace();
    gethostname(h->host, sizeof(h->host) - 1);
    h->started_ns = tb_now_ns();
    h->config = *config;
    h->layout = *layout;
    h->chunk = tb_size_of(tb_layout_chunk(layout));
    h->sampling.interval = 0.02;
}

/* Of at least so many bytes, where no other mapping is: an address at which a huge page of a file can be mapped. NULL: there is none. */
static void *place_for_huge(size_t bytes)
{
    size_t all = bytes + HUGE_PAGE;
    char *free_range = mmap(NULL, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (free_range == MAP_FAILED)
        return NULL;
    size_t before = -(uintptr_t)free_range % HUGE_PAGE, page = (size_t)sysconf(_SC_PAGESIZE), used = (bytes + page - 1) / page * page;
    if (before)
        munmap(free_range, before);
    munmap(free_range + before + used, all - before - used);
    return free_range + before;
}

/*
 * The same bytes are at different addresses in each process, so the region holds indices,
 * never pointers. The memory stays when the file's name goes, until the last process unmaps.
 * The kernel chooses well for a hugetlbfs; elsewhere it may choose an address that fits small pages only.
 */
static int map(int fd, size_t bytes, struct tb_region *r)
{
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), *better;
    if (base == MAP_FAILED)
        return -errno;
    if ((uintptr_t)base % HUGE_PAGE && bytes >= HUGE_PAGE && (better = place_for_huge(bytes))) {
        munmap(base, bytes);
        base = mmap(better, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
    }
    if (base == MAP_FAILED)
        return -errno;
    madvise(base, bytes, MADV_HUGEPAGE); /* a wish: docs/huge-pages.md tells when it is granted */
    r->base = base;
    r->bytes = bytes;
    return 0;
}

/* Another process that holds it takes it for the remains of a dead maker, and is about to remove it. */
static int share_soon(int fd)
{
    int rc = tb_lease_share(fd);
    for (int look = 0; rc == -EBUSY && look < SWEPT_LOOKS; look++) {
        nanosleep(&(struct timespec){0, SWEPT_LOOK_NS}, NULL);
        rc = tb_lease_share(fd);
    }
    return rc;
}

/* Locked from here on: a region that is half made must not be taken for the remains of a dead maker. One that was is made again. */
static int make_file(const char *directory, const char *instance, uint64_t *bytes)
{
    int fd = tb_region_file_create(directory, instance), rc = fd < 0 ? fd : share_soon(fd);
    for (int again = 0; !rc && !tb_file_is_linked(fd) && again < SWEPT_MOST; again++) {
        close(fd);
        fd = tb_region_file_create(directory, instance);
        rc = fd < 0 ? fd : share_soon(fd);
    }
    if (!rc && !tb_file_is_linked(fd))
        rc = -EBUSY;
    *bytes = rc ? 0 : tb_huge_round(fd, *bytes);
    if (!rc && ftruncate(fd, (off_t)*bytes))
        rc = -errno;
    if (rc && fd >= 0)
        close(fd);
    if (rc && fd >= 0 && rc != -EBUSY) /* -EBUSY: another process took it over, and will remove it or make it again */
        tb_region_file_remove(instance);
    return rc ? rc : fd;
}

/* A file, mapped and touched. If a step fails, all of it is removed again. */
static int make_memory(const char *directory, const char *instance, uint64_t bytes, bool wants_huge, tb_progress *progress, void *arg,
                       struct tb_region *out)
{
    int fd = make_file(directory, instance, &bytes);
    if (fd < 0)
        return fd;
    int rc = map(fd, bytes, out);
    if (!rc)
        rc = touch((struct touching){.fd = fd, .base = out->base, .bytes = bytes, .wants_huge = wants_huge}, progress, arg);
    if (!rc)
        return fd;
    tb_region_unmap(out);
    tb_region_file_remove(instance);
    close(fd);
    return rc;
}

/*
 * Where a place with huge pages was found and not named, another process may have used its room meanwhile, or a limit of
 * this job may forbid its pages: then the region is made in /dev/shm. If killed, the next start sweeps the file, because it is not
 * locked.
 */
int tb_region_create(const struct tb_config *config, const struct tb_layout *layout, const char *instance, tb_progress *progress, void *arg,
                     struct tb_region *out)
{
    char place[TB_HUGE_PLACE_MAX];
    const char *directory = config->region.directory;
    bool wanted = config->region.huge_pages == TB_HUGE_AUTO, found = wanted && !directory[0] && tb_huge_place(layout->total_bytes, place);
    int fd = make_memory(found ? place : directory, instance, layout->total_bytes, wanted, progress, arg, out);
    if (fd < 0 && found && fd != -EEXIST && fd != -EBUSY) {
        found = false;
        fd = make_memory(directory, instance, layout->total_bytes, wanted, progress, arg, out);
    }
    if (fd < 0)
        return fd;
    assert(out->bytes >= layout->total_bytes);
    locate(out, layout);
    init_header(out, config, layout, instance);
    out->header->huge_pages = tb_region_file_pages(fd, found ? place : directory, out->base, out->bytes);
    init_locks(out);
    init_slabs(out);
    init_free_lists(out);
    return fd; /* the caller writes the magic when the tiers are made */
}

/*
 * The layout follows from the configuration alone: a header that says otherwise is damaged.
 * The digest comes first: what it covers has the values that a reader of configurations
 * checked, so the layout can be computed from it.
 */
static bool is_of_configuration(const struct tb_header *h)
{
    struct tb_layout layout;
    struct tb_error err;
    return tb_config_digest(&h->config) == h->digest && tb_layout_compute(&h->config, &layout, &err) == 0 &&
           memcmp(&layout, &h->layout, sizeof(layout)) == 0 && memchr(h->name, 0, sizeof(h->name)) && memchr(h->host, 0, sizeof(h->host)) &&
           h->chunk.bytes == tb_layout_chunk(&layout) && memchr(h->config.file, 0, sizeof(h->config.file));
}

/* A region of another user, of another version, or half made is refused before anything in it is believed. */
static int verify(const struct tb_header *h, const struct stat *st)
{
    if (st->st_uid != getuid())
        return -EPERM;
    if (h->magic != TB_REGION_MAGIC)
        return -ESTALE;
    if (h->version != TB_REGION_VERSION || h->uid != getuid())
        return -EPROTO;
    if (h->bytes != (uint64_t)st->st_size || h->layout.total_bytes > h->bytes)
        return -ESTALE;
    return is_of_configuration(h) ? 0 : -ESTALE;
}

/*
 * The file must hold a whole header before anything in it is read: past its end a load is a
 * SIGBUS. All that is wrong is an error of the call, never an assert: the file is another's.
 */
int tb_region_attach(const char *instance, struct tb_region *out, int *file)
{
    struct stat st;
    int fd = tb_region_file_open(instance);
    if (fd < 0)
        return fd;
    int rc = fstat(fd, &st) ? -errno : 0;
    if (!rc && (size_t)st.st_size < sizeof(struct tb_header))
        rc = -ESTALE;
    if (!rc)
        rc = map(fd, (size_t)st.st_size, out);
    if (!rc)
        rc = verify((struct tb_header *)out->base, &st);
    if (rc || !file)
        close(fd);
    if (rc) {
        tb_region_unmap(out);
        return rc;
    }
    locate(out, &((struct tb_header *)out->base)->layout);
    if (file)
        *file = fd;
    return 0;
}

/* May be called for a region that was never mapped. */
void tb_region_unmap(struct tb_region *region)
{
    if (region->base)
        munmap(region->base, region->bytes);
    memset(region, 0, sizeof(*region));
}
