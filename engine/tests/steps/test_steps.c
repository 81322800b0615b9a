/*
 * A client is killed at every named point of the engine (base/kill_point.h), at the first,
 * a middle and the last time it comes there.  Another client goes on: nothing
 * that returned is lost, no lock stays taken, no buffer leaks, the region is
 * valid.  Then the same with the region lost: nothing that was fsynced is lost.
 */
#include "fixture.h"

#include <ctype.h>
#include <errno.h>
#include <dirent.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "base/kill_point.h"
#include "base/report.h"
#include "instance/invariants.h"
#include "file/claim.h"
#include "file/file.h"
#include "file/state.h"
#include "flush/flush.h"
#include "flush/queue.h"
#include "instance/drain.h"
#include "recovery/recover.h"
#include "layer/repair.h"
#include "script.h"

#define MAX_POINTS 200

/* Between the test and the client that it kills. */
static struct shared {
    _Atomic int n_points, done;
    char name[MAX_POINTS][40];
    _Atomic int hits[MAX_POINTS];
    int kill_point, kill_hit;
} *shared;

static bool is_victim;
static tb_engine *victim;

static int point_of(const char *name)
{
    for (int i = 0; i < shared->n_points; i++)
        if (strcmp(shared->name[i], name) == 0)
            return i;
    assert_true(shared->n_points < MAX_POINTS);
    snprintf(shared->name[shared->n_points], sizeof(shared->name[0]), "%s", name);
    return shared->n_points++;
}

void tb_step(const char *name)
{
    if (!is_victim)
        return;
    int point = point_of(name);
    if (++shared->hits[point] == shared->kill_hit && point == shared->kill_point)
        raise(SIGKILL);
}

static void start(struct fixture *x)
{
    fixture_init(x, TB_MODE_PERSISTENT_ASYNC);
    x->config.max_files = 64;
    x->config.flush.policy = TB_FLUSH_ON_CLOSE;
    x->config.flush.background = true;
    x->config.tiers[0].capacity = 2u << 20;
    x->config.tiers[1].capacity = 512u << 10;
    x->config.tiers[2].capacity = 512u << 10;
    fixture_start(x);
    assert_int_equal(tb_instance_become_daemon(x->engine), 0); /* in name: the victim takes from the queue itself */
}

static void flush_queue(void)
{
    for (uint32_t file; (file = tb_flush_dequeue(victim)) != TB_NONE;) {
        tb_file_claim(victim, file);
        tb_file_end_taking(&victim->region.files[file]);
        tb_flush_claimed(victim, file, -1, false);
        tb_file_unclaim(victim, file);
    }
}

/* A client that runs the script and is killed at the point; `point` -1: it lives. */
static void run_victim(struct fixture *x, int point, int hit)
{
    alarm(0);
    shared->kill_point = point;
    shared->kill_hit = hit;
    shared->done = 0;
    for (int i = 0; i < MAX_POINTS; i++)
        shared->hits[i] = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (tb_engine_attach(x->name, tb_io_libc(), &victim))
            _exit(2);
        is_victim = true;
        _exit(script_run(tb_engine_route(victim, x->pfs, NULL), x->pfs, flush_queue, &shared->done) ? 3 : 0);
    }
    int status;
    waitpid(child, &status, 0);
    bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    if (point < 0 ? status != 0 : !killed)
        fail_msg("%s, hit %d: the client ended with %x after %d operations", point < 0 ? "no point" : shared->name[point], hit,
                 (unsigned)status, shared->done);
}

/* What another client does in the same chunks before any repair. */
static void go_on(struct fixture *x)
{
    static const char *const names[] = {"a", "a2", "b", "d", "dir/c", "dir2/c", SCRIPT_FILL};
    char bytes[9000];
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        int fd = TB_IO(x->io, open, fixture_path(x, names[i]), O_RDWR, 0);
        if (fd < 0)
            continue;
        struct stat st;
        TB_IO(x->io, fstat, fd, &st);
        for (off_t at = 0; at < st.st_size; at += 60000) {
            ssize_t n = TB_IO(x->io, pread, fd, bytes, sizeof(bytes), at);
            assert_true(n >= 0);
            assert_int_equal(TB_IO(x->io, pwrite, fd, bytes, (size_t)n, at), n); /* as it was, but dirty and newer */
        }
        assert_int_equal(TB_IO(x->io, fsync, fd, false), 0);
        TB_IO(x->io, close, fd);
    }
}

static uint32_t free_fragments(tb_engine *e)
{
    uint32_t n = 0, per = e->header->layout.fragment_bytes / sizeof(struct tb_interval);
    for (uint32_t i = e->header->fragments.free; i != TB_NONE; n++)
        memcpy(&i, &e->region.fragments[(size_t)i * per], sizeof(i));
    return n;
}

static uint32_t free_descriptions(const tb_engine *e)
{
    uint32_t n = 0;
    for (uint32_t i = (uint32_t)e->header->opens.free; i != TB_NONE && n <= e->region.n_opens; i = e->region.opens[i].next_free)
        n += e->region.opens[i].magic == 0;
    return n;
}

/* The one that this client keeps for its next late open. */
static uint32_t kept_descriptions(const tb_engine *e)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < e->region.n_opens; i++)
        n += e->region.opens[i].magic && e->region.opens[i].file == TB_NONE &&
             e->region.holders[(size_t)i * e->region.n_holders + e->slot / 64] >> (e->slot % 64) & 1;
    return n;
}

