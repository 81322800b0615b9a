/* The region's file: by name, by link, and by its owner. */
#include "fixture.h"

#include <errno.h>

#include "instance/make.h"
#include "recovery/recover.h"
#include "region/region_file.h"

#define PAGE (2u << 20)

static char folder[] = "/dev/shm/tb-test-region-XXXXXX", link_path[128], file_path[256];

/* An instance with its region in `directory`. */
static void start_in(struct fixture *x, const char *directory)
{
    fixture_init(x, TB_MODE_PERSISTENT_ASYNC);
    snprintf(x->config.region.directory, sizeof(x->config.region.directory), "%s", directory);
    x->config.region.page = PAGE;
    tb_region_path(x->name, link_path, sizeof(link_path));
    snprintf(file_path, sizeof(file_path), "%s/%s", directory, strrchr(link_path, '/') + 1);
    fixture_start(x);
}

static void write_file(struct fixture *x, const char *text)
{
    int fd = TB_IO(x->io, open, fixture_path(x, "f"), O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(TB_IO(x->io, pwrite, fd, text, strlen(text), 0), strlen(text));
    assert_int_equal(TB_IO(x->io, close, fd), 0);
}

static void it_lies_in_the_directory_named(void **state)
{
    struct fixture x;
    struct stat st;
    struct tb_layout layout;
    struct tb_error err;
    struct tb_instance_info info;
    tb_engine *second;
    (void)state;
    start_in(&x, folder);
    assert_int_equal(lstat(link_path, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(lstat(file_path, &st), 0);
    assert_int_equal(st.st_mode, S_IFREG | 0600);
    assert_int_equal(tb_layout_compute(&x.config, &layout, &err), 0);
    assert_int_equal(st.st_size, layout.total_bytes);
    assert_int_equal(layout.total_bytes % PAGE, 0);
    assert_true(layout.total_bytes <= x.config.tiers[0].capacity);
    assert_int_equal(tb_engine_attach(x.name, tb_io_libc(), &second), 0);
    tb_instance_info(second, &info);
    assert_int_equal(info.n_clients, 1); /* except for the handle that asks */
    tb_engine_detach(second);
    fixture_stop(&x);
    assert_int_equal(lstat(link_path, &st), -1);
    assert_int_equal(lstat(file_path, &st), -1);
}

static bool is_listed(const char *name)
{
    struct tb_instance_info *all;
    bool found = false;
    for (int i = 0, n = tb_instance_list(&all); i < n; i++)
        found = found || strcmp(all[i].name, name) == 0;
    free(all);
    return found;
}

static void one_without_its_name_is_found_again(void **state)
{
    struct fixture x;
    struct tb_error err = {""};
    tb_engine *other;
    (void)state;
    start_in(&x, folder);
    assert_true(is_listed(x.name));
    assert_int_equal(unlink(link_path), 0);
    assert_false(is_listed(x.name));
    assert_int_equal(tb_instance_create(&x.config, x.name, tb_io_libc(), NULL, NULL, &other, &err), -EEXIST);
    assert_true(is_listed(x.name));
    write_file(&x, "kept");
    assert_int_equal(unlink(link_path), 0);
    tb_engine_detach(x.engine);
    x.engine = NULL;
    assert_int_equal(tb_instance_recover(&x.config, tb_io_libc(), NULL, NULL, NULL, &err), 1);
    char text[8] = "";
    FILE *f = fopen(fixture_path(&x, "f"), "r");
    assert_non_null(f);
    assert_non_null(fgets(text, sizeof(text), f));
    fclose(f);
    assert_string_equal(text, "kept");
    struct stat st;
    assert_int_equal(lstat(file_path, &st), -1);
    fixture_stop(&x);
}

static int open_instance(const char *name)
{
    int fd = tb_region_file_open(name);
    if (fd >= 0)
        close(fd);
    return fd;
}

static void what_others_could_have_put_there_is_refused(void **state)
{
    struct fixture x;
    (void)state;
    start_in(&x, folder);
    assert_true(open_instance(x.name) >= 0);
    assert_int_equal(chmod(file_path, 0644), 0);
    assert_int_equal(open_instance(x.name), -EPERM);
    assert_int_equal(chmod(file_path, 0600), 0);
    char elsewhere[300];
    snprintf(elsewhere, sizeof(elsewhere), "%s/other-name", folder);
    assert_int_equal(rename(file_path, elsewhere), 0);
    assert_int_equal(open_instance(x.name), -ENOENT);
    assert_int_equal(unlink(link_path), 0);
    assert_int_equal(symlink(elsewhere, link_path), 0);
    assert_int_equal(open_instance(x.name), -EPERM);
    assert_int_equal(unlink(link_path), 0);
    assert_int_equal(symlink(file_path, link_path), 0); /* a link that leads nowhere gives way */
    int fd = tb_region_file_create(x.config.region.directory, x.name);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(rename(elsewhere, file_path), 0);
    fixture_stop(&x);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_lies_in_the_directory_named),
        cmocka_unit_test(one_without_its_name_is_found_again),
        cmocka_unit_test(what_others_could_have_put_there_is_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
