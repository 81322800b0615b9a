/*
 * Reads of another node's bytes without a network: a thread here answers requests in the daemon's place, and notes what it was asked.
 * What is tried are the rules of requests (shared/requests.h), of what comes in pieces (flush/remote.h), and of what is read
 * ahead (flush/read_ahead.h).
 */
#include "fixture.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/clock.h"
#include "base/lock.h"
#include "buffer/map.h"
#include "file/file.h"
#include "io/identity.h"
#include "shared/requests.h"

#define SIZE (1u << 20)
#define CHUNK 65536u /* of a read: two pieces */
#define NEVER (-1)

static struct fixture x;
static int fd;
static uint32_t file;
static char *bytes; /* the program's */

/* The other node. */
static pthread_t daemon_thread;
static _Atomic bool ends;
static _Atomic uint32_t n_asked;
static _Atomic uint8_t commit;            /* its bytes say which commit they are of, and where they are */
static int (*_Atomic delay)(uint64_t lo); /* milliseconds by the test's clock; NEVER */
static void (*_Atomic before_answer)(uint64_t lo);
static struct tb_wire asked[256];

/* So many times as fast as it is: what takes seconds is tried in less. */
static _Atomic uint64_t faster = 1;
int __real_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    int rc = __real_clock_gettime(clock, t);
    uint64_t ns = ((uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_nsec) * faster;
    *t = (struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    return rc;
}

static uint8_t byte_at(uint8_t of, uint64_t at)
{
    return (uint8_t)(of * 37u + at / 512u * 3u + at);
}

static int64_t fill(char *to, const struct tb_wire *w)
{
    struct tb_told told = {.version = commit, .before = w->hi, .end = SIZE, .n = 1, .elsewhere = 1};
    struct tb_wire_extent extent = {.lo = 0, .hi = SIZE, .version = 1, .node = 1};
    uint64_t lo = w->lo, hi = w->hi;
    uint8_t of = commit;
    memcpy(to, &told, sizeof(told));
    memcpy(to + sizeof(told), &extent, sizeof(extent));
    to += sizeof(told) + sizeof(extent);
    for (uint64_t at = lo; at < hi; at++)
        to[at - lo] = (char)byte_at(of, at);
    return (int64_t)(sizeof(told) + sizeof(extent) + (hi - lo));
}

static void pause_ms(int ms)
{
    uint64_t until = tb_now_ns() + (uint64_t)ms * 1000000u;
    while ((ms == NEVER || tb_now_ns() < until) && !ends)
        nanosleep(&(struct timespec){0, 100000}, NULL);
}

static void *serve(void *arg)
{
    while (!ends) {
        struct tb_request *r = tb_request_take(x.engine, TB_DESK_FILES);
        if (!r)
            continue;
        struct tb_wire w;
        memcpy(&w, r->bytes, sizeof(w));
        asked[n_asked % 256] = w;
        n_asked++;
        void (*act)(uint64_t) = atomic_load(&before_answer);
        int (*takes)(uint64_t) = atomic_load(&delay);
        if (act)
            act(w.lo);
        if (takes)
            pause_ms(takes(w.lo));
        tb_request_answer(r, fill(r->bytes, &w));
    }
    return arg;
}

static void start(bool answers, uint32_t copies)
{
    struct tb_identity id;
    char zeros[4096] = "";
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    x.config.several_nodes = TB_NODES_SHARED;
    x.config.copies = copies;
    fixture_start(&x);
    x.engine->shared_device = 0;
    int made = open(fixture_path(&x, "file"), O_RDWR | O_CREAT, 0600);
    assert_int_equal(pwrite(made, zeros, sizeof(zeros), SIZE - sizeof(zeros)), sizeof(zeros));
    close(made);
    fd = TB_IO(x.io, open, fixture_path(&x, "file"), O_RDWR, 0600);
    assert_int_equal(tb_identity_of_fd(fd, &id), 0);
    file = tb_file_find(x.engine, &id);
    assert_true(tb_lock_take(&x.engine->header->daemon.lock) >= 0); /* so a daemon lives */
    x.engine->region.file_nodes[file].known = 2 * 1 + 1;
    x.engine->shared_device = id.device;
    bytes = aligned_alloc(4096, SIZE);
    ends = false;
    n_asked = 0;
    commit = 1;
    delay = NULL;
    before_answer = NULL;
    if (answers)
        assert_int_equal(pthread_create(&daemon_thread, NULL, serve, NULL), 0);
    else
        ends = true;
}

static void stop(void)
{
    faster = 1;
    if (!ends) {
        ends = true;
        pthread_join(daemon_thread, NULL);
    }
    tb_lock_drop(&x.engine->header->daemon.lock);
    x.engine->shared_device = 0;
    TB_IO(x.io, close, fd);
    fixture_stop(&x);
    free(bytes);
}

static void check(uint64_t n, uint64_t at, uint8_t of)
{
    for (uint64_t i = 0; i < n; i++)
        if ((uint8_t)bytes[i] != byte_at(of, at + i))
            fail_msg("byte %llu: not of commit %d", (unsigned long long)(at + i), of);
}

static void read_right(uint64_t n, uint64_t at, uint8_t of)
{
    memset(bytes, 0, n);
    assert_int_equal(TB_IO(x.io, pread, fd, bytes, n, (off_t)at), n);
    check(n, at, of);
}

static struct tb_request *begin(uint64_t until)
{
    struct tb_wire w = {.op = TB_WIRE_FETCH, .hi = 4096};
    return tb_ask_begin(x.engine, &w, until);
}

/* --- requests --------------------------------------------------------------------------------------------- */

static void test_spare_requests_are_half_of_them(void **state)
{
    (void)state;
    struct tb_request *r[TB_REQUESTS];
    start(false, 1);
    uint64_t until = tb_now_ns() + 1000000;
    for (uint32_t i = 0; i < TB_REQUESTS / 2; i++)
        assert_non_null(r[i] = begin(0));
    assert_null(begin(0));
    for (uint32_t i = TB_REQUESTS / 2; i < TB_REQUESTS; i++) /* left to callers that have none */
        assert_non_null(r[i] = begin(until));
    assert_null(begin(tb_now_ns() + 1000000));
    for (uint32_t i = 0; i < TB_REQUESTS; i++)
        tb_ask_leave(r[i]);
    stop();
}

static void test_a_read_ends_without_spare_requests(void **state)
{
    (void)state;
    start(true, 1);
    struct tb_request *r[TB_REQUESTS / 2];
    for (uint32_t i = 0; i < TB_REQUESTS / 2; i++) {
        assert_non_null(r[i] = begin(0));
        assert_true(tb_ask_end(x.engine, r[i], UINT64_MAX) > 0); /* answered, and kept */
    }
    read_right(CHUNK, 0, 1);
    for (uint32_t i = 0; i < TB_REQUESTS / 2; i++)
        tb_ask_give(r[i]);
    stop();
}

/* --- pieces ------------------------------------------------------------------------------------------------ */

/* Another thread of the program writes there as soon as the first piece has come. */
TB_UNLOCKED static void scribble(uint64_t lo)
{
    if (lo % CHUNK == 0)
        return;
    while ((uint8_t)bytes[100] != byte_at(1, 100) && !ends)
        nanosleep(&(struct timespec){0, 10000}, NULL);
    memset(bytes, 0x5a, 4096);
}

static void test_what_stays_in_a_buffer_is_not_of_the_programs_memory(void **state)
{
    (void)state;
    start(true, 1);
    x.engine->header->config.organizer.enabled = true;
    read_right(CHUNK, 0, 1); /* missed once: the next miss is staged */
    assert_int_equal(x.engine->header->totals.staged, 0);
    memset(bytes, 0, CHUNK);
    before_answer = scribble;
    assert_int_equal(TB_IO(x.io, pread, fd, bytes, CHUNK, 0), CHUNK);
    before_answer = NULL;
    assert_int_equal(x.engine->header->totals.staged, CHUNK);
    uint32_t before = n_asked;
    read_right(CHUNK, 0, 1);
    assert_int_equal(n_asked, before); /* from the buffer */
    stop();
}

static int six_seconds(uint64_t lo)
{
    (void)lo;
    return 6000;
}

/* The second piece would be in time by a limit of its own. */
static void test_all_pieces_of_a_read_have_one_deadline(void **state)
{
    (void)state;
    start(true, 1);
    faster = 20;
    delay = six_seconds;
    uint64_t began = tb_now_ns();
    assert_int_equal(TB_IO(x.io, pread, fd, bytes, CHUNK, 0), -EIO);
    assert_true(tb_now_ns() - began < 12 * 1000000000ull);
    delay = NULL;
    stop();
}

/* --- reading ahead ----------------------------------------------------------------------------------------- */

/* The first two reads of chunks from `at` on; the second one asks ahead. */
static void read_two(uint64_t at)
{
    read_right(CHUNK, at, commit);
    uint32_t before = n_asked;
    read_right(CHUNK, at + CHUNK, commit);
    while (n_asked < before + 3)
        nanosleep(&(struct timespec){0, 100000}, NULL);
}

static void test_the_next_pieces_are_asked_for_before_the_program_reads_them(void **state)
{
    (void)state;
    start(true, 1);
    read_right(CHUNK, 0, 1);
    nanosleep(&(struct timespec){0, 5000000}, NULL);
    assert_int_equal(n_asked, 2); /* no pattern yet */
    read_two(2 * CHUNK);
    uint32_t first = n_asked - 1;
    assert_int_equal(asked[first].lo, 4 * CHUNK);
    for (uint64_t at = 4 * CHUNK; at < SIZE; at += CHUNK)
        read_right(CHUNK, at, 1);
    uint8_t times[SIZE / 4096] = {0};
    for (uint32_t i = first; i < n_asked; i++)
        for (uint64_t at = asked[i].lo; at < asked[i].hi; at += 4096)
            times[at / 4096]++;
    for (uint64_t at = 4 * CHUNK; at < SIZE; at += 4096)
        assert_int_equal(times[at / 4096], 1); /* and none past the end */
    stop();
}

static void test_small_reads_share_a_piece(void **state)
{
    (void)state;
    start(true, 1);
    for (uint64_t at = 0; at < SIZE; at += 5000) {
        read_right(SIZE - at < 5000 ? SIZE - at : 5000, at, 1);
        if (at == 200000) /* a slow reader: all that came ahead is old, and no other reader has taken it */
            nanosleep(&(struct timespec){0, TB_AHEAD_NS + 20000000}, NULL);
    }
    assert_true(n_asked <= SIZE / (CHUNK / 2));
    stop();
}

static void new_commit(void)
{
    x.engine->region.file_nodes[file].known = 2 * 2 + 1;
}

static void let_go(void)
{
    x.engine->region.file_nodes[file].n_let_go++;
}

static void cut(void)
{
    x.engine->region.files[file].n_cuts++;
}

static void clean(void)
{
    x.engine->region.file_nodes[file].n_cleaned++;
}

static void spill(void)
{
    for (uint64_t at = 0; at < SIZE; at += CHUNK)
        x.engine->region.locks->chunk[tb_chunk_of(x.engine, file, at).stripe].n_spilled++;
}

static void become_another_file(void)
{
    x.engine->region.files[file].birth_ns++;
}

/* Whatever would make bytes void that were asked for in a read makes them void here. */
static void test_what_came_ahead_is_void_after_a_change(void **state)
{
    (void)state;
    void (*change[])(void) = {new_commit, let_go, cut, clean, spill, become_another_file};
    for (uint32_t i = 0; i < sizeof(change) / sizeof(*change); i++) {
        start(true, 1);
        read_two(0);
        int64_t birth_ns = x.engine->region.files[file].birth_ns;
        change[i]();
        commit = 2;
        read_right(CHUNK, 2 * CHUNK, 2);
        x.engine->region.files[file].birth_ns = birth_ns;
        stop();
    }
}

static void test_no_one_is_kept_from_a_request_by_what_was_asked_ahead(void **state)
{
    (void)state;
    struct tb_request *r[TB_REQUESTS / 2];
    start(true, 1);
    read_two(0);
    read_right(CHUNK, 2 * CHUNK, 1); /* all that are spare */
    nanosleep(&(struct timespec){0, TB_AHEAD_NS + 20000000}, NULL);
    commit = 2;
    for (uint32_t i = 0; i < TB_REQUESTS / 2; i++) {
        assert_non_null(r[i] = begin(0));
        assert_true(tb_ask_end(x.engine, r[i], UINT64_MAX) > 0);
    }
    for (uint32_t i = 0; i < TB_REQUESTS / 2; i++)
        tb_ask_give(r[i]);
    read_right(CHUNK, 3 * CHUNK, 2);
    stop();
}

/* An answer that came late, because the processors had other work, is old later. */
static void ask_ahead(struct tb_wire *w, struct tb_asked *out)
{
    for (int tries = 0; !tb_ask_ahead(x.engine, w, out); tries++) {
        assert_true(tries < 10000);
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
}

/* Another thread has asked ahead by the same request since. */
static void test_an_answer_is_claimed_by_the_one_that_asked(void **state)
{
    (void)state;
    struct tb_wire w = {.op = TB_WIRE_FETCH, .hi = 4096};
    struct tb_asked own, other[TB_REQUESTS / 2];
    start(true, 1);
    assert_true(tb_ask_ahead(x.engine, &w, &own));
    nanosleep(&(struct timespec){0, TB_AHEAD_NS + 20000000}, NULL);
    for (uint32_t i = 0; i < TB_REQUESTS / 2; i++)
        ask_ahead(&w, &other[i]);
    for (uint32_t i = 0; i < TB_REQUESTS / 2; i++) {
        assert_int_equal(tb_ask_claim(x.engine, &own, UINT64_MAX), -ENOENT);
        assert_true(tb_ask_claim(x.engine, &other[i], UINT64_MAX) > 0);
        tb_ask_put_back(other[i].request);
    }
    stop();
}

static void test_another_place_begins_anew(void **state)
{
    (void)state;
    start(true, 1);
    read_two(0);
    read_right(CHUNK, 8 * CHUNK, 1); /* elsewhere: what came ahead is given up */
    uint32_t before = n_asked;
    read_right(CHUNK, 2 * CHUNK, 1);
    assert_int_equal(n_asked - before, 2);
    stop();
}

static void test_with_second_copies_nothing_is_asked_ahead(void **state)
{
    (void)state;
    start(true, 2);
    for (uint64_t at = 0; at < 4 * CHUNK; at += CHUNK)
        read_right(CHUNK, at, 1);
    assert_int_equal(n_asked, 8);
    stop();
}

static int never(uint64_t lo)
{
    return lo >= 2 * CHUNK ? NEVER : 0;
}

/* What was asked ahead and does not come has the time of a read, and no more. */
static void test_a_node_that_does_not_answer_is_no_hang(void **state)
{
    (void)state;
    start(true, 1);
    read_right(CHUNK, 0, 1);
    delay = never;
    read_right(CHUNK, CHUNK, 1);
    faster = 20;
    uint64_t began = tb_now_ns();
    assert_int_equal(TB_IO(x.io, pread, fd, bytes, CHUNK, 2 * CHUNK), -EIO);
    assert_true(tb_now_ns() - began < 12 * 1000000000ull);
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spare_requests_are_half_of_them),
        cmocka_unit_test(test_a_read_ends_without_spare_requests),
        cmocka_unit_test(test_what_stays_in_a_buffer_is_not_of_the_programs_memory),
        cmocka_unit_test(test_all_pieces_of_a_read_have_one_deadline),
        cmocka_unit_test(test_the_next_pieces_are_asked_for_before_the_program_reads_them),
        cmocka_unit_test(test_small_reads_share_a_piece),
        cmocka_unit_test(test_what_came_ahead_is_void_after_a_change),
        cmocka_unit_test(test_no_one_is_kept_from_a_request_by_what_was_asked_ahead),
        cmocka_unit_test(test_an_answer_is_claimed_by_the_one_that_asked),
        cmocka_unit_test(test_another_place_begins_anew),
        cmocka_unit_test(test_with_second_copies_nothing_is_asked_ahead),
        cmocka_unit_test(test_a_node_that_does_not_answer_is_no_hang),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
