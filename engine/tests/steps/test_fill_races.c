/*
 * Bytes of the PFS that become a buffer's: by a read, by read-ahead, in the gap of a write.
 * Others write, flush, cut, pass through or are killed after those bytes were read and
 * before they can be found. What a program reads is never older than what one read before.
 */
#include "scene.h"

#include <errno.h>

#include "buffer/heat.h"
#include "buffer/of_file.h"
#include "flush/flush.h"
#include "layer/descriptions.h"
#include "layer/repair.h"
#include "tiering/move.h"
#include "tiering/prefetch.h"

#define PAGE 4096

static void write_second(struct scene *s)
{
    put(s, '2', PAGE, 0);
}

static void fsync_now(struct scene *s)
{
    assert_int_equal(TB_IO(s->x.io, fsync, s->fd, false), 0);
}

/* The last close, and a first open: what the buffers hold now is read. */
static void open_again(struct scene *s)
{
    close_file(s, s->fd);
    tb_repair(s->x.engine);
    assert_int_equal(s->x.engine->region.files[s->file].n_open, 0);
    s->fd = TB_IO(s->x.io, open, fixture_path(&s->x, "f"), O_RDWR, 0);
    assert_true(s->fd >= 0);
    s->file = tb_open_of(s->x.engine, s->fd)->file;
}

static void drop_clean(struct scene *s)
{
    tb_file_drop_clean(s->x.engine, s->file);
}

static void begin_to_become_coherent(struct scene *s)
{
    meet(s, "coherent", die);
    become_coherent(s);
}

/*
 * A client is killed between the mark of a coherent file and the drop of its buffers. What is
 * written to the PFS after that makes them old, and an fsync looks at the PFS once more.
 */
static void killed_while_it_becomes_coherent(void **state)
{
    struct scene *s = *state;
    put(s, '1', PAGE, 0);
    flush(s);
    by_killed_client(s, begin_to_become_coherent);
    write_second(s);
    fsync_now(s);
    expect(s, s->fd, by_engine, '2', PAGE, 0);
    open_again(s);
    expect(s, s->fd, by_engine, '2', PAGE, 0);
    assert_false(s->x.engine->region.files[s->file].flags & TB_FILE_COHERENT); /* no buffer was left */
}

/* The same, and none but a mapping changes the file before its last close. */
static void killed_while_it_becomes_coherent_and_closed(void **state)
{
    struct scene *s = *state;
    put(s, '1', PAGE, 0);
    flush(s);
    by_killed_client(s, begin_to_become_coherent);
    char bytes[PAGE];
    memset(bytes, '2', sizeof(bytes));
    assert_int_equal(pwrite(s->fd, bytes, sizeof(bytes), 0), sizeof(bytes));
    fsync_now(s);
    open_again(s);
    expect(s, s->fd, by_engine, '2', PAGE, 0);
}

static void write_while_it_becomes_coherent(struct scene *s)
{
    meet(s, "write begins", become_coherent);
    meet(s, "bytes put", die);
    write_second(s);
}

/* A write that began before the mark, of a client that is killed after it: a read flushes what it left, the next write passes by. */
static void killed_in_a_write_to_a_coherent_file(void **state)
{
    struct scene *s = *state;
    char byte;
    put(s, '1', PAGE, 0);
    by_killed_client(s, write_while_it_becomes_coherent);
    assert_int_equal(s->x.engine->region.files[s->file].n_buffers, 0); /* it was about to pass by */
    assert_int_equal(by_engine(s, s->fd, &byte, 1, 0), 1);
    put(s, '3', PAGE, 0);
    fsync_now(s);
    open_again(s);
    expect(s, s->fd, by_engine, '3', PAGE, 0);
}

/* A write that began before the mark goes on past the buffers, as a whole. */
static void coherent_while_a_write_begins(void **state)
{
    struct scene *s = *state;
    put(s, '1', 2 * PAGE, 0);
    meet(s, "write begins", become_coherent);
    write_second(s);
    expect(s, s->fd, by_kernel, '2', PAGE, 0);
    expect(s, s->fd, by_kernel, '1', PAGE, PAGE);
    assert_int_equal(s->x.engine->region.files[s->file].n_buffers, 0);
}

static int n_failing;

static ssize_t fail_pwrite(struct tb_io *io, int fd, const void *from, size_t n, off_t at)
{
    return n_failing-- > 0 ? -ENOSPC : tb_io_libc()->ops->pwrite(io, fd, from, n, at);
}