/* Everything is free or holds clean bytes of a file. No file is open. */
static void check_no_leak(tb_engine *e, const char *where)
{
    uint32_t n_fragments = free_fragments(e);
    for (uint32_t i = 0; i < e->header->layout.n_buffers; i++) {
        const struct tb_buffer *b = &e->region.buffers[i];
        if (b->state != TB_BUFFER_FREE && b->state != TB_BUFFER_LIVE)
            fail_msg("%s: buffer %u leaked in state %x", where, i, b->state);
        n_fragments += b->state == TB_BUFFER_LIVE && b->fragment != TB_NONE;
    }
    if (free_descriptions(e) + kept_descriptions(e) != e->region.n_opens || kept_descriptions(e) > 1)
        fail_msg("%s: %u of %u descriptions are free", where, free_descriptions(e), e->region.n_opens);
    if (n_fragments != e->header->layout.n_fragments)
        fail_msg("%s: %u of %u fragments are left", where, n_fragments, e->header->layout.n_fragments);
}

static void report_failure(void *arg, const struct tb_file_report *r)
{
    if (r->error)
        print_error("%s: %s: %s\n", (const char *)arg, r->path, strerror(-r->error));
}

static void kill_and_go_on(int point, int hit)
{
    struct fixture x;
    char where[100];
    start(&x);
    run_victim(&x, point, hit);
    snprintf(where, sizeof(where), "killed at %s, hit %d", shared->name[point], hit);
    alarm(20); /* a lock that stays taken ends the test here */
    go_on(&x);
    tb_repair(x.engine);
    if (!tb_region_is_valid(x.engine))
        fail_msg("%s: the region is not valid after repair", where);
    assert_int_equal(tb_instance_drain(x.engine, 1, NULL, report_failure, where), 0);
    if (!tb_region_is_valid(x.engine))
        fail_msg("%s: the region is not valid after the drain", where);
    check_no_leak(x.engine, where);
    const char *wrong = script_check(x.pfs, shared->done, false);
    if (wrong)
        fail_msg("%s: %s", where, wrong);
    alarm(0);
    fixture_stop(&x);
}

static void kill_and_lose_region(int point, int hit)
{
    struct fixture x;
    struct tb_error err = {""};
    char where[100];
    start(&x);
    run_victim(&x, point, hit);
    snprintf(where, sizeof(where), "killed at %s, hit %d, region lost", shared->name[point], hit);
    fixture_lose_region(&x);
    int rc = tb_instance_recover(&x.config, tb_io_libc(), NULL, report_failure, where, &err);
    const char *wrong = rc == 1 ? script_check(x.pfs, shared->done, true) : "recovery failed";
    if (wrong)
        fail_msg("%s: %s (%d)", where, wrong, rc);
    fixture_stop(&x);
}

/* How often the client comes to each point when it is not killed. */
static int count_hits(int *hits)
{
    struct fixture x;
    start(&x);
    run_victim(&x, -1, 0);
    memcpy(hits, (const int *)shared->hits, sizeof(shared->hits));
    tb_repair(x.engine);
    assert_true(tb_region_is_valid(x.engine));
    assert_int_equal(tb_instance_drain(x.engine, 1, NULL, NULL, NULL), 0);
    check_no_leak(x.engine, "no kill");
    assert_null(script_check(x.pfs, shared->done, false));
    fixture_stop(&x);
    return shared->n_points;
}

static void at_every_point(void (*act)(int point, int hit))
{
    int hits[MAX_POINTS], n = count_hits(hits);
    for (int point = 0; point < n; point++) {
        int at[] = {1, hits[point] / 3, hits[point] - hits[point] / 4, hits[point]};
        for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++)
            if (at[i] > 0 && (i == 0 || at[i] != at[i - 1]))
                act(point, at[i]);
    }
}

static void killed_at_every_point(void **state)
{
    (void)state;
    at_every_point(kill_and_go_on);
}

static void region_lost_at_every_point(void **state)
{
    (void)state;
    at_every_point(kill_and_lose_region);
}

/* The points of one source file that the script never comes to. */
static int missing_in(const char *file)
{
    char line[1000];
    int missing = 0;
    FILE *f = fopen(file, "r");
    while (f && fgets(line, sizeof(line), f)) {
        char *at = strstr(line, "TB_STEP(\""), *end = at ? strchr(at + 9, '"') : NULL;
        if (!end)
            continue;
        *end = 0;
        int n = shared->n_points;
        if (point_of(at + 9) == n) {
            print_error("%s: the script never comes to \"%s\"\n", file, at + 9);
            missing++;
        }
    }
    if (f)
        fclose(f);
    return missing;
}

static int missing_below(const char *folder)
{
    char path[900];
    int missing = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *entry; (entry = readdir(d));) {
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
            missing += missing_below(path);
        else if (strstr(entry->d_name, ".c"))
            missing += missing_in(path);
    }
    closedir(d);
    return missing;
}

static void script_comes_to_every_point(void **state)
{
    (void)state;
    char folder[600];
    int hits[MAX_POINTS];
    snprintf(folder, sizeof(folder), "%s/engine/src", getenv("TB_SOURCE_DIR"));
    count_hits(hits);
    assert_int_equal(missing_below(folder), 0);
    shared->n_points = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(script_comes_to_every_point),
        cmocka_unit_test(killed_at_every_point),
        cmocka_unit_test(region_lost_at_every_point),
    };
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
