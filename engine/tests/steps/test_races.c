/*
 * Others at a named point of a flush, a move, and of a file that becomes coherent.
 * Each test is an order of events in which bytes were lost once.
 */
#include "scene.h"

#include <errno.h>

#include "instance/invariants.h"
#include "file/state.h"
#include "flush/flush.h"
#include "flush/program.h"
#include "flush/queue.h"
#include "instance/drain.h"
#include "layer/descriptions.h"

static void write_second(struct scene *s)
{
    put(s, '2', 4096, 0);
}

static void write_third(struct scene *s)
{
    put(s, '3', 4096, 0);
}

/* The second write is buffered after the first flush, the third one passes through before the second flush. */
static void coherent_while_written(void **state)
{
    struct scene *s = *state;
    put(s, '1', 4096, 0);
    meet(s, "become coherent", write_second);
    meet_beside(s, "coherent", write_third);
    become_coherent(s);
    end_beside(s);
    expect_dirty(s, 0);
    expect(s, s->fd, by_kernel, '3', 4096, 0);
    expect(s, s->fd, by_engine, '3', 4096, 0);
}

static void read_first_byte(struct scene *s)
{
    s->read = by_engine(s, s->fd, &s->byte, 1, 0);
}

static void coherent_while_read(void **state)
{
    struct scene *s = *state;
    put(s, '1', 4096, 0);
    meet(s, "become coherent", write_second);
    meet_beside(s, "coherent", read_first_byte);
    become_coherent(s);
    end_beside(s);
    assert_int_equal(s->read, 1);
    assert_int_equal(s->byte, '2');
}

static void move_in_vain(struct scene *s)
{
    assert_int_equal(move_first(s), -EBUSY);
}

static void move_in_next_flush(struct scene *s)
{
    meet(s, "flush written", move_in_vain);
}

/* What is dirty in a coherent file would be flushed over newer bytes one day. */
static void coherent_while_moved(void **state)
{
    struct scene *s = *state;
    put(s, '1', 4096, 0);
    meet(s, "become coherent", write_second);
    meet(s, "coherent", move_in_next_flush);
    become_coherent(s);
    expect_dirty(s, 0);
    expect(s, s->fd, by_kernel, '2', 4096, 0);
}

static void flush_file(struct scene *s)
{
    assert_int_equal(tb_flush_file(s->x.engine, s->file, -1, true).error, 0);
}

/* The flush has listed the buffer when the move, which was under way before, takes its bytes elsewhere. */
static void flushed_while_moved(void **state)
{
    struct scene *s = *state;
    put(s, '1', 65536, 0);
    meet_beside(s, "move leaving", flush_file);
    assert_int_equal(move_first(s), 0);
    end_beside(s);
    expect_dirty(s, 0);
    expect(s, s->fd, by_kernel, '1', 65536, 0);
}

/* A nameless file through a descriptor that ignores offsets: what is mapped must be there. */
static void coherent_without_name(void **state)
{
    struct scene *s = *state;
    int appends = TB_IO(s->x.io, open, fixture_path(&s->x, "f"), O_WRONLY | O_APPEND, 0);
    put(s, '1', 4096, 0);
    unlink_name(s, "f");
    assert_int_equal(tb_engine_make_coherent(s->x.engine, appends), 0);
    expect(s, s->fd, by_kernel, '1', 4096, 0);
    close_file(s, appends);
}

static void out_of_fragments(struct scene *s)
{
    s->x.engine->header->fragments.free = TB_NONE;
}

/* A record refers to the buffer, the write goes on in a copy, and no fragment is left for that. */
static void copy_without_fragment(void **state)
{
    struct scene *s = *state;
    put(s, '1', 65536, 0);
    flush(s);
    put(s, '2', 100, 0);
    sync_file(s);
    uint32_t fragment = s->x.engine->header->fragments.free;
    out_of_fragments(s);
    put(s, '3', 100, 8192);
    s->x.engine->header->fragments.free = fragment;
    expect_dirty(s, 1);
    assert_true(tb_region_is_valid(s->x.engine));
    flush(s);
    expect(s, s->fd, by_kernel, '2', 100, 0);
    expect(s, s->fd, by_kernel, '3', 100, 8192);
}

static void say_waits(struct scene *s)
{
    sem_post(&s->waits);
}

static void *write_across_and_say(void *arg)
{
    meet(arg, "room wanted", say_waits);
    put(arg, '3', 8192, 4200);
    return NULL;
}

/* The writer waits for the flush before it has written anything: others meet all of a write, or nothing. */
static void begin_across(struct scene *s)
{
    assert_int_equal(pthread_create(&s->beside, NULL, write_across_and_say, s), 0);
    sem_wait(&s->waits);
    expect_size(s, 4200);
}

static void flush_while_room_is_wanted(void **state)
{
    struct scene *s = *state;
    s->x.config.n_tiers = 1;
    s->x.config.fsync = TB_FSYNC_PFS;
    scene_start(s);
    put(s, '1', 104, 4096); /* into a small buffer; there is no other small one */
    struct tb_slab *small = &s->x.engine->region.slabs[0], rest;
    hide_free(small, &rest);
    put(s, '2', 100, 0); /* into a large one that surrounds it */
    out_of_fragments(s);
    meet(s, "flush write", begin_across);
    flush(s);
    end_beside(s);
    show_free(small, &rest);
    flush(s);
    expect(s, s->fd, by_kernel, '1', 104, 4096);
    expect(s, s->fd, by_kernel, '3', 8192, 4200);
}

