/* Writes that replace dirty bytes go on beside the chunk's lock: a taker of the lock waits for them, and they wait for its holder. */
#include "scene.h"

#include <errno.h>

#include "buffer/chunk.h"
#include "flush/flush.h"
#include "flush/program.h"
#include "layer/repair.h"

#define CHUNK (1u << 20)

static void write_second(struct scene *s)
{
    put(s, '2', 4096, 0);
}

static void write_third(struct scene *s)
{
    put(s, '3', 4096, 0);
}

static void cut_to_1000(struct scene *s)
{
    cut(s, 1000);
}

static void flush_file(struct scene *s)
{
    assert_int_equal(tb_flush_file(s->x.engine, s->file, -1, true).error, 0);
}

static void move_it(struct scene *s)
{
    assert_int_equal(move_first(s), 0);
}

/* What a cut leaves is of the write, since that had begun. */
static void the_cut_waits(void **state)
{
    struct scene *s = *state;
    put(s, '1', 4096, 0);
    meet_beside(s, "writing in place", cut_to_1000);
    write_second(s);
    end_beside(s);
    expect_size(s, 1000);
    cut(s, 4096);
    expect(s, s->fd, by_engine, '2', 1000, 0);
    expect(s, s->fd, by_engine, 0, 3096, 1000);
}

static void the_flush_waits(void **state)
{
    struct scene *s = *state;
    put(s, '1', 4096, 0);
    meet_beside(s, "writing in place", flush_file);
    write_second(s);
    end_beside(s);
    expect_dirty(s, 0);
    expect(s, s->fd, by_kernel, '2', 4096, 0);
}

static void the_move_waits(void **state)
{
    struct scene *s = *state;
    put(s, '1', 4096, 0);
    meet_beside(s, "writing in place", move_it);
    write_second(s);
    end_beside(s);
    expect(s, s->fd, by_engine, '2', 4096, 0);
}

static void coherence_waits(void **state)
{
    struct scene *s = *state;
    put(s, '1', 4096, 0);
    meet_beside(s, "writing in place", become_coherent);
    write_second(s);
    end_beside(s);
    expect_dirty(s, 0);
    expect(s, s->fd, by_kernel, '2', 4096, 0);
}

/* The flush has copied the bytes before: the buffer is as dirty as after any other write. Also the second time. */
static void replaced_while_flushed(void **state)
{
    struct scene *s = *state;
    put(s, '1', 4096, 0);
    meet(s, "flush written", write_second);
    flush_file(s);
    expect_dirty(s, 1);
    meet(s, "flush written", write_third);
    flush_file(s);
    expect_dirty(s, 1);
    flush_file(s);
    expect_dirty(s, 0);
    expect(s, s->fd, by_kernel, '3', 4096, 0);
}

static int n_writes;

static void count_write(struct scene *s)
{
    (void)s;
    n_writes++;
}

static void replaced_while_moved(void **state)
{
    struct scene *s = *state;
    n_writes = 0;
    put(s, '1', 4096, 0);
    meet(s, "move copied", write_second);
    assert_int_equal(move_first(s), -EAGAIN);
    expect(s, s->fd, by_engine, '2', 4096, 0);
    meet(s, "noted", count_write);
    write_third(s); /* under the lock, as it was seen; */
    meet(s, "written in place", count_write);
    write_second(s); /* from then on in place */
    assert_int_equal(n_writes, 2);
}

static void write_last_blocks(struct scene *s)
{
    put(s, '3', 8192, 57344);
}

/* A write of other bytes comes to its end in that time: this one would wait for it for ever. */
static void write_beside_and_wait(struct scene *s)
{
    begin_beside(s, write_last_blocks);
    end_beside(s);
}

static void others_write_other_bytes(void **state)
{
    struct scene *s = *state;
    put(s, '1', 65536, 0);
    meet(s, "writing in place", write_beside_and_wait);
    write_second(s);
    expect(s, s->fd, by_engine, '2', 4096, 0);
    expect(s, s->fd, by_engine, '1', 53248, 4096);
    expect(s, s->fd, by_engine, '3', 8192, 57344);
}

static void write_first_byte_and_more(struct scene *s)
{
    put(s, '3', 5000, 4095);
}

static void read_half(struct scene *s)
{
    char bytes[6000];
    assert_int_equal(by_engine(s, s->fd, bytes, sizeof(bytes), 0), sizeof(bytes));
    for (size_t i = 0; i < 4096; i++)
        assert_int_equal(bytes[i], '2');
}

