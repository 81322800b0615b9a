/*
 * One node's daemon and its keeper without a network between: this node is node 0, where the keeper is, unless a test says another number;
 * node 1 is the other one.
 */
#ifndef TB_TEST_TURN_H
#define TB_TEST_TURN_H

#include "fixture.h"

#include <errno.h>
#include <pthread.h>

#include "copies/orphans.h"
#include "copies/store.h"
#include "file/file.h"
#include "io/identity.h"
#include "keeper.h"
#include "let_go.h"
#include "owed.h"
#include "relay.h"
#include "shared/commit.h"
#include "shared/local.h"
#include "shared/recent.h"
#include "turn.h"

#define SIZE 16384u

static struct fixture x;
static int fd;
static uint32_t file;
static struct tb_wire_file id;

static enum tb_wire_op asked[64]; /* of the keeper, in order */
static struct tb_wire last;       /* the latest commit */
static int n_asked, n_told;
static void (*meanwhile)(void); /* once, while a commit is on its way */
static int fails, lies;         /* so many calls of the keeper, before it has heard of them; or after */

static unsigned self;    /* another number than the keeper's, where copies are sent */
static bool other_lives; /* node 1 */

unsigned tb_net_self(const struct tb_net *net)
{
    (void)net;
    return self;
}

int tb_net_is_alive(const struct tb_net *net, unsigned node)
{
    (void)net;
    return node != 1 || other_lives;
}

static unsigned count, n_holders; /* nodes; those from 2 on that say of the file what is here */

unsigned tb_net_count(const struct tb_net *net)
{
    (void)net;
    return count;
}

const char *tb_net_name(const struct tb_net *net, unsigned node)
{
    (void)net;
    return node ? "other" : "self";
}

static inline int64_t ask_keeper(const struct tb_wire *w, size_t n, void *answer, size_t room)
{
    if (w->op == TB_WIRE_COMMIT) {
        void (*act)(void) = meanwhile;
        meanwhile = NULL;
        last = *w;
        if (act)
            act();
    }
    if (fails && fails--)
        return -ETIMEDOUT;
    asked[n_asked++ % 64] = w->op;
    bool copies = w->op == TB_WIRE_COPY || w->op == TB_WIRE_WHERE_COPY || w->op == TB_WIRE_READ_COPY;
    int64_t got =
        copies ? copies_answer(self, w, w + 1, n - sizeof(*w), answer, room) : keeper_answer(self, w, w + 1, n - sizeof(*w), answer, room);
    return lies && lies-- ? -ETIMEDOUT : got;
}

/* What another node has of a file without a keeper. */
static inline int64_t ask_orphan(const struct tb_net *net, unsigned node, const struct tb_wire *w, void *answer, size_t room)
{
    void (*after)(void) = meanwhile;
    int64_t got = sizeof(struct tb_told);
    memset(answer, 0, sizeof(struct tb_told));
    if (node < 2 + n_holders)
        got = w->op == TB_WIRE_DIRTY ? orphans_answer(x.engine, net, w, answer, room)
                                     : (int64_t)(w->hi - w->lo) + tb_local_read(x.engine, &w->file, w->lo, w->hi, answer);
    meanwhile = NULL;
    if (after)
        after();
    return got;
}

/* The other node is told, and is busy. */
int64_t tb_net_call(struct tb_net *net, unsigned node, const void *request, size_t n, void *answer, size_t room)
{
    const struct tb_wire *w = request;
    if (w->op == TB_WIRE_DIRTY || w->op == TB_WIRE_READ)
        return ask_orphan(net, node, w, answer, room);
    n_told += node == 1;
    return node ? -EAGAIN : ask_keeper(request, n, answer, room);
}

static inline int64_t by_other(struct tb_wire w, const struct tb_wire_range *range)
{
    static uint64_t clock;
    struct relay_answer a;
    w.file = id;
    w.n = range != NULL;
    w.hi = ++clock;
    assert_true(keeper_answer(1, &w, range, range ? sizeof(*range) : 0, &a, sizeof(a)) >= 0);
    return (int64_t)a.told.version;
}

static inline int64_t committed_by_other(uint64_t lo, uint64_t hi)
{
    return by_other((struct tb_wire){.op = TB_WIRE_COMMIT}, &(struct tb_wire_range){lo, hi});
}

static inline bool is_of(uint32_t node, uint64_t lo, uint64_t hi)
{
    struct relay_answer a;
    struct tb_wire w = {.op = TB_WIRE_WHERE, .file = id, .lo = lo, .hi = hi, .version = 8};
    assert_true(keeper_answer(0, &w, NULL, 0, &a, sizeof(a)) >= 0);
    return a.told.n == 1 && a.extent[0].node == node && a.extent[0].lo <= lo && a.extent[0].hi >= hi;
}