/* What a flush put on the PFS, synced, is what a crash leaves: never older bytes. */
static void crash_and_expect(struct scene *s, char what)
{
    close_file(s, s->fd);
    assert_true(tb_region_is_valid(s->x.engine));
    assert_true(recover(s) >= 0);
    int fd = open(fixture_path(&s->x, "f"), O_RDONLY | O_CLOEXEC);
    expect(s, fd, by_kernel, what, 4096, 0);
    close(fd);
}

static void write_and_flush(struct scene *s)
{
    write_second(s);
    meet(s, "flush written", write_third);
    flush_file(s);
}

/* The fsync had put its bytes aside. A flush of newer ones made the records void before it wrote its own. */
static void fsynced_while_flushed(void **state)
{
    struct scene *s = *state;
    put(s, '1', 4096, 0);
    meet(s, "reserved", write_and_flush);
    sync_file(s);
    crash_and_expect(s, '3');
}

/* The flush made the records void, and then an fsync wrote a new one of the same bytes: it must not outlive them. */
static void flushed_while_fsynced(void **state)
{
    struct scene *s = *state;
    s->x.config.tiers[0] = s->x.config.tiers[1]; /* one directory tier, so that nothing has to move down */
    s->x.config.n_tiers = 1;
    scene_start(s);
    put(s, '1', 4096, 0);
    sync_file(s);
    put(s, '2', 4096, 0);
    meet(s, "dropped records", sync_file);
    flush_file(s);
    put(s, '3', 4096, 0);
    flush_file(s);
    crash_and_expect(s, '3');
}

/* As `tierctl stop` does it, while the writer is at the meeting. */
static void end_instance(struct scene *s)
{
    assert_int_equal(tb_instance_retire(s->x.engine, true), 0);
    assert_int_equal(tb_instance_drain(s->x.engine, 1, NULL, NULL, NULL), 0);
    assert_int_equal(tb_instance_destroy(s->x.engine), 0);
    s->x.engine = NULL;
}

/*
 * A writer that is stopped where it holds no lock is not waited for. It has promised nothing
 * yet, and when it goes on, its bytes are on the PFS before the write returns.
 */
static void ended_while_written(struct scene *s, const char *where)
{
    tb_engine *client;
    char bytes[8] = "written", found[8] = "";
    fixture_start(&s->x);
    assert_int_equal(tb_engine_attach(s->x.name, tb_io_libc(), &client), 0);
    struct tb_io *io = tb_engine_route(client, fixture_path(&s->x, "f"), NULL);
    int fd = TB_IO(io, open, fixture_path(&s->x, "f"), O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    meet(s, where, end_instance);
    assert_int_equal(TB_IO(io, pwrite, fd, bytes, sizeof(bytes), 0), sizeof(bytes));
    all_met();
    assert_int_equal(pread(fd, found, sizeof(found), 0), sizeof(found));
    assert_string_equal(found, "written");
    assert_int_equal(TB_IO(io, close, fd), 0);
    tb_engine_detach(client);
}

static void ended_before_a_write(void **state)
{
    ended_while_written(*state, "write begins");
}

static void ended_while_bytes_are_put(void **state)
{
    ended_while_written(*state, "bytes put");
}

static void ended_while_a_write_settles(void **state)
{
    ended_while_written(*state, "write settled");
}

static uint32_t queue_file(struct scene *s, const char *name)
{
    int fd = make(s, name);
    uint32_t file = tb_open_of(s->x.engine, fd)->file;
    tb_flush_queue(s->x.engine, file);
    close_file(s, fd);
    return file;
}

static void begin_to_queue(struct scene *s)
{
    meet(s, "queue flag", die);
    queue_file(s, "h");
}

/* As a flush thread does it. */
static uint32_t take_and_end(struct scene *s)
{
    uint32_t file = tb_flush_dequeue(s->x.engine);
    if (file != TB_NONE)
        tb_file_end_taking(&s->x.engine->region.files[file]);
    return file;
}

/*
 * A flush thread has taken a file and not claimed it yet. Another client is killed with the
 * queue's lock, and the queue is made again: the file must not be in it. It would be there
 * twice after the next close, and the files after it would be in no list.
 */
static void taken_while_the_queue_is_mended(void **state)
{
    struct scene *s = *state;
    uint32_t f = queue_file(s, "f");
    assert_int_equal(tb_flush_dequeue(s->x.engine), f);
    by_killed_client(s, begin_to_queue);
    uint32_t g = queue_file(s, "g");
    tb_file_end_taking(&s->x.engine->region.files[f]);
    tb_flush_queue(s->x.engine, f);
    uint32_t n = 0, n_f = 0, n_g = 0;
    for (uint32_t file; n < 10 && (file = take_and_end(s)) != TB_NONE; n++) {
        n_f += file == f;
        n_g += file == g;
    }
    assert_int_equal(n, 3);
    assert_int_equal(n_f, 1);
    assert_int_equal(n_g, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scene_test(coherent_while_written),
        scene_test(coherent_while_read),
        scene_test(coherent_while_moved),
        scene_test(flushed_while_moved),
        scene_test(coherent_without_name),
        scene_test(copy_without_fragment),
        scene_test(fsynced_while_flushed),
        scene_test(taken_while_the_queue_is_mended),
        cmocka_unit_test_setup_teardown(flush_while_room_is_wanted, scene_prepare, scene_teardown),
        cmocka_unit_test_setup_teardown(flushed_while_fsynced, scene_prepare, scene_teardown),
        cmocka_unit_test_setup_teardown(ended_before_a_write, scene_prepare, scene_teardown),
        cmocka_unit_test_setup_teardown(ended_while_bytes_are_put, scene_prepare, scene_teardown),
        cmocka_unit_test_setup_teardown(ended_while_a_write_settles, scene_prepare, scene_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
