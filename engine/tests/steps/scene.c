/* See scene.h. */
#include "scene.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "base/kill_point.h"
#include "base/report.h"
#include "buffer/heat.h"
#include "buffer/of_file.h"
#include "instance/invariants.h"
#include "layer/descriptions.h"
#include "recovery/recover.h"
#include "tiering/move.h"

#define MEETINGS 4
#define LARGEST 65536

static _Thread_local struct meeting {
    const char *at;
    struct scene *scene;
    scene_part *part;
    bool beside;
} meetings[MEETINGS];

void tb_step(const char *name)
{
    for (size_t i = 0; i < MEETINGS; i++)
        if (meetings[i].at && strcmp(meetings[i].at, name) == 0) {
            struct meeting m = meetings[i];
            meetings[i].at = NULL; /* once */
            if (m.beside)
                begin_beside(m.scene, m.part);
            else
                m.part(m.scene);
            return;
        }
}

static void add_meeting(struct meeting m)
{
    size_t i = 0;
    while (i < MEETINGS && meetings[i].at)
        i++;
    assert_true(i < MEETINGS);
    meetings[i] = m;
}

void meet(struct scene *s, const char *at, scene_part *part)
{
    add_meeting((struct meeting){at, s, part, false});
}

void meet_beside(struct scene *s, const char *at, scene_part *part)
{
    add_meeting((struct meeting){at, s, part, true});
}

void all_met(void)
{
    for (size_t i = 0; i < MEETINGS; i++)
        if (meetings[i].at)
            fail_msg("no process came to \"%s\"", meetings[i].at);
}

void forget_meetings(void)
{
    memset(meetings, 0, sizeof(meetings));
}

struct beside {
    struct scene *scene;
    scene_part *part;
};

static void *run_beside(void *arg)
{
    struct beside b = *(struct beside *)arg;
    free(arg);
    b.part(b.scene);
    return NULL;
}

void begin_beside(struct scene *s, scene_part *part)
{
    struct beside *b = malloc(sizeof(*b));
    assert_non_null(b);
    *b = (struct beside){s, part};
    assert_int_equal(pthread_create(&s->beside, NULL, run_beside, b), 0);
    nanosleep(&(struct timespec){0, 50000000}, NULL);
}

void end_beside(struct scene *s)
{
    pthread_join(s->beside, NULL);
}

void die(struct scene *s)
{
    (void)s;
    raise(SIGKILL);
}

void by_killed_client(struct scene *s, scene_part *part)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        forget_meetings();
        if (tb_engine_attach(s->x.name, tb_io_libc(), &s->x.engine))
            _exit(2);
        s->x.io = tb_engine_route(s->x.engine, s->x.pfs, NULL);
        s->fd = TB_IO(s->x.io, open, fixture_path(&s->x, "f"), O_RDWR, 0);
        part(s);
        raise(SIGKILL);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

int scene_prepare(void **state)
{
    struct scene *s = calloc(1, sizeof(*s));
    assert_non_null(s);
    *state = s;
    sem_init(&s->waits, 0, 0);
    sem_init(&s->goes_on, 0, 0);
    forget_meetings();
    fixture_init(&s->x, TB_MODE_PERSISTENT_ASYNC);
    return 0;
}

void scene_start(struct scene *s)
{
    fixture_start(&s->x);
    s->fd = make(s, "f");
    s->file = tb_open_of(s->x.engine, s->fd)->file;
}

int scene_setup(void **state)
{
    scene_prepare(state);
    scene_start(*state);
    return 0;
}

int scene_teardown(void **state)
{
    struct scene *s = *state;
    all_met();
    if (s->x.engine) {
        assert_true(tb_region_is_valid(s->x.engine));
        close_file(s, s->fd);
    }
    fixture_stop(&s->x);
    sem_destroy(&s->waits);
    sem_destroy(&s->goes_on);
    free(s);
    return 0;
}

void put(struct scene *s, char what, size_t n, off_t at)
{
    char bytes[LARGEST];
    memset(bytes, what, n);
    assert_int_equal(TB_IO(s->x.io, pwrite, s->fd, bytes, n, at), n);
}

