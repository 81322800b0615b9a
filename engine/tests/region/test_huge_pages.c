/*
 * A region on huge pages: in /dev/shm, where the kernel makes them when it is asked, and in a place that is named, or found. Where no
 * such place is mounted, this process mounts one in a mount namespace of its own; where it may not, the test is skipped, and says so.
 */
#include "config/check.h"
#include "fixture.h"

#include <errno.h>
#include <mntent.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>

#include "base/huge_place.h"

#define SKIPPED 77 /* of CMakeLists.txt */
#define HUGE_PAGE (2u << 20)
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

static char place[256];
static bool is_own; /* mounted by this process */

/* A mounted place with huge pages that this user may write to and that has room; false: none. */
static bool find_huge(char *out, size_t size)
{
    struct mntent *m;
    bool found = false;
    FILE *mounts = setmntent("/proc/self/mounts", "r");
    while (mounts && !found && (m = getmntent(mounts))) {
        const char *huge = hasmntopt(m, "huge");
        found = (strcmp(m->mnt_type, "hugetlbfs") == 0 || (huge && strncmp(huge, "huge=never", 10) != 0)) && access(m->mnt_dir, W_OK) == 0;
        if (found)
            snprintf(out, size, "%s", m->mnt_dir);
    }
    if (mounts)
        endmntent(mounts);
    return found;
}

static enum tb_huge_pages pages_of(const struct fixture *x)
{
    struct tb_instance_info info;
    tb_instance_info(x->engine, &info);
    return info.huge_pages;
}

/* Asked for one huge page of a file in /dev/shm, as anybody can. */
static bool kernel_makes_them(void)
{
    char name[] = "/dev/shm/tierbench-test-XXXXXX";
    int fd = mkstemp(name);
    assert_true(fd >= 0 && unlink(name) == 0 && ftruncate(fd, 2 * HUGE_PAGE) == 0);
    char *all = mmap(NULL, 2 * HUGE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *at = all + (-(uintptr_t)all % HUGE_PAGE);
    assert_ptr_equal(mmap(at, HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0), at);
    *at = 1;
    bool made = madvise(at, HUGE_PAGE, MADV_COLLAPSE) == 0;
    munmap(all, 2 * HUGE_PAGE);
    close(fd);
    return made;
}

static void huge_pages_are_used_and_told_of(void **state)
{
    struct fixture x;
    struct tb_error err;
    struct tb_layout layout;
    (void)state;
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    snprintf(x.config.region.directory, sizeof(x.config.region.directory), "%s", place);
    x.config.region.page = 2u << 20;
    x.config.tiers[0].capacity = 16 << 20;
    assert_int_equal(tb_layout_compute(&x.config, &layout, &err), 0);
    if (tb_config_check_paths(&x.config, layout.total_bytes, &err))
        fail_msg("%s", err.text);
    fixture_start(&x);
    print_message("%s: %s\n", place, tb_huge_pages_name(pages_of(&x)));
    assert_true(pages_of(&x) != TB_HUGE_NONE);
    int fd = TB_IO(x.io, open, fixture_path(&x, "f"), O_RDWR | O_CREAT, 0600);
    assert_int_equal(TB_IO(x.io, pwrite, fd, "huge", 4, 0), 4);
    assert_int_equal(TB_IO(x.io, close, fd), 0);
    fixture_stop(&x);
}

static void start_with_memory(struct fixture *x, enum tb_huge_wish wish)
{
    fixture_init(x, TB_MODE_PERSISTENT_ASYNC);
    x->config.region.huge_pages = wish;
    x->config.tiers[0].capacity = 16 << 20;
    fixture_start(x);
}

/* Where the region's file is. */
static void target_of(const struct fixture *x, char *out, size_t size)
{
    char path[TB_REGION_PATH_MAX];
    tb_region_path(x->name, path, sizeof(path));
    ssize_t n = readlink(path, out, size - 1);
    out[n > 0 ? n : 0] = 0;
}

/* Another process has them too, and what it writes is there for this one. */
static void they_are_made_in_dev_shm(void **state)
{
    struct fixture x;
    char target[1500], back[4];
    (void)state;
    if (!kernel_makes_them()) {
        print_message("the kernel makes no huge page in /dev/shm\n");
        skip();
    }
    start_with_memory(&x, TB_HUGE_AUTO);
    target_of(&x, target, sizeof(target));
    assert_string_equal(target, "");
    assert_int_equal(pages_of(&x), TB_HUGE_SHMEM);
    assert_int_equal((uintptr_t)x.engine->region.base % HUGE_PAGE, 0);
    int fd = TB_IO(x.io, open, fixture_path(&x, "f"), O_RDWR | O_CREAT, 0600);
    assert_int_equal(TB_IO(x.io, pwrite, fd, "huge", 4, 0), 4);
    assert_int_equal(TB_IO(x.io, pread, fd, back, 4, 0), 4);
    assert_memory_equal(back, "huge", 4);
    assert_int_equal(TB_IO(x.io, close, fd), 0);
    fixture_stop(&x);
}

static void a_place_is_found_and_attached_to(void **state)
{
    struct fixture x;
    struct tb_layout layout;
    struct tb_error err;
    char target[1500], found[TB_HUGE_PLACE_MAX];
    (void)state;
    start_with_memory(&x, TB_HUGE_AUTO);
    assert_int_equal(tb_layout_compute(&x.config, &layout, &err), 0);
    assert_true(tb_huge_place(layout.total_bytes, found));
    target_of(&x, target, sizeof(target));
    assert_memory_equal(target, found, strlen(found));
    tb_engine_detach(x.engine);
    assert_int_equal(tb_engine_attach(x.name, tb_io_libc(), &x.engine), 0);
    fixture_stop(&x);
    assert_int_equal(access(target, F_OK), -1);
}

static void none_is_looked_for(void **state)
{
    struct fixture x;
    char target[1500];
    (void)state;
    start_with_memory(&x, TB_HUGE_NEVER);
    target_of(&x, target, sizeof(target));
    assert_string_equal(target, "");
    assert_true(!is_own || pages_of(&x) == TB_HUGE_NONE);
    fixture_stop(&x);
}

/* More than a place can hold: the region is in /dev/shm as before. */
static void too_large_for_a_place(void **state)
{
    char found[TB_HUGE_PLACE_MAX];
    (void)state;
    assert_false(tb_huge_place(1ull << 60, found));
}

/* Others could remove what is there. */
static void a_place_of_all_users_is_none(void **state)
{
    char found[TB_HUGE_PLACE_MAX];
    (void)state;
    if (!is_own)
        skip();
    assert_int_equal(chmod(place, 0777), 0);
    assert_false(tb_huge_place(1, found));
    assert_int_equal(chmod(place, 01777), 0);
    assert_true(tb_huge_place(1, found));
}

static bool write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    bool written = f && fputs(text, f) >= 0;
    return f && fclose(f) == 0 && written;
}

