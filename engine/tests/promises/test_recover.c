/*
 * Recovery: what an fsync promised is on the PFS after the region is lost, or
 * after its processes are killed; damage is named and never flushed.
 */
#include "fixture.h"

#include <errno.h>
#include <glob.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <xxhash.h>

#include "base/report.h"
#include "recovery/recover.h"
#include "journal/journal.h"
#include "layer/repair.h"

#define BYTES 300000

static void fill(unsigned char *bytes, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i++)
        bytes[i] = (unsigned char)((i * 31 + seed * 7919 + (i >> 9)) & 0xff);
}

/* A process that writes `kept`, fsyncs, writes `after` over its start without fsync, and is killed. */
static void write_and_die(struct fixture *x, unsigned kept, unsigned after)
{
    pid_t child = fork();
    if (child == 0) {
        static unsigned char bytes[BYTES];
        tb_engine_atfork_child(x->engine);
        int fd = TB_IO(x->io, open, fixture_path(x, "f"), O_RDWR | O_CREAT, 0600);
        fill(bytes, BYTES, kept);
        bool ok = fd >= 0 && TB_IO(x->io, pwrite, fd, bytes, BYTES, 0) == BYTES && TB_IO(x->io, fsync, fd, false) == 0;
        fill(bytes, BYTES, after);
        ok = ok && TB_IO(x->io, pwrite, fd, bytes, 5000, 100) == 5000;
        raise(ok ? SIGKILL : SIGABRT);
    }
    int status;
    waitpid(child, &status, 0);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void read_pfs(struct fixture *x, unsigned char *bytes)
{
    int fd = open(fixture_path(x, "f"), O_RDONLY);
    assert_true(fd >= 0);
    memset(bytes, 0, BYTES);
    assert_true(pread(fd, bytes, BYTES, 0) >= 0);
    close(fd);
}

struct seen {
    int bad;
};

static void note(void *arg, const struct tb_file_report *r)
{
    ((struct seen *)arg)->bad += r->error == -EBADMSG;
}

static void journal_replays_what_was_fsynced(void **state)
{
    (void)state;
    static unsigned char expected[BYTES], found[BYTES];
    struct fixture x;
    struct seen seen = {0};
    struct tb_error err = {""};
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    fixture_start(&x);
    write_and_die(&x, 1, 2);
    read_pfs(&x, found);
    fill(expected, BYTES, 1);
    assert_memory_not_equal(found, expected, BYTES); /* it was buffered: the test means something */
    fixture_lose_region(&x);
    assert_int_equal(tb_instance_recover(&x.config, tb_io_libc(), NULL, note, &seen, &err), 1);
    read_pfs(&x, found);
    assert_memory_equal(found, expected, BYTES);
    assert_int_equal(seen.bad, 0);
    assert_int_equal(tb_instance_recover(&x.config, tb_io_libc(), NULL, note, &seen, &err), 0); /* nothing is left */
    fixture_stop(&x);
}

static void surviving_region_keeps_unsynced_writes(void **state)
{
    (void)state;
    static unsigned char expected[BYTES], newer[BYTES], found[BYTES];
    struct fixture x;
    struct seen seen = {0};
    struct tb_error err = {""};
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    fixture_start(&x);
    write_and_die(&x, 3, 4);
    tb_engine_detach(x.engine);
    x.engine = NULL;
    assert_int_equal(tb_instance_recover(&x.config, tb_io_libc(), NULL, note, &seen, &err), 1);
    fill(expected, BYTES, 3);
    fill(newer, BYTES, 4);
    memcpy(expected + 100, newer, 5000);
    read_pfs(&x, found);
    assert_memory_equal(found, expected, BYTES);
    fixture_stop(&x);
}

static void flip(const char *directory, const char *file, off_t at)
{
    char command[700];
    snprintf(command, sizeof(command),
             "f=$(ls -d %s/tierbench.*/%s) && printf '\\377' | dd of=\"$f\" bs=1 seek=%ld conv=notrunc status=none", directory, file,
             (long)at);
    assert_int_equal(system(command), 0);
}

/* One byte of the journal's first WRITE record, or of the bytes it refers to, is another. */
static void damage_is_named_and_not_flushed(void **state)
{
    (void)state;
    static const struct {
        const char *file;
        off_t at;
    } damage[] = {{"journal", 512 + 40}, {"slab-2", 7}, {"slab-3", 7}};
    for (size_t i = 0; i < sizeof(damage) / sizeof(damage[0]); i++) {
        static unsigned char expected[BYTES], found[BYTES];
        struct fixture x;
        struct seen seen = {0};
        struct tb_error err = {""};
        char nvme[300];
        fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
        fixture_start(&x);
        fixture_promise_in_slabs(&x);
        write_and_die(&x, 5, 6);
        fixture_lose_region(&x);
        snprintf(nvme, sizeof(nvme), "%s/nvme", x.root);
        flip(nvme, damage[i].file, damage[i].at);
        assert_int_equal(tb_instance_recover(&x.config, tb_io_libc(), NULL, note, &seen, &err), -EBADMSG);
        assert_true(seen.bad > 0);
        fill(expected, BYTES, 5);
        read_pfs(&x, found);
        for (size_t k = 0; k < BYTES; k++)
            assert_true(found[k] == expected[k] || found[k] == 0); /* right, or not there: never wrong */
        fixture_stop(&x);
    }
}

/* A journal with records of many ranges, then the region lost; the paths of journal and slabs. */
static void lose_many_records(struct fixture *x, glob_t *files)
{
    static unsigned char bytes[9000];
    char pattern[400];
    fixture_init(x, TB_MODE_PERSISTENT_ASYNC);
    fixture_start(x);
    fixture_promise_in_slabs(x);
    int fd = TB_IO(x->io, open, fixture_path(x, "f"), O_RDWR | O_CREAT, 0600);
    for (unsigned i = 0; i < 6; i++) {
        fill(bytes, sizeof(bytes), i);
        assert_int_equal(TB_IO(x->io, pwrite, fd, bytes, sizeof(bytes), i * 50000), (ssize_t)sizeof(bytes));
        assert_int_equal(TB_IO(x->io, fsync, fd, false), 0);
    }
    TB_IO(x->io, close, fd);
    fixture_lose_region(x);
    snprintf(pattern, sizeof(pattern), "%s/*/tierbench.*/[js]*", x->root);
    assert_int_equal(glob(pattern, 0, NULL, files), 0);
    assert_true(strstr(files->gl_pathv[0], "bb") || strstr(files->gl_pathv[0], "nvme"));
}

/* Right, or not there: never wrong. */
static uint32_t count_right(struct fixture *x)
{
    static unsigned char found[BYTES], expected[9000];
    uint32_t right = 0;
    read_pfs(x, found);
    for (unsigned i = 0; i < 6; i++) {
        fill(expected, sizeof(expected), i);
        for (size_t k = 0; k < sizeof(expected); k++) {
            bool same = found[i * 50000 + k] == expected[k];
            assert_true(same || found[i * 50000 + k] == 0);
            right += same;
        }
    }
    return right;
}

static void note_place(void *arg, const struct tb_file_report *r)
{
    if (r->error == -EBADMSG && (strstr(r->path, "/journal: record at byte ") || strstr(r->path, "/pfs/f")))
        ++*(int *)arg;
}

/* One bit of every byte of the first records is another, in turn; each is put right again before the next. */
static void every_flipped_bit_is_named(void **state)
{
    (void)state;
    struct fixture x;
    struct tb_error err = {""};
    glob_t files;
    lose_many_records(&x, &files);
    char *journal = NULL;
    for (size_t i = 0; i < files.gl_pathc; i++)
        journal = strstr(files.gl_pathv[i], "/journal") ? files.gl_pathv[i] : journal;
    int fd = open(journal, O_RDWR);
    struct stat st;
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    off_t length = 0; /* of a record with its path; what fills its slot is nothing */
    for (unsigned char byte; length < 512 && pread(fd, &byte, 1, 1024 + length) == 1; length++)
        if (length >= 136 && !byte)
            break;
    for (off_t at = 0; at < length; at++) {
        unsigned char right, wrong;
        int named = 0;
        assert_int_equal(pread(fd, &right, 1, 1024 + at), 1);
        wrong = right ^ (unsigned char)(1u << at % 8);
        assert_int_equal(pwrite(fd, &wrong, 1, 1024 + at), 1);
        int rc = tb_instance_recover(&x.config, tb_io_libc(), NULL, note_place, &named, &err);
        if (rc != -EBADMSG || !named)
            fail_msg("byte %ld of a record flipped: recovery says %d, %d named", (long)at, rc, named);
        assert_int_equal(pwrite(fd, &right, 1, 1024 + at), 1);
        count_right(&x);
    }
    assert_int_equal(tb_instance_recover(&x.config, tb_io_libc(), NULL, note_place, &(int){0}, &err), 1);
    assert_int_equal(count_right(&x), 6 * 9000); /* all of it, when all of it is right */
    close(fd);
    globfree(&files);
    fixture_stop(&x);
}

/* The journal ends anywhere: what is whole before the cut is recovered, and that more is missing is named. */
static void a_torn_journal_gives_what_is_whole(void **state)
{
    (void)state;
    uint32_t before = 0, cut = 0;
    for (off_t at = 512; at < 512 * 24; at += 256) {
        struct fixture x;
        struct tb_error err = {""};
        glob_t files;
        int named = 0;
        lose_many_records(&x, &files);
        for (size_t i = 0; i < files.gl_pathc; i++)
            if (strstr(files.gl_pathv[i], "/journal"))
                assert_int_equal(truncate(files.gl_pathv[i], at), 0);
        int rc = tb_instance_recover(&x.config, tb_io_libc(), NULL, note_place, &named, &err);
        uint32_t right = count_right(&x);
        assert_int_equal(rc, named ? -EBADMSG : 1);
        assert_true(named || right == 6 * 9000);
        cut += named > 0;
        assert_true(right >= before); /* a longer journal, not less */
        before = right;
        globfree(&files);
        fixture_stop(&x);
    }
    assert_int_equal(before, 6 * 9000);
    assert_true(cut > 10);
}

/* A byte of every slab block that a record refers to. */
static void flipped_bytes_are_not_flushed(void **state)
{
    (void)state;
    uint32_t damaged = 0;
    for (off_t at = 0; at < 40 * 4096; at += 4096 + 512) {
        struct fixture x;
        struct tb_error err = {""};
        glob_t files;
        int named = 0;
        lose_many_records(&x, &files);
        for (size_t i = 0; i < files.gl_pathc; i++) {
            unsigned char byte = 0;
            int fd = strstr(files.gl_pathv[i], "/nvme/") && strstr(files.gl_pathv[i], "/slab-") ? open(files.gl_pathv[i], O_RDWR) : -1;
            if (fd >= 0 && pread(fd, &byte, 1, at) == 1) {
                byte ^= 0x10;
                assert_int_equal(pwrite(fd, &byte, 1, at), 1);
            }
            close(fd);
        }
        int rc = tb_instance_recover(&x.config, tb_io_libc(), NULL, note_place, &named, &err);
        uint32_t right = count_right(&x);
        assert_true(rc == 1 ? right == 6 * 9000 : rc == -EBADMSG && named > 0 && right < 6 * 9000 && right > 0);
        damaged += rc != 1;
        globfree(&files);
        fixture_stop(&x);
    }
    assert_true(damaged > 5);
}

/* The child runs when it is told to, long after its parent has ended. */
static void be_late(tb_engine *e, struct tb_io *io, int fd, int told, int tell)
{
    char go, got[4] = "";
    if (read(told, &go, 1) != 1)
        _exit(1);
    tb_engine_atfork_child(e);
    bool ok = e->region.clients[e->slot].pid == getpid() && TB_IO(io, pread, fd, got, 4, 0) == 4 && !memcmp(got, "kept", 4) &&
              TB_IO(io, close, fd) == 0;
    _exit(write(tell, ok ? "y" : "n", 1) != 1);
}

/* Every record of the journal gets the path and is sound with it. */
static void rename_in_journal(const char *journal, const char *path)
{
    union {
        struct tb_record record;
        char bytes[TB_JOURNAL_SLOT];
    } slot;
    int fd = open(journal, O_RDWR);
    assert_true(fd >= 0 && sizeof(slot.record) + strlen(path) <= sizeof(slot));
    for (off_t at = 0; pread(fd, &slot, sizeof(slot), at) == sizeof(slot); at += sizeof(slot)) {
        if (slot.record.type != TB_RECORD_WRITE)
            continue;
        slot.record.path_length = (uint32_t)strlen(path);
        memcpy(slot.bytes + sizeof(slot.record), path, strlen(path));
        slot.record.checksum = 0;
        slot.record.checksum = XXH3_64bits_withSeed(path, strlen(path), XXH3_64bits(&slot.record, sizeof(slot.record)));
        assert_int_equal(pwrite(fd, &slot, sizeof(slot), at), sizeof(slot));
    }
    close(fd);
}

static void note_outside(void *arg, const struct tb_file_report *r)
{
    *(int *)arg += r->error == -EXDEV;
}

/* The very file, but by a name that no instance of the configuration could have recorded. */
static void a_path_outside_the_prefixes_is_not_opened(void **state)
{
    (void)state;
    static const char *const outside[] = {"victim", "pfs/../victim", "pfs/.."};
    for (size_t i = 0; i < sizeof(outside) / sizeof(outside[0]); i++) {
        struct fixture x;
        struct tb_error err = {""};
        glob_t files;
        char victim[300], recorded[300];
        int named = 0;
        lose_many_records(&x, &files);
        snprintf(victim, sizeof(victim), "%s/victim", x.root);
        snprintf(recorded, sizeof(recorded), "%s/%s", x.root, outside[i]);
        assert_int_equal(link(fixture_path(&x, "f"), victim), 0);
        for (size_t k = 0; k < files.gl_pathc; k++)
            if (strstr(files.gl_pathv[k], "/journal"))
                rename_in_journal(files.gl_pathv[k], recorded);
        assert_int_equal(tb_instance_recover(&x.config, tb_io_libc(), NULL, note_outside, &named, &err), -EXDEV);
        assert_true(named > 0);
        struct stat st;
        assert_int_equal(stat(victim, &st), 0);
        assert_int_equal(st.st_blocks, 0); /* nothing was written */
        globfree(&files);
        fixture_stop(&x);
    }
}

static void fork_and_end(struct fixture *x, uint32_t *slot, int told, int tell)
{
    tb_engine *e;
    if (tb_engine_attach(x->name, tb_io_libc(), &e))
        _exit(1);
    struct tb_io *io = tb_engine_route(e, x->pfs, NULL);
    int fd = TB_IO(io, open, fixture_path(x, "late"), O_RDWR | O_CREAT, 0600);
    if (TB_IO(io, pwrite, fd, "kept", 4, 0) != 4)
        _exit(1);
    tb_engine_atfork_prepare(e);
    *slot = e->fork_slot;
    if (fork() == 0)
        be_late(e, io, fd, told, tell);
    tb_engine_atfork_parent(e);
    _exit(0);
}

static void a_late_child_keeps_its_slot(void **state)
{
    (void)state;
    struct fixture x;
    tb_engine *other;
    int told[2], tell[2], status;
    char answer = 0;
    uint32_t *slot = mmap(NULL, sizeof(*slot), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    fixture_start(&x);
    assert_true(pipe(told) == 0 && pipe(tell) == 0);
    pid_t parent = fork();
    if (parent == 0) {
        close(told[1]); /* the late child ends with this test, however that ends */
        fork_and_end(&x, slot, told[0], tell[1]);
    }
    assert_true(waitpid(parent, &status, 0) == parent && status == 0);
    close(tell[1]);      /* a child that dies is heard of */
    tb_repair(x.engine); /* the parent's */
    assert_int_equal(tb_engine_attach(x.name, tb_io_libc(), &other), 0);
    assert_int_not_equal(other->slot, *slot);
    assert_true(write(told[1], "g", 1) == 1 && read(tell[0], &answer, 1) == 1);
    assert_int_equal(answer, 'y');
    tb_engine_detach(other);
    munmap(slot, sizeof(*slot));
    fixture_stop(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(journal_replays_what_was_fsynced),          cmocka_unit_test(surviving_region_keeps_unsynced_writes),
        cmocka_unit_test(damage_is_named_and_not_flushed),           cmocka_unit_test(every_flipped_bit_is_named),
        cmocka_unit_test(a_torn_journal_gives_what_is_whole),        cmocka_unit_test(flipped_bytes_are_not_flushed),
        cmocka_unit_test(a_path_outside_the_prefixes_is_not_opened), cmocka_unit_test(a_late_child_keeps_its_slot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