/* So that there is something to flush after the mark, in vain. */
static void write_far_and_fail(struct scene *s)
{
    put(s, '1', PAGE, 16 * PAGE);
    n_failing = 1;
}

/* The PFS has no room for the bytes, so the file stays buffered. A write that passed through in between is no less there. */
static void written_while_it_stays_buffered(void **state)
{
    static struct tb_io_ops ops;
    static struct tb_io base = {.ops = &ops};
    struct scene *s = *state;
    ops = *tb_io_libc()->ops;
    ops.pwrite = fail_pwrite;
    n_failing = 0;
    s->x.base = &base;
    scene_start(s);
    put(s, '1', PAGE, 0);
    flush(s);
    meet(s, "become coherent", write_far_and_fail);
    meet_beside(s, "coherent", write_second);
    assert_int_equal(tb_engine_make_coherent(s->x.engine, s->fd), -ENOSPC);
    end_beside(s);
    expect(s, s->fd, by_engine, '2', PAGE, 0);
    assert_int_equal(TB_IO(s->x.io, fsync, s->fd, false), -ENOSPC); /* told once more, and then no longer */
    flush(s);
    expect(s, s->fd, by_kernel, '2', PAGE, 0);
}

static void overwrite_and_die(struct scene *s)
{
    meet(s, "overwritten", die);
    write_second(s);
}

static void other_overwrites_and_dies(struct scene *s)
{
    by_killed_client(s, overwrite_and_die);
}

/* What a killed writer left in a buffer that is being flushed must not count as clean: the PFS does not have it. */
static void killed_writer_while_flushed(void **state)
{
    struct scene *s = *state;
    char before, after;
    put(s, '1', PAGE, 0);
    meet(s, "flush written", other_overwrites_and_dies);
    flush(s);
    assert_int_equal(by_engine(s, s->fd, &before, 1, 0), 1);
    drop_clean(s);
    assert_int_equal(by_engine(s, s->fd, &after, 1, 0), 1);
    assert_int_equal(after, before);
}

static char seen_in_between;

static void other_overwrites_and_one_reads(struct scene *s)
{
    other_overwrites_and_dies(s);
    assert_int_equal(by_engine(s, s->fd, &seen_in_between, 1, 0), 1);
}

/* A move has copied the buffer. A reader saw what the killed writer left: the older copy must not be published. */
static void killed_writer_while_moved(void **state)
{
    struct scene *s = *state;
    uint32_t n;
    put(s, '1', PAGE, 0);
    struct tb_buffer_ref *refs = tb_file_buffers(s->x.engine, s->file, TB_BUFFERS_DIRTY, &n);
    assert_int_equal(n, 1);
    meet(s, "move copied", other_overwrites_and_one_reads);
    assert_int_equal(tb_move(s->x.engine, s->file, refs, 1, TB_HEAT_ANY), -EAGAIN);
    free(refs);
    expect(s, s->fd, by_engine, seen_in_between, PAGE, 0);
}

/* A file that only the PFS has. */
static void leave_on_pfs(struct scene *s, char what, size_t n)
{
    put(s, what, n, 0);
    flush(s);
    drop_clean(s);
    assert_int_equal(s->x.engine->region.files[s->file].n_buffers, 0);
}

static enum tb_fetch fetch(struct scene *s, size_t n)
{
    int fd = -1;
    uint64_t at = 0;
    enum tb_fetch result = tb_fetch(s->x.engine, s->file, &fd, &at, n);
    if (fd >= 0)
        close(fd);
    return result;
}

static struct tb_slab hidden[TB_MAX_TIERS * TB_MAX_SLABS];

static void fill_tiers(struct scene *s)
{
    for (uint32_t i = 0; i < s->x.engine->header->layout.n_slabs; i++)
        hide_free(&s->x.engine->region.slabs[i], &hidden[i]);
}

static void empty_tiers(struct scene *s)
{
    for (uint32_t i = 0; i < s->x.engine->header->layout.n_slabs; i++)
        show_free(&s->x.engine->region.slabs[i], &hidden[i]);
}

/* Without room the bytes go to the PFS. */
static void spill_second(struct scene *s)
{
    uint64_t before = s->x.engine->header->totals.spilled;
    fill_tiers(s);
    write_second(s);
    empty_tiers(s);
    assert_true(s->x.engine->header->totals.spilled > before);
}

static void spill_and_die(struct scene *s)
{
    meet(s, "spilled", die);
    write_second(s);
}

