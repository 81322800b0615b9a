/*
 * The memory of a region: touched when it is made, also where the kernel does not know the call for that, and where it refuses huge
 * pages; refused where the file system is full; mapped by windows in a process that attaches.
 */
#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "base/huge_place.h"
#include "buffer/medium.h"

#define SKIPPED 77 /* of CMakeLists.txt */
#define PRESENT (1ull << 63)
#define PAGE 4096u

int __real_madvise(void *at, size_t n, int advice);
int __wrap_madvise(void *at, size_t n, int advice);

#define POPULATE_WRITE 23 /* as the headers of newer kernels name them */
#define COLLAPSE 25

static bool is_old_kernel, refuses_huge;
static _Atomic uint32_t n_asked; /* for huge pages */

/* What a kernel before 5.14 says to MADV_POPULATE_WRITE, and one before 6.1 to MADV_COLLAPSE. */
int __wrap_madvise(void *at, size_t n, int advice)
{
    n_asked += advice == COLLAPSE;
    if (!(is_old_kernel && advice == POPULATE_WRITE) && !(refuses_huge && advice == COLLAPSE))
        return __real_madvise(at, n, advice);
    errno = EINVAL;
    return -1;
}

/* How many pages of [from, from + n) this process has mapped. */
static size_t n_present(const char *from, size_t n)
{
    size_t present = 0;
    int fd = open("/proc/self/pagemap", O_RDONLY);
    assert_true(fd >= 0);
    for (size_t i = 0; i < n; i += PAGE) {
        uint64_t entry;
        assert_int_equal(pread(fd, &entry, sizeof(entry), (off_t)(((uintptr_t)from + i) / PAGE * sizeof(entry))), sizeof(entry));
        present += (entry & PRESENT) != 0;
    }
    close(fd);
    return present;
}

