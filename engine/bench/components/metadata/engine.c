/*
 * The engine's table of files as a store (store.h): the calls that opening, flushing and
 * closing a file make.  A record lives as long as the file is open: put opens it, get joins
 * and leaves it as one more open and close would, update notes what a flush notes, delete
 * is the last close.
 */
#include <stdlib.h>
#include <string.h>

#include "buffer/of_file.h"
#include "common/own_instance.h"
#include "file/file.h"
#include "metadata/store.h"

static tb_engine *engine;

/* Warm-up and measurement together; a buffer for each file, as in the claim on memory for 1,000,000 buffered files. */
static int start(struct tb_job *job)
{
    uint32_t files = (uint32_t)job->operations;
    return tb_own_start(job, &(struct tb_own_needs){.files = files, .memory = 1u << 20, .directory = (uint64_t)files * 4096});
}

static void join(struct tb_job *job)
{
    engine = tb_own_join(job);
}

static struct tb_identity identity_of(const struct tb_record *r)
{
    return (struct tb_identity){.device = r->key.device,
                                .inode = r->key.inode,
                                .birth_ns = r->key.birth_ns,
                                .size = r->size,
                                .mtime_ns = r->mtime_ns,
                                .ctime_ns = r->ctime_ns,
                                .links = 1,
                                .regular = true};
}

/* The first open of a file makes its record; the number it is given is found again by identity, as another process would. */
static void put(struct tb_job *job, const struct tb_record *records, long n)
{
    uint32_t file;
    for (long i = 0; i < n; i++) {
        struct tb_identity id = identity_of(&records[i]);
        int rc = tb_file_get(engine, -1, &id, records[i].path, 0, &file);
        if (rc)
            tb_job_fail(job, "put of %s: %s", records[i].path, strerror(-rc));
    }
}

/* TB_NONE: it is not there. */
static uint32_t find(const struct tb_record *r)
{
    struct tb_identity id = identity_of(r);
    return tb_file_find(engine, &id);
}

/* All of the value is read out, with the path put together from the tree: other systems give it as one piece. */
static void read_record(uint32_t file, struct tb_record *out)
{
    const struct tb_file *f = &engine->region.files[file];
    out->size = f->size;
    out->mtime_ns = f->backing_mtime_ns;
    out->ctime_ns = f->backing_ctime_ns;
    size_t length = tb_file_path(engine, f, out->path, sizeof(out->path));
    memset(out->path + length, 0, sizeof(out->path) - length);
}

static long get(struct tb_job *job, struct tb_record *records, long n)
{
    long found = 0;
    (void)job;
    for (long i = 0; i < n; i++) {
        uint32_t file = find(&records[i]);
        if (file == TB_NONE)
            continue;
        read_record(file, &records[i]);
        found++;
    }
    return found;
}

/* Under the record's lock, as a flush does. */
static void update(struct tb_job *job, const struct tb_record *records, long n)
{
    for (long i = 0; i < n; i++) {
        uint32_t file = find(&records[i]);
        if (file == TB_NONE)
            tb_job_fail(job, "update of %s: it is not there", records[i].path);
        struct tb_file *f = &engine->region.files[file];
        int stripe = tb_file_lock(engine, file);
        f->size = f->backing_size = records[i].size;
        f->backing_mtime_ns = records[i].mtime_ns;
        f->backing_ctime_ns = records[i].ctime_ns;
        tb_file_unlock(engine, stripe);
    }
}

static void remove_records(struct tb_job *job, const struct tb_record *records, long n)
{
    for (long i = 0; i < n; i++) {
        uint32_t file = find(&records[i]);
        if (file == TB_NONE)
            tb_job_fail(job, "delete of %s: it is not there", records[i].path);
        tb_file_put(engine, file);
    }
}

/* All of the region but the bytes of buffers: it is there from the start, and was made for so many files. */
static uint64_t bytes(struct tb_job *job)
{
    (void)job;
    return tb_own_metadata(engine);
}

const struct tb_store tb_store_engine = {start, tb_own_stop, join, put, update, remove_records, get, bytes};