static void other_spills_and_dies(struct scene *s)
{
    fill_tiers(s);
    by_killed_client(s, spill_and_die);
    empty_tiers(s);
}

static void fetched_while(struct scene *s, scene_part *part)
{
    leave_on_pfs(s, '1', 2 * PAGE);
    meet(s, "piece fetched", part);
    fetch(s, 2 * PAGE);
    expect(s, s->fd, by_engine, '2', PAGE, 0);
    expect(s, s->fd, by_engine, '1', PAGE, PAGE);
}

static void fetched_while_spilled(void **state)
{
    fetched_while(*state, spill_second);
}

static void fetched_while_a_killed_writer_spilled(void **state)
{
    fetched_while(*state, other_spills_and_dies);
}

/* What a writer put there in between has an owner. */
static void fetched_while_written(void **state)
{
    fetched_while(*state, write_second);
}

static void flush_and_drop(struct scene *s)
{
    flush(s);
    drop_clean(s);
}

static void write_and_begin_to_flush(struct scene *s)
{
    write_second(s);
    begin_beside(s, flush_and_drop); /* it waits for the claim: else the bytes had no owner again when they are published */
}

static void fetched_while_written_and_flushed(void **state)
{
    struct scene *s = *state;
    leave_on_pfs(s, '1', 2 * PAGE);
    meet(s, "piece fetched", write_and_begin_to_flush);
    fetch(s, 2 * PAGE);
    end_beside(s);
    expect(s, s->fd, by_engine, '2', PAGE, 0);
    expect(s, s->fd, by_engine, '1', PAGE, PAGE);
}

static void cut_to_one_page(struct scene *s)
{
    cut(s, PAGE);
}

static void begin_to_cut(struct scene *s)
{
    begin_beside(s, cut_to_one_page);
}

static void fetched_while_cut(void **state)
{
    struct scene *s = *state;
    leave_on_pfs(s, '1', 2 * PAGE);
    meet(s, "piece fetched", begin_to_cut);
    fetch(s, 2 * PAGE);
    end_beside(s);
    cut(s, 2 * PAGE);
    expect(s, s->fd, by_engine, '1', PAGE, 0);
    expect(s, s->fd, by_engine, 0, PAGE, PAGE);
}

static void pass_through(struct scene *s)
{
    become_coherent(s);
    write_second(s);
}

static void begin_to_pass_through(struct scene *s)
{
    begin_beside(s, pass_through);
}

static void fetched_while_coherent(void **state)
{
    struct scene *s = *state;
    leave_on_pfs(s, '1', 2 * PAGE);
    meet(s, "piece fetched", begin_to_pass_through);
    fetch(s, 2 * PAGE);
    end_beside(s);
    fsync_now(s);
    open_again(s);
    expect(s, s->fd, by_engine, '2', PAGE, 0);
}

/* No process of the instance has the file open. A program outside changes it, and one that opens it must see that. */
static void change_outside_and_open(struct scene *s)
{
    char bytes[PAGE];
    memset(bytes, '2', sizeof(bytes));
    int fd = open(fixture_path(&s->x, "f"), O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, bytes, sizeof(bytes), 0), sizeof(bytes));
    close(fd);
    s->fd = TB_IO(s->x.io, open, fixture_path(&s->x, "f"), O_RDWR, 0);
    assert_true(s->fd >= 0);
}

static void close_and_begin_to_change_outside(struct scene *s)
{
    close_file(s, s->fd);
    begin_beside(s, change_outside_and_open); /* the open waits for the claim, and drops what was fetched */
}

static void fetched_while_changed_outside(void **state)
{
    struct scene *s = *state;
    leave_on_pfs(s, '1', 2 * PAGE);
    meet(s, "piece fetched", close_and_begin_to_change_outside);
    fetch(s, 2 * PAGE);
    end_beside(s);
    expect(s, s->fd, by_engine, '2', PAGE, 0);
}

/* The second read of a page keeps it. Others come while it has been read, and is not found yet. */
static void stage_while(struct scene *s, const char *at, scene_part *part)
{
    char byte;
    assert_int_equal(by_engine(s, s->fd, &byte, 1, PAGE), 1);
    meet_beside(s, at, part);
    assert_true(by_engine(s, s->fd, &byte, 1, PAGE) >= 0); /* a cut may come before its end */
    end_beside(s);
}

static void pass_through_and_fsync(struct scene *s)
{
    become_coherent(s);
    put(s, '2', 2 * PAGE, 0);
    fsync_now(s);
}

