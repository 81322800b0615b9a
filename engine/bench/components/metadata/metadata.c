/*
 * tb-components-metadata SYSTEM: put, get, update and delete of file records.
 *
 * All processes together put the asked number of records, get each, update each and delete
 * each.  Every get is compared with what was put; after the update and the delete a tenth of
 * the records is read once more without a clock.  The records, the order and the number of
 * requests under way (-b) are the same for all systems.  A tenth of the number is put and
 * deleted first, so that connections and memory are warm.
 */
#include <stdio.h>
#include <string.h>

#include "metadata/store.h"

#define MAX_DEPTH 4096
#define DEVICE 2049 /* of the records */
#define BIRTH 1500000000000000000

#ifndef TB_HAVE_HIREDIS
#define tb_store_redis no_store
#endif
#ifndef TB_HAVE_MEMCACHED
#define tb_store_memcached no_store
#endif

/* A library was not there when this was built. */
static const struct tb_store no_store __attribute__((unused));

static const char *const systems[] = {"engine", "redis", "memcached", NULL};
static const struct tb_store *const stores[] = {&tb_store_engine, &tb_store_redis, &tb_store_memcached};
/* For the message, where a system was not built in. */
static const char *const libraries[] = {"", "libhiredis-dev", "libmemcached-dev"};

static size_t index_of(const struct tb_job *job)
{
    size_t i = 0;
    while (strcmp(systems[i], job->system) != 0)
        i++;
    return i;
}

static const struct tb_store *store_of(const struct tb_job *job)
{
    return stores[index_of(job)];
}

/* Digits at fixed places: printf would take longer than the engine. */
static void write_number(char *last_digit, uint64_t number, int digits)
{
    for (; digits--; number /= 10)
        *last_digit-- = (char)('0' + number % 10);
}

/* The number and the rank give all of it, so any record can be made again and compared without being kept. */
static void make_record(const struct tb_job *job, long number, int generation, struct tb_record *out)
{
    static const char path[] = "/pfs/project/run.00/step.00000/particles.0000000000.h5part";
    uint64_t global = (uint64_t)number * 64 + (uint64_t)job->rank;
    memset(out->path, 0, sizeof(out->path));
    memcpy(out->path, path, sizeof(path));
    write_number(out->path + 18, (uint64_t)job->rank, 2);
    write_number(out->path + 29, (uint64_t)number / 1024, 5);
    write_number(out->path + 50, (uint64_t)number, 10);
    out->key = (struct tb_key){DEVICE, global + 1, BIRTH + (int64_t)global};
    out->size = global * 4096 + (uint64_t)generation;
    out->mtime_ns = BIRTH + (int64_t)global * 7 + generation;
    out->ctime_ns = out->mtime_ns + 1;
}

struct load {
    const struct tb_store *store;
    int generation;               /* of the values: 1 after the update */
    bool is_gone;                 /* get must find nothing */
    uint64_t bytes_before, bytes; /* of memory, without the records and with all of them */
    struct tb_record records[MAX_DEPTH];
};

typedef void change(struct tb_job *, const struct tb_record *, long);

/* Making the records is a part of the time, the same for each system and little beside any of them. */
static void change_all(struct tb_job *job, struct load *l, change *make, long from, long to)
{
    for (long i = from; i < to; i += job->depth) {
        long n = to - i < job->depth ? to - i : job->depth;
        for (long k = 0; k < n; k++)
            make_record(job, i + k, l->generation, &l->records[k]);
        make(job, l->records, n);
    }
}

static void put(struct tb_job *job, void *arg, long from, long to)
{
    struct load *l = arg;
    change_all(job, l, l->store->put, from, to);
}

static void update(struct tb_job *job, void *arg, long from, long to)
{
    struct load *l = arg;
    change_all(job, l, l->store->update, from, to);
}

static void remove_all(struct tb_job *job, void *arg, long from, long to)
{
    struct load *l = arg;
    change_all(job, l, l->store->remove, from, to);
}

/* The whole record, also the parts that a system has no use for. */
static void compare(struct tb_job *job, const struct load *l, long first, long n)
{
    struct tb_record expected;
    for (long k = 0; k < n; k++) {
        make_record(job, first + k, l->generation, &expected);
        if (memcmp(&expected, &l->records[k], sizeof(expected)) != 0)
            tb_job_fail(job, "get of %s gave another record than was put", expected.path);
    }
}

/* The value is wiped first: what a system leaves untouched must not look right. */
static void get(struct tb_job *job, void *arg, long from, long to)
{
    struct load *l = arg;
    for (long i = from; i < to; i += job->depth) {
        long n = to - i < job->depth ? to - i : job->depth;
        for (long k = 0; k < n; k++) {
            make_record(job, i + k, l->generation, &l->records[k]);
            memset(TB_VALUE(&l->records[k]), 0, TB_VALUE_BYTES);
        }
        long found = l->store->get(job, l->records, n);
        if (found != (l->is_gone ? 0 : n))
            tb_job_fail(job, "get found %ld of %ld records%s", found, n, l->is_gone ? ", but they were deleted" : "");
        if (!l->is_gone)
            compare(job, l, i, n);
    }
}

/* All four operations, since each takes its own way; at the end there is no record, as at the start. */
static void warm_up(struct tb_job *job, struct load *l)
{
    long n = job->operations / TB_PARTS;
    tb_job_untimed(job, put, l, n);
    tb_job_untimed(job, get, l, n);
    tb_job_untimed(job, update, l, n);
    tb_job_untimed(job, remove_all, l, n);
}

/* What a server uses grows with the records; the engine's region was made for so many. */
static void tell_bytes(void *arg, char *out, size_t size)
{
    const struct load *l = arg;
    snprintf(out, size, ", \"bytes\": %llu", (unsigned long long)(l->bytes > l->bytes_before ? l->bytes - l->bytes_before : l->bytes));
}

/* Memory is read when all records are there, before the update changes any. */
static void work(struct tb_job *job)
{
    static struct load l;
    l.store = store_of(job);
    l.store->join(job);
    warm_up(job, &l);
    l.bytes_before = l.store->bytes(job);
    tb_job_timed(job, "put", put, &l, job->operations, NULL);
    tb_job_timed(job, "get", get, &l, job->operations, NULL);
    l.bytes = l.store->bytes(job);
    l.generation = 1;
    tb_job_timed(job, "update", update, &l, job->operations, tell_bytes);
    tb_job_untimed(job, get, &l, job->operations / TB_PARTS);
    tb_job_timed(job, "delete", remove_all, &l, job->operations, NULL);
    l.is_gone = true;
    tb_job_untimed(job, get, &l, job->operations / TB_PARTS);
}

static int start(struct tb_job *job)
{
    const struct tb_store *store = store_of(job);
    if (store == &no_store)
        return tb_job_skip(job, "this was built without %s", libraries[index_of(job)]);
    return store->start(job);
}

static void stop(struct tb_job *job)
{
    if (store_of(job) != &no_store)
        store_of(job)->stop(job);
}

int main(int argc, char **argv)
{
    static const struct tb_job_of metadata = {systems, 0, NULL, start, work, stop};
    return tb_job_main(argc, argv, &metadata);
}