static inline bool is_nobodys(uint64_t lo, uint64_t hi)
{
    struct relay_answer a;
    struct tb_wire w = {.op = TB_WIRE_WHERE, .file = id, .lo = lo, .hi = hi, .version = 8};
    assert_true(keeper_answer(0, &w, NULL, 0, &a, sizeof(a)) >= 0);
    return a.told.n == 0;
}

static struct {
    struct tb_told told;
    struct tb_wire_range range[16];
} said;

static inline int64_t say(uint64_t how)
{
    char bytes[4096];
    struct tb_wire w = {.op = TB_WIRE_SAY, .file = id, .version = how};
    memcpy(bytes, &w, sizeof(w));
    int64_t got = relay_request(x.engine, NULL, bytes, sizeof(w), sizeof(bytes));
    if (got > 0)
        memcpy(&said, bytes, (size_t)got);
    return got;
}

static inline void say_end(void)
{
    char bytes[4096];
    struct tb_wire_range all = {0, SIZE};
    struct tb_wire w = {.op = TB_WIRE_SAY_END, .file = id, .n = 1};
    memcpy(bytes, &w, sizeof(w));
    memcpy(bytes + sizeof(w), &all, sizeof(all));
    assert_true(relay_request(x.engine, NULL, bytes, sizeof(w) + sizeof(all), sizeof(bytes)) >= 0);
}

static inline void let_go(uint64_t version)
{
    char bytes[4096];
    uint64_t clock;
    struct tb_wire_range all = {0, SIZE};
    struct tb_wire w = {.op = TB_WIRE_LET_GO, .file = id, .n = 1, .version = version};
    memcpy(bytes, &w, sizeof(w));
    memcpy(bytes + sizeof(w), &all, sizeof(all));
    assert_int_equal(let_go_answer(x.engine, (void *)bytes, sizeof(w) + sizeof(all), &clock, sizeof(clock)), sizeof(clock));
}

/* As a program does, but that no daemon answers here: so the file counts as shared only afterwards. */
static inline void write_here(uint64_t lo, uint64_t hi)
{
    char bytes[SIZE] = {1};
    uint64_t device = x.engine->shared_device;
    x.engine->shared_device = 0;
    assert_int_equal(TB_IO(x.io, pwrite, fd, bytes, hi - lo, lo), hi - lo);
    x.engine->shared_device = device;
    x.engine->region.file_nodes[file].n_written++;
    assert_int_equal(tb_recent_add(x.engine, file, lo, hi), 0);
}

static inline bool is_dirty(uint64_t lo, uint64_t hi)
{
    struct tb_ranges r = {0};
    assert_int_equal(tb_local_dirty(x.engine, file, &r), 0);
    bool all = tb_ranges_cover(&r, lo, hi);
    tb_ranges_free(&r);
    return all;
}

static inline void clean_here(void)
{
    x.engine->shared_device = 0;
    tb_engine_flush(x.engine, -1);
    assert_int_equal(x.engine->region.files[file].n_dirty, 0);
}

static inline int begin(void **state)
{
    (void)state;
    struct tb_identity i;
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    x.config.several_nodes = TB_NODES_SHARED;
    fixture_start(&x);
    x.engine->shared_device = 0;
    fd = TB_IO(x.io, open, fixture_path(&x, "file"), O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(tb_identity_of_fd(fd, &i), 0);
    id = (struct tb_wire_file){i.inode, i.birth_ns};
    file = tb_file_find(x.engine, &i);
    x.engine->shared_device = i.device;
    n_asked = n_told = fails = lies = 0;
    self = 0;
    count = 1;
    other_lives = true;
    copies_set_limit(1 << 20);
    meanwhile = NULL;
    return 0;
}

static inline int end(void **state)
{
    (void)state;
    struct relay_answer a;
    for (uint32_t node = 0; node < 2; node++) {
        struct tb_wire_extent all = {0, UINT64_MAX, UINT64_MAX, node, 0};
        keeper_answer(1 - node, &(struct tb_wire){.op = TB_WIRE_REMOVE, .file = id, .n_gone = 1}, &all, sizeof(all), &a, sizeof(a));
    }
    x.engine->shared_device = 0;
    x.engine->header->config.copies = x.config.copies; /* a region that does not fit its configuration stays */
    TB_IO(x.io, close, fd);
    fixture_stop(&x);
    return 0;
}

#endif
