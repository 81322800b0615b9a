/*
 * The files that a configuration consists of: only regular files of bounded size and depth are read, and each other one
 * is refused at once, with one message that names it.
 */
#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include "config/hermes_conf.h"
#include "text/text.h"

/*
 * Of processor time for any file; the longest took 0.6, and over 6 before there were bounds. Under TSan, which
 * sees each comparison of libyaml, the same file took 44 on a busy machine.
 */
#define SECONDS (TB_SLOWER > 1 ? 120.0 : 3.0)
#define TIERS "tiers:\n  - {name: ram, medium: memory, capacity: 64MiB, block: 4KiB, slabs: [{units: 16, share: 1.0}]}\n"

static char folder[64], strange[96];

static void write_file(const char *name, const char *text, size_t length)
{
    char path[160];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, length, f), length);
    assert_int_equal(fclose(f), 0);
}

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/tb-config-files-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(strange, sizeof(strange), "%s/strange", folder);
    static const struct {
        const char *name, *line;
    } own[] = {
        {"device.yaml", "pfs: {path: /tmp/x, model: strange}\n"},
        {"profile.yaml", "pfs: {path: /tmp/x, profile: strange}\n"},
        {"units.yaml", "pfs: {path: /tmp/x}\nplacement: {policy: data-locality, units: strange}\n"},
        {"schedule.yaml", "pfs: {path: /tmp/x}\norganizer: {schedule: strange}\n"},
    };
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        char text[512];
        snprintf(text, sizeof(text), "version: 1\nfsync: pfs\n%s" TIERS, own[i].line);
        write_file(own[i].name, text, strlen(text));
    }
    write_file("base.conf", "num_devices = 1;\n", 17);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[96];
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command);
}

/* Read the strange file in each of its uses; all refuse it by its name. */
static void all_refuse(const char *says)
{
    static const char *const users[] = {"device.yaml", "profile.yaml", "units.yaml", "schedule.yaml", "strange", "hermes", "fragment"};
    for (size_t i = 0; i < sizeof(users) / sizeof(users[0]); i++) {
        struct tb_config c;
        struct tb_error err = {0};
        char path[160];
        snprintf(path, sizeof(path), "%s/%s", folder, i == 6 ? "base.conf" : users[i]);
        alarm(60); /* a reader that waits fails the test */
        int rc = i == 5 ? tb_hermes_read(strange, NULL, &c, &err)
               : i == 6 ? tb_hermes_read(path, strange, &c, &err)
                        : tb_config_read(path, &c, &err);
        alarm(0);
        if (rc >= 0 || !strstr(err.text, strange) || !strstr(err.text, says))
            fail_msg("%s: status %d, \"%s\" does not say \"%s\"", users[i], rc, err.text, says);
    }
}

static void what_is_no_regular_file_is_refused(void **state)
{
    (void)state;
    assert_int_equal(mkfifo(strange, 0600), 0);
    all_refuse("a pipe; allowed: a regular file");
    assert_int_equal(unlink(strange), 0);
    assert_int_equal(mkdir(strange, 0700), 0);
    all_refuse("a directory; allowed: a regular file");
    assert_int_equal(rmdir(strange), 0);
    assert_int_equal(symlink("/dev/zero", strange), 0);
    all_refuse("a device; allowed: a regular file");
    assert_int_equal(unlink(strange), 0);
}

static void what_is_too_long_is_refused(void **state)
{
    (void)state;
    int fd = open(strange, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)8 << 30), 0);
    close(fd);
    all_refuse("allowed: up to 1 MiB");
    assert_int_equal(unlink(strange), 0);
}

/* These characters replace ${ and }: what is already there would be read as a variable. */
static void a_mark_of_variables_is_refused(void **state)
{
    (void)state;
    static const char *const marks[] = {TB_VARIABLE_OPEN "tr0", "tr0" TB_VARIABLE_CLOSE};
    for (size_t i = 0; i < 2; i++) {
        write_file("strange", marks[i], strlen(marks[i]));
        all_refuse("holds the character U+E000 or U+E001");
    }
    assert_int_equal(unlink(strange), 0);
}

