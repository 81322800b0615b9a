/* A region on huge pages, where this system has any: else the test is skipped, and says so. */
#include "config/check.h"
#include "fixture.h"

#include <mntent.h>

#define SKIPPED 77 /* of CMakeLists.txt */

static char place[256];

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

static void huge_pages_are_used_and_told_of(void **state)
{
    struct fixture x;
    struct tb_instance_info info;
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
    tb_instance_info(x.engine, &info);
    print_message("%s: %s\n", place, tb_huge_pages_name(info.huge_pages));
    assert_true(info.huge_pages != TB_HUGE_NONE);
    int fd = TB_IO(x.io, open, fixture_path(&x, "f"), O_RDWR | O_CREAT, 0600);
    assert_int_equal(TB_IO(x.io, pwrite, fd, "huge", 4, 0), 4);
    assert_int_equal(TB_IO(x.io, close, fd), 0);
    fixture_stop(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(huge_pages_are_used_and_told_of)};
    if (find_huge(place, sizeof(place)))
        return cmocka_run_group_tests(tests, NULL, NULL);
    puts("SKIPPED: no mounted file system with huge pages is writable here; docs/huge-pages.md says how to have one");
    return SKIPPED;
}
