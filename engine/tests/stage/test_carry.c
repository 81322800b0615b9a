/*
 * A source that changes while it is carried is never published, also where the file system gives both contents the same times.
 * ramfs does: its times are those of the kernel's last tick. It is mounted where only this process sees it, which needs root.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "stage/copy/carry.h"

enum { ROUNDS = 100 };

static const atomic_bool stop;

static void write_source(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

/* Opened and copied; then the source gets other bytes of the same length, at once. */
static void carry_one(struct tb_carries *carries, const char *source, const char *destination)
{
    struct tb_folders folders = {0};
    struct tb_carry m = {.source = source, .destination = destination};
    write_source(source, "old");
    tb_carry_open(carries, &folders, &m);
    assert_true(tb_carry_has_bytes(&m));
    tb_bytes_work(&m.bytes);
    write_source(source, "new");
    tb_carry_dress(carries, &m);
    tb_carry_sync(&m);
    tb_carry_publish(carries, &m);
    tb_carry_finish(&m);
    assert_int_equal(m.end, TB_CARRY_CHANGED);
    tb_folders_close(&folders);
}

static void test_a_change_in_the_tick_of_the_look_is_seen(void **state)
{
    char folder[] = "/tmp/tierbench-carry-XXXXXX", source[64], destination[64];
    struct tb_config_stage settings;
    struct tb_ledger ledger;
    struct tb_carries carries;
    (void)state;
    assert_non_null(mkdtemp(folder));
    bool own = unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
               mount("none", folder, "ramfs", 0, NULL) == 0;
    if (!own) {
        rmdir(folder);
        skip();
    }
    tb_stage_defaults(&settings);
    assert_int_equal(tb_ledger_open(&ledger, folder), 0);
    tb_carries_begin(&carries, &settings, &ledger, "host", false, &stop);
    snprintf(source, sizeof(source), "%s/source", folder);
    snprintf(destination, sizeof(destination), "%s/destination", folder);
    for (int i = 0; i < ROUNDS; i++)
        carry_one(&carries, source, destination);
    tb_carries_end(&carries);
    tb_ledger_close(&ledger);
    umount2(folder, MNT_DETACH);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_change_in_the_tick_of_the_look_is_seen)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