void cut(struct scene *s, off_t size)
{
    assert_int_equal(TB_IO(s->x.io, ftruncate, s->fd, size), 0);
}

void sync_file(struct scene *s)
{
    assert_int_equal(TB_IO(s->x.io, fsync, s->fd, false), 0);
}

void flush(struct scene *s)
{
    assert_true(tb_engine_flush(s->x.engine, s->fd) >= 0);
}

void become_coherent(struct scene *s)
{
    assert_int_equal(tb_engine_make_coherent(s->x.engine, s->fd), 0);
}

int make(struct scene *s, const char *name)
{
    int fd = TB_IO(s->x.io, open, fixture_path(&s->x, name), O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    tb_engine_know(s->x.engine, fd);
    return fd;
}

void close_file(struct scene *s, int fd)
{
    assert_int_equal(TB_IO(s->x.io, close, fd), 0);
}

void unlink_name(struct scene *s, const char *name)
{
    assert_int_equal(TB_IO(s->x.io, unlink, fixture_path(&s->x, name), 0), 0);
}

void rename_name(struct scene *s, const char *from, const char *to)
{
    char path[512];
    snprintf(path, sizeof(path), "%s", fixture_path(&s->x, from));
    assert_int_equal(TB_IO(s->x.io, rename, path, fixture_path(&s->x, to), 0), 0);
}

void hide_free(struct tb_slab *slab, struct tb_slab *hidden)
{
    for (uint32_t i = 0; i < TB_LANES; i++) {
        hidden->lane[i].free = slab->lane[i].free;
        hidden->lane[i].n_free = slab->lane[i].n_free;
        slab->lane[i].free = TB_NONE;
        slab->lane[i].n_free = 0;
    }
}

void show_free(struct tb_slab *slab, const struct tb_slab *hidden)
{
    for (uint32_t i = 0; i < TB_LANES; i++) {
        slab->lane[i].free = hidden->lane[i].free;
        slab->lane[i].n_free = hidden->lane[i].n_free;
    }
}

int move_first(struct scene *s)
{
    uint32_t n;
    struct tb_buffer_ref *refs = tb_file_buffers(s->x.engine, s->file, TB_BUFFERS_DIRTY, &n);
    assert_int_equal(n, 1);
    int rc = tb_move(s->x.engine, s->file, refs, 1, TB_HEAT_ANY);
    free(refs);
    return rc;
}

static void note_error(void *arg, const struct tb_file_report *r)
{
    *(int *)arg += r->error != 0;
}

int recover(struct scene *s)
{
    struct tb_error err = {""};
    int errors = 0;
    fixture_lose_region(&s->x);
    int n = tb_instance_recover(&s->x.config, tb_io_libc(), NULL, note_error, &errors, &err);
    assert_int_equal(errors, 0);
    return n;
}

ssize_t by_engine(struct scene *s, int fd, void *to, size_t n, off_t at)
{
    return TB_IO(s->x.io, pread, fd, to, n, at);
}

ssize_t by_kernel(struct scene *s, int fd, void *to, size_t n, off_t at)
{
    (void)s;
    return pread(fd, to, n, at);
}

void expect(struct scene *s, int fd, scene_reader *from, char what, size_t n, off_t at)
{
    char bytes[LARGEST];
    assert_int_equal(from(s, fd, bytes, n, at), n);
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != what)
            fail_msg("byte %zu is %d, not '%c'", (size_t)at + i, bytes[i], what);
}

void expect_size(struct scene *s, off_t size)
{
    struct stat st;
    assert_int_equal(TB_IO(s->x.io, fstat, s->fd, &st), 0);
    assert_int_equal(st.st_size, size);
}

void expect_dirty(struct scene *s, uint32_t n)
{
    assert_int_equal(s->x.engine->region.files[s->file].n_dirty, n);
}

bool is_unlinked(struct scene *s, int fd)
{
    return s->x.engine->region.files[tb_open_of(s->x.engine, fd)->file].flags & TB_FILE_UNLINKED;
}