/* Of two writes of one byte one comes after the other, and so do a write and a read. */
static void the_same_bytes_wait(void **state)
{
    struct scene *s = *state;
    put(s, '1', 65536, 0);
    meet_beside(s, "writing in place", write_first_byte_and_more);
    write_second(s);
    end_beside(s);
    expect(s, s->fd, by_engine, '2', 4095, 0);
    expect(s, s->fd, by_engine, '3', 5000, 4095);
    put(s, '1', 65536, 0);
    meet_beside(s, "writing in place", read_half);
    write_second(s);
    end_beside(s);
}

/* A write of clean or new bytes has the lock: one in place waits for it. */
static void the_lock_is_waited_for(void **state)
{
    struct scene *s = *state;
    put(s, '1', 65536, 0);
    flush_file(s);
    put(s, '1', 4096, 0);
    meet_beside(s, "dirty first", write_second);
    put(s, '3', 4096, 2048);
    end_beside(s);
    expect(s, s->fd, by_engine, '2', 4096, 0);
    expect(s, s->fd, by_engine, '3', 2048, 4096);
}

static void write_past_the_end(struct scene *s)
{
    put(s, '3', 100, 4096);
}

/* Bytes that came past the end since an append looked where that is are dirty, and not its own. */
static void an_append_finds_the_end_moved(void **state)
{
    struct scene *s = *state;
    int appends = TB_IO(s->x.io, open, fixture_path(&s->x, "f"), O_WRONLY | O_APPEND, 0);
    put(s, '1', 4096, 0);
    meet(s, "end looked at", write_past_the_end);
    assert_int_equal(TB_IO(s->x.io, write, appends, "aaaaaaaaaa", 10), 10);
    expect_size(s, 4096 + 100 + 10);
    expect(s, s->fd, by_engine, '3', 100, 4096);
    expect(s, s->fd, by_engine, 'a', 10, 4096 + 100);
    close_file(s, appends);
}

/* A signal handler: it is told where it would wait for its own thread. */
static void write_from_handler(struct scene *s)
{
    char bytes[100] = "x";
    assert_int_equal(TB_IO(s->x.io, pwrite, s->fd, bytes, sizeof(bytes), 20000), -EDEADLK);
    assert_int_equal(TB_IO(s->x.io, pread, s->fd, bytes, sizeof(bytes), 0), -EDEADLK);
    assert_int_equal(TB_IO(s->x.io, pwrite, s->fd, bytes, sizeof(bytes), CHUNK), sizeof(bytes));
}

static void interrupted_by_a_handler(void **state)
{
    struct scene *s = *state;
    put(s, '1', 65536, 0);
    put(s, '1', 4096, CHUNK);
    meet(s, "writing in place", write_from_handler);
    write_second(s);
    expect(s, s->fd, by_engine, '2', 4096, 0);
}

static void die_writing(struct scene *s)
{
    meet(s, "written in place", die);
    write_second(s);
}

/* The lock finds the note of a killed writer, and goes on; so does a read of the same bytes. */
static void killed_and_the_lock_taken(void **state)
{
    struct scene *s = *state;
    put(s, '1', 65536, 0);
    by_killed_client(s, die_writing);
    expect(s, s->fd, by_engine, '2', 4096, 0);
    by_killed_client(s, die_writing);
    put(s, '3', 4096, 2048);
    expect(s, s->fd, by_engine, '2', 2048, 0);
    flush_file(s);
    expect(s, s->fd, by_kernel, '3', 4096, 2048);
}

static void killed_and_repaired(void **state)
{
    struct scene *s = *state;
    put(s, '1', 65536, 0);
    by_killed_client(s, die_writing);
    assert_int_equal(tb_repair(s->x.engine), 1);
    for (uint32_t i = 0; i < TB_STRIPES * TB_CHUNK_WRITERS; i++)
        assert_int_equal(s->x.engine->region.locks->chunk[i / TB_CHUNK_WRITERS].writer[i % TB_CHUNK_WRITERS] >> TB_CHUNK_CLIENT_SHIFT, 0);
    write_third(s);
    expect(s, s->fd, by_engine, '3', 4096, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scene_test(the_cut_waits),
        scene_test(the_flush_waits),
        scene_test(the_move_waits),
        scene_test(coherence_waits),
        scene_test(replaced_while_flushed),
        scene_test(replaced_while_moved),
        scene_test(others_write_other_bytes),
        scene_test(the_same_bytes_wait),
        scene_test(the_lock_is_waited_for),
        scene_test(an_append_finds_the_end_moved),
        scene_test(interrupted_by_a_handler),
        scene_test(killed_and_the_lock_taken),
        scene_test(killed_and_repaired),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