/* An administrator of a user namespace, with the same numbers of user and group. */
static bool become_administrator(void)
{
    char users[64], groups[64];
    snprintf(users, sizeof(users), "%u %u 1", getuid(), getuid());
    snprintf(groups, sizeof(groups), "%u %u 1", getgid(), getgid());
    return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && write_text("/proc/self/uid_map", users) &&
           write_text("/proc/self/setgroups", "deny") && write_text("/proc/self/gid_map", groups);
}

/* It goes with this process. */
static bool mount_huge(char *out, size_t size)
{
    if (unshare(CLONE_NEWNS) && !become_administrator())
        return false;
    snprintf(out, size, "/tmp/tierbench-huge-XXXXXX");
    return mkdtemp(out) && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("huge", out, "tmpfs", 0, "huge=always,size=256m,mode=1777") == 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(huge_pages_are_used_and_told_of),
        cmocka_unit_test(a_place_is_found_and_attached_to),
        cmocka_unit_test(none_is_looked_for),
        cmocka_unit_test(too_large_for_a_place),
        cmocka_unit_test(a_place_of_all_users_is_none),
    };
    const struct CMUnitTest without_place[] = {cmocka_unit_test(they_are_made_in_dev_shm)};
    is_own = !find_huge(place, sizeof(place));
    int failed = is_own ? cmocka_run_group_tests(without_place, NULL, NULL) : 0;
    bool there = !is_own || mount_huge(place, sizeof(place));
    if (!failed)
        failed = there ? cmocka_run_group_tests(tests, NULL, NULL) : SKIPPED;
    if (!there)
        puts("SKIPPED: no file system with huge pages is writable here, and none can be mounted; see docs/huge-pages.md");
    if (is_own && *place) {
        umount2(place, MNT_DETACH);
        rmdir(place);
    }
    return failed;
}