static void write_page(struct tb_io *io, const char *path, off_t at)
{
    char bytes[PAGE] = "page";
    int fd = TB_IO(io, open, path, O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(TB_IO(io, pwrite, fd, bytes, sizeof(bytes), at), sizeof(bytes));
    assert_int_equal(TB_IO(io, close, fd), 0);
}

/* The first buffer in memory that holds bytes of a file, as a handle sees it. */
static const char *first_live(tb_engine *e)
{
    uint32_t i = 0;
    while (e->region.buffers[i].state != TB_BUFFER_LIVE)
        assert_true(++i < e->header->layout.n_buffers);
    assert_true(tb_tier_is_memory(e, tb_slab_layout(e, &e->region.buffers[i])->tier));
    return e->region.base + tb_medium_offset(e, &e->region.buffers[i], 0);
}

static void all_of_it_is_touched(void **state)
{
    struct fixture x;
    is_old_kernel = *state != NULL;
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    fixture_start(&x);
    assert_int_equal(n_present(x.engine->region.base, x.engine->region.bytes), x.engine->region.bytes / PAGE);
    is_old_kernel = false;
    fixture_stop(&x);
}

/* It is not asked for each of them again: a search for free memory can take long. */
static void refused_huge_pages_are_touched_page_by_page(void **state)
{
    struct fixture x;
    struct tb_instance_info info;
    char place[TB_HUGE_PLACE_MAX];
    (void)state;
    if (tb_huge_place(1, place))
        skip(); /* the region would be there */
    refuses_huge = true;
    n_asked = 0;
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    x.config.tiers[0].capacity = 32u << 20;
    fixture_start(&x);
    assert_int_equal(n_present(x.engine->region.base, x.engine->region.bytes), x.engine->region.bytes / PAGE);
    tb_instance_info(x.engine, &info);
    assert_int_equal(info.huge_pages, TB_HUGE_NONE);
    assert_in_range(n_asked, 4, 5); /* of 16; two threads touch */
    refuses_huge = false;
    fixture_stop(&x);
}

/* One page is written, and the whole window around it is mapped. */
static void one_fault_maps_a_window(tb_engine *e, struct tb_io *io, const char *path)
{
    write_page(io, path, 0);
    const char *at = first_live(e);
    const char *window = (const char *)((uintptr_t)at / TB_WINDOW * TB_WINDOW);
    const char *start = window < e->region.base ? e->region.base : window;
    assert_int_equal(n_present(start, (size_t)(window + TB_WINDOW - start)), (size_t)(window + TB_WINDOW - start) / PAGE);
}

static void a_fresh_handle_maps_windows(void **state)
{
    struct fixture x;
    tb_engine *fresh;
    (void)state;
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    x.config.region.huge_pages = TB_HUGE_NEVER;
    fixture_start(&x);
    assert_int_equal(tb_engine_attach(x.name, tb_io_libc(), &fresh), 0);
    assert_true(n_present(fresh->region.base, fresh->region.bytes) < fresh->region.bytes / PAGE / 2);
    one_fault_maps_a_window(fresh, tb_engine_route(fresh, x.pfs, NULL), fixture_path(&x, "f"));
    tb_engine_detach(fresh);
    fixture_stop(&x);
}

/* A child starts with no page of the region mapped, whatever its parent had. */
static void a_child_maps_windows_again(void **state)
{
    struct fixture x;
    int status;
    (void)state;
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    x.config.region.huge_pages = TB_HUGE_NEVER;
    fixture_start(&x);
    write_page(x.io, fixture_path(&x, "f"), 0);
    tb_engine_atfork_prepare(x.engine);
    pid_t child = fork();
    if (child == 0) {
        tb_engine_atfork_child(x.engine);
        one_fault_maps_a_window(x.engine, x.io, fixture_path(&x, "f"));
        _exit(0);
    }
    tb_engine_atfork_parent(x.engine);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    fixture_stop(&x);
}

/* Neither a signal nor a remainder: the memory's file system has half of what the region needs. */
static void a_full_file_system_is_an_error(void **state)
{
    struct fixture x;
    struct tb_error err = {""};
    struct stat st;
    char place[300], link_path[TB_REGION_PATH_MAX];
    is_old_kernel = *state != NULL;
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    snprintf(place, sizeof(place), "%s/memory", x.root);
    assert_int_equal(mkdir(place, 0700), 0);
    assert_int_equal(mount("none", place, "tmpfs", 0, "size=2m"), 0);
    snprintf(x.config.region.directory, sizeof(x.config.region.directory), "%s", place);
    x.config.region.page = PAGE;
    assert_int_equal(tb_instance_create(&x.config, x.name, tb_io_libc(), NULL, NULL, &x.engine, &err), -ENOSPC);
    is_old_kernel = false;
    tb_region_path(x.name, link_path, sizeof(link_path));
    assert_int_equal(lstat(link_path, &st), -1);
    assert_int_equal(rmdir(place), -1); /* it is a mount */
    assert_int_equal(umount(place), 0);
    x.engine = NULL;
    fixture_stop(&x);
}

int main(void)
{
    static bool old = true;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_of_it_is_touched),
        cmocka_unit_test_prestate(all_of_it_is_touched, &old),
        cmocka_unit_test(refused_huge_pages_are_touched_page_by_page),
        cmocka_unit_test(a_fresh_handle_maps_windows),
        cmocka_unit_test(a_child_maps_windows_again),
        cmocka_unit_test(a_full_file_system_is_an_error),
        cmocka_unit_test_prestate(a_full_file_system_is_an_error, &old),
    };
    bool own_mounts = unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
    size_t n = sizeof(tests) / sizeof(tests[0]) - (own_mounts ? 0 : 2);
    int failed = _cmocka_run_group_tests("test_touch", tests, n, NULL, NULL);
    if (!own_mounts)
        puts("SKIPPED: a full file system; this user may make no mounts of its own");
    return failed ? failed : own_mounts ? 0 : SKIPPED;
}
