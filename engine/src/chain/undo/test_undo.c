/* The undo layer: what a write replaces is in the log before the write is done, and syncs have two ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "chain/undo/undo.h"

static char folder[] = "/tmp/tb-test-undo.XXXXXX";
static char file[64], undo_log[64];

static int begin(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(file, sizeof(file), "%s/file", folder);
    snprintf(undo_log, sizeof(undo_log), "%s/log", folder);
    return 0;
}

static int end(void **state)
{
    (void)state;
    unlink(file);
    unlink(undo_log);
    return rmdir(folder);
}

/* The next record of the log, and its bytes, which end in a NUL. */
static struct tb_undo next(FILE *in, char *bytes)
{
    struct tb_undo r;
    assert_int_equal(fread(&r, sizeof(r), 1, in), 1);
    assert_true(r.magic == TB_UNDO_MAGIC);
    if (r.kind == TB_UNDO_WRITE || r.kind == TB_UNDO_CUT)
        assert_int_equal(fread(bytes, 1, r.length, in), r.length);
    bytes[r.kind == TB_UNDO_WRITE || r.kind == TB_UNDO_CUT ? r.length : 0] = '\0';
    return r;
}

/*
 * The file is open for writing alone, so the layer has to read what is replaced through a descriptor of its own. The second
 * write replaces the end of the first and makes the file longer; the cut notes all from its length on; both records of the
 * sync have one number.
 */
static void what_a_crash_would_lose_is_in_the_log(void **state)
{
    char bytes[100];
    struct stat st;
    (void)state;
    struct tb_io *io = tb_io_undo_new(NULL, undo_log, tb_io_libc());
    assert_non_null(io);
    int fd = TB_IO(io, open, file, O_WRONLY | O_CREAT, 0600);
    assert_int_equal(TB_IO(io, pwrite, fd, "before", 6, 0), 6);
    assert_int_equal(TB_IO(io, pwrite, fd, "AFTER", 5, 3), 5);
    assert_int_equal(TB_IO(io, ftruncate, fd, 1), 0);
    assert_int_equal(TB_IO(io, fsync, fd, false), 0);
    assert_int_equal(TB_IO(io, close, fd), 0);
    io->ops->free(io);
    assert_int_equal(stat(file, &st), 0);

    FILE *in = fopen(undo_log, "r");
    assert_non_null(in);
    struct tb_undo r = next(in, bytes);
    assert_true(r.kind == TB_UNDO_WRITE && r.size == 0 && r.length == 0 && r.written == 6 && r.inode == st.st_ino);
    r = next(in, bytes);
    assert_true(r.kind == TB_UNDO_WRITE && r.offset == 3 && r.size == 6 && r.written == 5);
    assert_string_equal(bytes, "ore");
    r = next(in, bytes);
    assert_true(r.kind == TB_UNDO_CUT && r.offset == 1 && r.size == 8);
    assert_string_equal(bytes, "efAFTER");
    uint64_t number = (r = next(in, bytes)).size;
    assert_true(r.kind == TB_UNDO_SYNC_BEGIN);
    r = next(in, bytes);
    assert_true(r.kind == TB_UNDO_SYNC_END && r.size == number);
    assert_int_equal(fgetc(in), EOF);
    fclose(in);
}

/* A process that runs without the log would make a crash test pass. Without the variable there is no layer. */
static void a_log_that_cannot_be_opened_is_refused(void **state)
{
    (void)state;
    assert_null(tb_io_undo_new(NULL, "/no/such/directory/log", tb_io_libc()));
    assert_int_equal(errno, ENOENT);
    assert_ptr_equal(tb_io_undo_new(NULL, NULL, tb_io_libc()), tb_io_libc());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_crash_would_lose_is_in_the_log),
        cmocka_unit_test(a_log_that_cannot_be_opened_is_refused),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
