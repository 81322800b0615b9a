/* Others write, cut and seek while one cuts, writes or fsyncs: the file's end and the offset follow one order of these. */
#include "scene.h"

#include "layer/descriptions.h"

static void write_second(struct scene *s)
{
    put(s, '2', 4096, 0);
}

/* The write goes on in a copy; the cut changes that alone. */
static void write_and_cut(struct scene *s)
{
    put(s, '3', 10, 4990);
    cut(s, 5000);
}

/* An fsync had taken its bytes along when a cut dropped their records: what was cut off must not be recorded after that. */
static void cut_while_fsynced(void **state)
{
    struct scene *s = *state;
    put(s, '1', 100, 0);
    sync_file(s); /* a journal with a record */
    put(s, '2', 20000, 0);
    meet(s, "reserved", write_and_cut);
    sync_file(s);
    cut(s, 20000);
    sync_file(s);
    assert_int_equal(recover(s), 1);
    int fd = open(fixture_path(&s->x, "f"), O_RDONLY | O_CLOEXEC);
    expect(s, fd, by_kernel, '2', 4990, 0);
    expect(s, fd, by_kernel, '3', 10, 4990);
    expect(s, fd, by_kernel, 0, 15000, 5000);
    close(fd);
}

/* Another program, each time this one has put its bytes aside: its own records are there by then, and it has gone on. */
static int n_others;

static void count_other(void)
{
    if (++n_others > 100)
        fail_msg("an fsync goes on and on");
}

static void write_and_fsync_and_write(struct scene *s)
{
    count_other();
    put(s, (char)('a' + n_others % 20), 4096, 0);
    sync_file(s);
    put(s, (char)('A' + n_others % 20), 4096, 0);
    meet(s, "reserved", write_and_fsync_and_write);
}

static void cut_again(struct scene *s)
{
    count_other();
    cut(s, 4096 - n_others);
    meet(s, "reserved", cut_again);
}

static void fsynced_while_others(struct scene *s, scene_part *part)
{
    char byte;
    n_others = 0;
    put(s, '1', 4096, 0);
    meet(s, "reserved", part);
    sync_file(s);
    assert_true(n_others > 1);
    forget_meetings();
    assert_true(recover(s) >= 0);
    int fd = open(fixture_path(&s->x, "f"), O_RDONLY | O_CLOEXEC);
    for (int at = 0; at < 4000; at++)
        assert_true(pread(fd, &byte, 1, at) == 1 && byte > '0');
    close(fd);
}

static void fsynced_while_others_write(void **state)
{
    fsynced_while_others(*state, write_and_fsync_and_write);
}

static void fsynced_while_others_cut(void **state)
{
    fsynced_while_others(*state, cut_again);
}

static void write_past_cut(struct scene *s)
{
    put(s, '2', 4096, 8192);
}

/* The write waits: else its bytes, and older ones before them, would be seen now, go with the cut, and come back. */
static void begin_past_cut(struct scene *s)
{
    begin_beside(s, write_past_cut);
    expect_size(s, 1000);
}

static void written_while_cut(struct scene *s, const char *step)
{
    put(s, '1', 65536, 0);
    meet(s, step, begin_past_cut);
    cut(s, 1000);
    end_beside(s);
    expect_size(s, 8192 + 4096);
    expect(s, s->fd, by_engine, '1', 1000, 0);
    expect(s, s->fd, by_engine, 0, 7192, 1000);
    expect(s, s->fd, by_engine, '2', 4096, 8192);
}

static void written_when_length_is_told(void **state)
{
    written_while_cut(*state, "length told");
}

static void written_when_buffers_are_cut(void **state)
{
    written_while_cut(*state, "buffers cut");
}

static void cut_to_1000(struct scene *s)
{
    cut(s, 1000);
}

/* The other way round: the cut waits for a write that has begun. */
static void cut_while_written(void **state)
{
    struct scene *s = *state;
    meet_beside(s, "copied", cut_to_1000);
    put(s, '1', 4096, 0);
    end_beside(s);
    expect_size(s, 1000);
}

/* A write that came after the look at the length, and before the mark: what it wrote past the new length goes. */
static void longer_before_cut(void **state)
{
    struct scene *s = *state;
    put(s, '1', 10, 0);
    meet(s, "cut to", write_second);
    cut(s, 1000);
    expect_size(s, 1000);
    cut(s, 4096);
    expect(s, s->fd, by_engine, '2', 1000, 0);
    expect(s, s->fd, by_engine, 0, 3096, 1000);
}

static void seek_to_5(struct scene *s)
{
    assert_int_equal(TB_IO(s->x.io, lseek, s->fd, 5, SEEK_SET), 5);
}

static void read_byte_on(struct scene *s)
{
    s->read = TB_IO(s->x.io, read, s->fd, &s->byte, 1);
}

static void write_on(struct scene *s, char what)
{
    char bytes[100];
    memset(bytes, what, sizeof(bytes));
    assert_int_equal(TB_IO(s->x.io, write, s->fd, bytes, sizeof(bytes)), sizeof(bytes));
}

/* The bytes of a write and the offset after them change as one: a seek or read comes before both or after both. */
static void sought_while_written(void **state)
{
    struct scene *s = *state;
    put(s, '1', 300, 0);
    tb_open_of(s->x.engine, s->fd)->shared = true;
    meet_beside(s, "written in place", seek_to_5);
    write_on(s, '2');
    end_beside(s);
    assert_int_equal(TB_IO(s->x.io, lseek, s->fd, 0, SEEK_CUR), 5);
    assert_int_equal(TB_IO(s->x.io, lseek, s->fd, 0, SEEK_SET), 0);
    meet_beside(s, "written in place", read_byte_on);
    write_on(s, '3');
    end_beside(s);
    assert_int_equal(s->read, 1);
    assert_int_equal(s->byte, '1');
}

static struct stat seen(struct scene *s)
{
    struct stat st;
    assert_int_equal(TB_IO(s->x.io, fstat, s->fd, &st), 0);
    return st;
}

/* A write puts its bytes, a flush takes them, and only then the write notes its time: what a program sets after both is what it sees. */
static void flushed_before_its_time(void **state)
{
    struct scene *s = *state;
    const struct timespec times[2] = {{1000, 0}, {2000, 5}};
    meet(s, "bytes put", flush);
    put(s, '1', 100, 0);
    flush(s); /* as futimens does first */
    assert_int_equal(futimens(s->fd, times), 0);
    assert_int_equal(seen(s).st_mtim.tv_sec, 2000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scene_test(cut_while_fsynced),           scene_test(fsynced_while_others_write),   scene_test(fsynced_while_others_cut),
        scene_test(written_when_length_is_told), scene_test(written_when_buffers_are_cut), scene_test(cut_while_written),
        scene_test(longer_before_cut),           scene_test(sought_while_written),         scene_test(flushed_before_its_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
