/*
 * Others write, flush, fsync and are killed while an fsync records the few bytes that were written since its last records, or waits
 * for a sync that another client makes for both.
 */
#include "scene.h"

#include "flush/flush.h"
#include "flush/program.h"
#include "instance/invariants.h"
#include "region/counters.h"

#define LARGE 65536u /* a buffer of that size has too many bytes for the journal */

static void write_second(struct scene *s)
{
    put(s, '2', 100, 1000);
}

static void write_third(struct scene *s)
{
    put(s, '3', 100, 1000);
}

static void flush_file(struct scene *s)
{
    assert_int_equal(tb_flush_file(s->x.engine, s->file, -1, true).error, 0);
}

/* All of the buffer has a record in a slab, and the next write makes a copy in memory. */
static void keep_all(struct scene *s)
{
    put(s, '1', LARGE, 0);
    sync_file(s);
}

static void expect_in_memory(struct scene *s)
{
    assert_int_equal(tb_tier_dirty(s->x.engine->header, 0), LARGE);
}

static void crash_and_expect(struct scene *s, char what)
{
    close_file(s, s->fd);
    assert_true(tb_region_is_valid(s->x.engine));
    assert_true(recover(s) >= 0);
    int fd = open(fixture_path(&s->x, "f"), O_RDONLY | O_CLOEXEC);
    expect(s, fd, by_kernel, '1', 1000, 0);
    expect(s, fd, by_kernel, what, 100, 1000);
    expect(s, fd, by_kernel, '1', LARGE - 1100, 1100);
    close(fd);
}

/* A flush made the records void, and then an fsync wrote one of the new bytes: it must not outlive them. */
static void recorded_while_flushed(void **state)
{
    struct scene *s = *state;
    keep_all(s);
    write_second(s);
    meet(s, "dropped records", sync_file);
    flush_file(s);
    write_third(s);
    flush_file(s);
    crash_and_expect(s, '3');
}

static void flushed_while_recorded(void **state)
{
    struct scene *s = *state;
    keep_all(s);
    write_second(s);
    meet(s, "commit", flush_file);
    sync_file(s);
    crash_and_expect(s, '2');
}

/* What is written after the record was made is not what the sync makes durable. */
static void written_while_recorded(void **state)
{
    struct scene *s = *state;
    keep_all(s);
    write_second(s);
    meet(s, "commit", write_third);
    sync_file(s);
    expect_in_memory(s);
    sync_file(s);
    crash_and_expect(s, '3');
}

static void fsynced_twice_at_once(void **state)
{
    struct scene *s = *state;
    keep_all(s);
    write_second(s);
    meet_beside(s, "part recorded", sync_file);
    sync_file(s);
    end_beside(s);
    write_third(s);
    sync_file(s);
    expect_in_memory(s);
    crash_and_expect(s, '3');
}

static void die_recording(struct scene *s)
{
    meet(s, "part recorded", die);
    write_second(s);
    TB_IO(s->x.io, fsync, s->fd, false);
}

static void killed_while_it_records(void **state)
{
    struct scene *s = *state;
    keep_all(s);
    by_killed_client(s, die_recording);
    sync_file(s);
    expect_in_memory(s);
    crash_and_expect(s, '2');
}

/* The third bound: the interval covers more than was written, or all of it. */
static int n_bounds;

static void die_at_third(struct scene *s)
{
    if (++n_bounds == 3)
        die(s);
    meet(s, "unrecorded bound", die_at_third);
}

static void die_noting(struct scene *s)
{
    n_bounds = 0;
    write_second(s);
    sync_file(s); /* nothing is without a record now */
    meet(s, "unrecorded bound", die_at_third);
    write_third(s);
}

static void killed_while_it_notes(void **state)
{
    struct scene *s = *state;
    keep_all(s);
    by_killed_client(s, die_noting);
    write_third(s);
    sync_file(s);
    crash_and_expect(s, '3');
}

static struct tb_commit *commit_of(struct scene *s)
{
    return &s->x.engine->header->journal.commit;
}

static void wait_a_little(void)
{
    nanosleep(&(struct timespec){0, 1000000}, NULL);
}

static uint64_t n_asked; /* by the others, before */

/* The other one has asked, and has time enough to wait for this one's sync. */
static void die_as_leader(struct scene *s)
{
    while (commit_of(s)->wanted < n_asked + 2)
        wait_a_little();
    nanosleep(&(struct timespec){0, 50000000}, NULL);
    die(s);
}

static void lead_and_die(struct scene *s)
{
    meet(s, "commit", die_as_leader);
    TB_IO(s->x.io, fsync, s->fd, false);
}

static void follow(struct scene *s)
{
    int own = getpid(), holder;
    while ((holder = atomic_load(&commit_of(s)->lock.holder)) == own || !holder)
        wait_a_little();
    sync_file(s);
}

/* Nothing wakes the one that waits: it has to look. */
static void the_leader_is_killed(void **state)
{
    struct scene *s = *state;
    keep_all(s);
    write_second(s);
    n_asked = commit_of(s)->wanted;
    begin_beside(s, follow);
    by_killed_client(s, lead_and_die);
    end_beside(s);
    crash_and_expect(s, '2');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scene_test(recorded_while_flushed), scene_test(flushed_while_recorded),  scene_test(written_while_recorded),
        scene_test(fsynced_twice_at_once),  scene_test(killed_while_it_records), scene_test(killed_while_it_notes),
        scene_test(the_leader_is_killed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
