/*
 * An instance for tests: a PFS directory, a memory tier and two directory tiers,
 * small enough to overflow, in a fresh folder under $TMPDIR.
 */
#ifndef TB_TEST_FIXTURE_H
#define TB_TEST_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/remove_tree.h"
#include "instance/instance.h"
#include "instance/make.h"
#include "region/handle.h"

struct fixture {
    char root[256], pfs[300], name[64];
    struct tb_config config;
    tb_engine *engine;
    struct tb_io *base; /* the last layer; NULL: plain libc */
    struct tb_io *io;   /* the engine's chain */
};

static inline void fixture_tier(struct tb_config_tier *t, const char *name, const char *path, uint64_t capacity, uint32_t block)
{
    memset(t, 0, sizeof(*t));
    snprintf(t->name, sizeof(t->name), "%s", name);
    t->medium = path ? TB_MEDIUM_DIRECTORY : TB_MEDIUM_MEMORY;
    if (path) {
        snprintf(t->path, sizeof(t->path), "%s", path);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    t->capacity = capacity;
    t->block = block;
}

static inline void fixture_slab(struct tb_config_tier *t, uint32_t units, double share)
{
    t->slabs[t->n_slabs].units = units;
    t->slabs[t->n_slabs++].share = share;
}

/* Folders and a default configuration; change it, then fixture_start. */
static inline void fixture_init(struct fixture *x, enum tb_mode mode)
{
    char path[300];
    const char *tmp = getenv("TMPDIR");
    memset(x, 0, sizeof(*x));
    snprintf(x->root, sizeof(x->root), "%.200s/tierbench-test-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(x->root));
    snprintf(x->pfs, sizeof(x->pfs), "%s/pfs", x->root);
    assert_int_equal(mkdir(x->pfs, 0700), 0);
    snprintf(x->name, sizeof(x->name), "test-%s", strrchr(x->root, '-') + 1); /* no number of a process: a killed one may have left it */
    struct tb_config *c = &x->config;
    tb_config_defaults(c);
    snprintf(c->file, sizeof(c->file), "%s/test.yaml", x->root);
    c->max_files = 1024;
    snprintf(c->pfs.path, sizeof(c->pfs.path), "%s", x->pfs);
    snprintf(c->prefixes[0].prefix, sizeof(c->prefixes[0].prefix), "%s", x->pfs);
    c->prefixes[0].mode = mode;
    c->fsync = mode == TB_MODE_SCRATCH ? TB_FSYNC_NONE : TB_FSYNC_TIER;
    c->flush.policy = TB_FLUSH_MANUAL;
    c->organizer.prefetch = 0;
    c->n_tiers = 3;
    fixture_tier(&c->tiers[0], "ram", NULL, 4u << 20, 4096);
    fixture_slab(&c->tiers[0], 1, 0.5);
    fixture_slab(&c->tiers[0], 16, 0.5);
    snprintf(path, sizeof(path), "%s/nvme", x->root);
    fixture_tier(&c->tiers[1], "nvme", path, 1u << 20, 4096);
    fixture_slab(&c->tiers[1], 1, 0.25);
    fixture_slab(&c->tiers[1], 16, 0.75);
    snprintf(path, sizeof(path), "%s/bb", x->root);
    fixture_tier(&c->tiers[2], "bb", path, 1u << 20, 65536);
    fixture_slab(&c->tiers[2], 1, 1.0);
}

static inline void fixture_start(struct fixture *x)
{
    struct tb_error err = {""};
    int rc = tb_instance_create(&x->config, x->name, x->base ? x->base : tb_io_libc(), NULL, NULL, &x->engine, &err);
    if (rc)
        fail_msg("create: %s (%d)", err.text, rc);
    x->io = tb_engine_route(x->engine, x->pfs, NULL);
    assert_non_null(x->io);
}

/* No bytes go into the journal: fsyncs of a few bytes move them to a directory tier, as those of many do. */
static inline void fixture_promise_in_slabs(struct fixture *x)
{
    x->engine->header->journal.bytes_up_to = 0;
}

static inline void fixture_stop(struct fixture *x)
{
    char region[TB_REGION_PATH_MAX];
    if (x->engine) {
        assert_int_equal(tb_instance_destroy(x->engine), 0);
        tb_region_path(x->name, region, sizeof(region));
        assert_int_equal(access(region, F_OK), -1);
    }
    tb_remove_tree(x->root, NULL);
}

/* As a node crash does: the region is gone, the tiers' directories stay. */
static inline void fixture_lose_region(struct fixture *x)
{
    char path[TB_REGION_PATH_MAX];
    tb_region_path(x->name, path, sizeof(path));
    tb_engine_detach(x->engine);
    x->engine = NULL;
    assert_int_equal(unlink(path), 0);
}

static inline const char *fixture_path(const struct fixture *x, const char *name)
{
    static _Thread_local char path[512];
    snprintf(path, sizeof(path), "%s/%s", x->pfs, name);
    return path;
}

#endif