/* The status of reading `text` as the file NAME of folder, or as a configuration; not within SECONDS is a failure. */
static int read_quickly(const char *user, const char *name, const char *text, size_t length, struct tb_error *err)
{
    struct tb_config c;
    struct timespec start, end;
    char path[160];
    write_file(name, text, length);
    snprintf(path, sizeof(path), "%s/%s", folder, user);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &start);
    int rc = tb_config_read(path, &c, err);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    double seconds = (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9;
    if (seconds > SECONDS)
        fail_msg("\"%.20s\" and so on took %.1f s", text, seconds);
    return rc;
}

/* `head`, then `piece` (which may show its number) as often as fits `size`. */
static char *repeated(const char *head, const char *piece, size_t size, size_t *length)
{
    char *text = malloc(size + 64);
    assert_non_null(text);
    *length = (size_t)sprintf(text, "%s", head);
    for (int i = 0; *length < size; i++)
        *length += (size_t)sprintf(text + *length, piece, i, i); /* NOLINT: the pieces are below */
    return text;
}

static void no_yaml_takes_long(void **state)
{
    (void)state;
    static const struct {
        const char *head, *piece, *says;
    } texts[] = {
        {"version:\n  ", "[", ":2: nests deeper than 32 levels"},
        {"version:\n  ", "{", ":2: nests deeper than 32 levels"},
        {"version:\n  ", "- ", ":2: nests deeper than 32 levels"},
        {"", "? ", ":1: nests deeper than 32 levels"},
        {"version: [", "&a%d x,", "not YAML"},
        {"", "%%TAG !a%d! x\n", "not YAML"},
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct tb_error err = {0};
        size_t length;
        char *text = repeated(texts[i].head, texts[i].piece, 255 << 10, &length);
        assert_int_equal(read_quickly("strange", "strange", text, length, &err), -EINVAL);
        free(text);
        if (!strstr(err.text, strange) || !strstr(err.text, texts[i].says))
            fail_msg("\"%s\" does not say \"%s\"", err.text, texts[i].says);
        text = repeated(texts[i].head, texts[i].piece, 257 << 10, &length);
        assert_int_equal(read_quickly("strange", "strange", text, length, &err), -EINVAL);
        free(text);
        assert_non_null(strstr(err.text, "allowed: up to 256 KiB"));
    }
}

static void many_units_are_read_quickly(void **state)
{
    (void)state;
    struct tb_error err = {0};
    size_t length;
    char *text = repeated("file *.h5\n", "%d 1 unit%d\n", 1 << 20, &length);
    while (text[length - 1] != '\n' || length > 1 << 20)
        length--;
    int rc = read_quickly("units.yaml", "strange", text, length, &err);
    free(text);
    if (rc)
        fail_msg("%s", err.text);
}

/* Every size, since the last bytes of the room are what matters. */
static void a_shown_value_stays_in_its_room(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "0123456789012345678901234567890" TB_VARIABLE_OPEN "NOPE" TB_VARIABLE_CLOSE "/and/more",
        TB_VARIABLE_OPEN TB_VARIABLE_OPEN TB_VARIABLE_OPEN TB_VARIABLE_OPEN TB_VARIABLE_OPEN TB_VARIABLE_OPEN,
        TB_VARIABLE_OPEN "A" TB_VARIABLE_CLOSE TB_VARIABLE_OPEN "B" TB_VARIABLE_CLOSE,
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        for (size_t size = 8; size < 64; size++) {
            char out[80];
            memset(out, '#', sizeof(out));
            tb_text_show(texts[i], out, size);
            assert_true(strlen(out) < size);
            for (size_t b = size; b < sizeof(out); b++)
                assert_int_equal(out[b], '#');
        }
    char out[16];
    tb_text_show(TB_VARIABLE_OPEN "HOME" TB_VARIABLE_CLOSE "/a", out, sizeof(out));
    assert_string_equal(out, "${HOME}/a");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_regular_file_is_refused), cmocka_unit_test(what_is_too_long_is_refused),
        cmocka_unit_test(a_mark_of_variables_is_refused),     cmocka_unit_test(no_yaml_takes_long),
        cmocka_unit_test(many_units_are_read_quickly),        cmocka_unit_test(a_shown_value_stays_in_its_room),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