static void staged_while_coherent(void **state)
{
    struct scene *s = *state;
    leave_on_pfs(s, '1', 2 * PAGE);
    stage_while(s, "bytes fetched", pass_through_and_fsync);
    open_again(s);
    expect(s, s->fd, by_engine, '2', 2 * PAGE, 0);
}

static void staged_while_cut(void **state)
{
    struct scene *s = *state;
    leave_on_pfs(s, '1', 2 * PAGE);
    stage_while(s, "bytes fetched", cut_to_one_page);
    cut(s, 2 * PAGE);
    expect(s, s->fd, by_engine, 0, PAGE, PAGE);
}

static void write_flush_and_drop(struct scene *s)
{
    put(s, '2', 2 * PAGE, 0);
    flush_and_drop(s);
}

/* The reader has the chunk, so all of that comes after it. */
static void staged_while_written_and_flushed(void **state)
{
    struct scene *s = *state;
    leave_on_pfs(s, '1', 2 * PAGE);
    stage_while(s, "bytes fetched", write_flush_and_drop);
    expect(s, s->fd, by_engine, '2', 2 * PAGE, 0);
}

/* A large buffer with a page in it, and the page after that only on the PFS. */
static void leave_hole(struct scene *s)
{
    put(s, '1', 16 * PAGE, 0);
    flush(s);
    drop_clean(s);
    struct tb_slab *small = &s->x.engine->region.slabs[0], rest;
    hide_free(small, &rest);
    put(s, '1', 100, 3 * PAGE);
    show_free(small, &rest);
    flush(s);
    assert_int_equal(s->x.engine->region.files[s->file].n_buffers, 1);
}

static void hole_kept_while_coherent(void **state)
{
    struct scene *s = *state;
    leave_hole(s);
    stage_while(s, "hole fetched", pass_through_and_fsync);
    open_again(s);
    expect(s, s->fd, by_engine, '2', 2 * PAGE, 0);
}

static void hole_kept_while_cut(void **state)
{
    struct scene *s = *state;
    leave_hole(s);
    stage_while(s, "hole fetched", cut_to_one_page);
    cut(s, 2 * PAGE);
    expect(s, s->fd, by_engine, 0, PAGE, PAGE);
}

static void hole_kept_while_written_and_flushed(void **state)
{
    struct scene *s = *state;
    leave_hole(s);
    stage_while(s, "hole fetched", write_flush_and_drop);
    expect(s, s->fd, by_engine, '2', 2 * PAGE, 0);
}

/* A write fills the gap in its page from the PFS. A pass-through write to that gap comes before that, or after the flush. */
static void write_into_gap(struct scene *s)
{
    become_coherent(s);
    put(s, '3', 100, 1000);
}

static void gap_filled_while_coherent(void **state)
{
    struct scene *s = *state;
    leave_on_pfs(s, '1', PAGE);
    put(s, '2', 100, 0);
    meet_beside(s, "gap fetched", write_into_gap);
    put(s, '2', 100, 2000);
    end_beside(s);
    expect(s, s->fd, by_kernel, '2', 100, 0);
    expect(s, s->fd, by_kernel, '3', 100, 1000);
    expect(s, s->fd, by_kernel, '2', 100, 2000);
    expect(s, s->fd, by_engine, '3', 100, 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scene_test(killed_while_it_becomes_coherent),
        scene_test(killed_while_it_becomes_coherent_and_closed),
        scene_test(killed_in_a_write_to_a_coherent_file),
        scene_test(coherent_while_a_write_begins),
        cmocka_unit_test_setup_teardown(written_while_it_stays_buffered, scene_prepare, scene_teardown),
        scene_test(killed_writer_while_flushed),
        scene_test(killed_writer_while_moved),
        scene_test(fetched_while_spilled),
        scene_test(fetched_while_a_killed_writer_spilled),
        scene_test(fetched_while_written),
        scene_test(fetched_while_written_and_flushed),
        scene_test(fetched_while_cut),
        scene_test(fetched_while_coherent),
        scene_test(fetched_while_changed_outside),
        scene_test(staged_while_coherent),
        scene_test(staged_while_cut),
        scene_test(staged_while_written_and_flushed),
        scene_test(hole_kept_while_coherent),
        scene_test(hole_kept_while_cut),
        scene_test(hole_kept_while_written_and_flushed),
        scene_test(gap_filled_while_coherent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
