/* Notes of those that write in place: how many a chunk holds, and what readers are told by them. */
#include "fixture.h"

#include <pthread.h>

#include "buffer/chunk.h"

#define PART 4096u

static struct fixture x;
static pthread_barrier_t barrier;

static void start(void)
{
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    fixture_start(&x);
}

static bool begin(uint64_t offset, struct tb_chunk_note *note)
{
    return tb_chunk_begin_writing(x.engine, 7, offset, PART, note);
}

static void write_once(uint64_t offset)
{
    struct tb_chunk_note note;
    assert_true(begin(offset, &note));
    tb_chunk_end_writing(&note);
}

/* A thread has one note at a time. */
struct holder {
    pthread_t thread;
    uint64_t offset;
    bool got;
};

static void *hold_a_note(void *arg)
{
    struct tb_chunk_note note;
    struct holder *h = arg;
    h->got = begin(h->offset, &note);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    if (h->got)
        tb_chunk_end_writing(&note);
    return NULL;
}

/* As many as there are words. The next writer takes the lock, which waits for all of them. */
static void the_words_are_full(void **state)
{
    struct holder holder[TB_CHUNK_WRITERS];
    struct tb_chunk_note note;
    (void)state;
    start();
    pthread_barrier_init(&barrier, NULL, TB_CHUNK_WRITERS + 1);
    for (uint32_t i = 0; i < TB_CHUNK_WRITERS; i++) {
        holder[i].offset = i * PART;
        assert_int_equal(pthread_create(&holder[i].thread, NULL, hold_a_note, &holder[i]), 0);
    }
    pthread_barrier_wait(&barrier);
    assert_false(begin(63 * PART, &note));
    pthread_barrier_wait(&barrier);
    for (uint32_t i = 0; i < TB_CHUNK_WRITERS; i++) {
        pthread_join(holder[i].thread, NULL);
        assert_true(holder[i].got);
    }
    write_once(63 * PART);
    fixture_stop(&x);
}

static bool looks(uint64_t offset, struct tb_chunk_view *view)
{
    return tb_chunk_look(x.engine, 7, offset, PART, view);
}

static bool is_as_seen(uint64_t offset, const struct tb_chunk_view *view)
{
    return tb_chunk_is_as_seen(x.engine, 7, offset, PART, view);
}

static void a_reader_sees_who_writes(void **state)
{
    struct tb_chunk_view view;
    struct tb_chunk_note note;
    (void)state;
    start();
    assert_true(begin(8 * PART, &note));
    assert_false(looks(8 * PART, &view));
    assert_false(looks(8 * PART + PART - 1, &view));
    assert_true(looks(7 * PART, &view));
    assert_true(is_as_seen(7 * PART, &view));
    tb_chunk_end_writing(&note);
    assert_true(is_as_seen(7 * PART, &view)); /* it was there before, and wrote other bytes */
    fixture_stop(&x);
}

static void a_reader_sees_who_wrote(void **state)
{
    struct tb_chunk_view view;
    (void)state;
    start();
    assert_true(looks(8 * PART, &view));
    assert_true(is_as_seen(8 * PART, &view));
    write_once(7 * PART);
    assert_true(is_as_seen(8 * PART, &view));
    write_once(7 * PART); /* the word does not say any more where the first one wrote */
    assert_false(is_as_seen(8 * PART, &view));
    assert_true(looks(8 * PART, &view));
    write_once(8 * PART);
    assert_false(is_as_seen(8 * PART, &view));
    fixture_stop(&x);
}

/* The lock is taken and given back in between: what is under it may have changed. */
static void a_reader_sees_the_lock(void **state)
{
    struct tb_chunk_view view;
    (void)state;
    start();
    assert_true(looks(0, &view));
    assert_true(tb_chunk_try_lock(x.engine, 7));
    assert_false(is_as_seen(0, &view));
    assert_false(looks(0, &view));
    tb_chunk_unlock(x.engine, 7);
    assert_false(is_as_seen(0, &view));
    assert_true(looks(0, &view));
    fixture_stop(&x);
}

/* The last unit of the chunk, and all of it. */
static void ranges_reach_to_the_end(void **state)
{
    uint64_t chunk;
    struct tb_chunk_view view;
    struct tb_chunk_note note;
    (void)state;
    start();
    chunk = x.engine->header->chunk.bytes;
    assert_true(tb_chunk_begin_writing(x.engine, 7, 5 * chunk, chunk, &note));
    assert_false(tb_chunk_look(x.engine, 7, 5 * chunk, 1, &view));
    assert_false(tb_chunk_look(x.engine, 7, 6 * chunk - 1, 1, &view));
    tb_chunk_end_writing(&note);
    assert_true(tb_chunk_begin_writing(x.engine, 7, 6 * chunk - 1, 1, &note));
    assert_false(tb_chunk_look(x.engine, 7, 6 * chunk - 1, 1, &view));
    assert_true(tb_chunk_look(x.engine, 7, 5 * chunk, chunk / 2, &view));
    tb_chunk_end_writing(&note);
    fixture_stop(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_words_are_full),     cmocka_unit_test(a_reader_sees_who_writes), cmocka_unit_test(a_reader_sees_who_wrote),
        cmocka_unit_test(a_reader_sees_the_lock), cmocka_unit_test(ranges_reach_to_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
