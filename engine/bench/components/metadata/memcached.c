/*
 * Memcached as a store (store.h), over libmemcached's binary protocol and a Unix socket.
 * Several requests at once: keys of a get go out together, changes are buffered by the
 * library and flushed, which is its own way to pipeline them.  It reads their answers later, so
 * more of them may be under way than were asked for: to its advantage.
 */
#include <libmemcached/memcached.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/server.h"
#include "metadata/store.h"

static struct tb_server server;
static memcached_st *store;

/* Memory for a million records and more: a cache that evicts would be no store.  It serves with its usual four threads. */
static int start(struct tb_job *job)
{
    const char *path = tb_server_socket(job);
    char *argv[] = {"memcached", "-s", (char *)path, "-m", "4096", geteuid() ? NULL : "-u", "root", NULL};
    return path ? tb_server_start(job, &server, argv, tb_server_takes) : TB_JOB_REFUSED;
}

static void stop(struct tb_job *job)
{
    (void)job;
    tb_server_stop(&server);
}

/* Buffered is a success with an answer that comes later: `settle` waits for the last one. */
static void check(struct tb_job *job, memcached_return_t rc, const char *what)
{
    if (rc != MEMCACHED_SUCCESS && rc != MEMCACHED_BUFFERED)
        tb_job_fail(job, "%s: %s", what, memcached_last_error_message(store));
}

static void join(struct tb_job *job)
{
    store = memcached_create(NULL);
    check(job, memcached_behavior_set(store, MEMCACHED_BEHAVIOR_BINARY_PROTOCOL, 1), "binary protocol");
    check(job, memcached_server_add_unix_socket(store, tb_server_socket(job)), "connect");
    if (job->depth > 1)
        check(job, memcached_behavior_set(store, MEMCACHED_BEHAVIOR_BUFFER_REQUESTS, 1), "buffered requests");
}

static const char *key_of(const struct tb_record *r)
{
    return (const char *)&r->key;
}

/* What is left in the library's buffer goes out before the time of a part ends. */
static void flush(struct tb_job *job)
{
    if (job->depth > 1)
        check(job, memcached_flush_buffers(store), "flush");
}

/* Also for an update: a set replaces. */
static void put(struct tb_job *job, const struct tb_record *records, long n)
{
    for (long i = 0; i < n; i++)
        check(job, memcached_set(store, key_of(&records[i]), sizeof(struct tb_key), (const char *)&records[i].size, TB_VALUE_BYTES, 0, 0),
              "put");
    flush(job);
}

static void remove_records(struct tb_job *job, const struct tb_record *records, long n)
{
    for (long i = 0; i < n; i++)
        check(job, memcached_delete(store, key_of(&records[i]), sizeof(struct tb_key), 0), "delete");
    flush(job);
}

static long get_one(struct tb_job *job, struct tb_record *r)
{
    size_t n;
    uint32_t flags;
    memcached_return_t rc;
    char *value = memcached_get(store, key_of(r), sizeof(struct tb_key), &n, &flags, &rc);
    if (rc != MEMCACHED_NOTFOUND)
        check(job, rc, "get");
    if (!value || n != TB_VALUE_BYTES)
        return 0;
    memcpy(TB_VALUE(r), value, n);
    free(value);
    return 1;
}

/* Answers come in the order of the keys; those of keys that are not there are left out. */
static void take_value(struct tb_job *job, struct tb_record *records, long n, long *at, memcached_result_st *result)
{
    const char *key = memcached_result_key_value(result);
    while (*at < n && memcmp(key_of(&records[*at]), key, sizeof(struct tb_key)) != 0)
        ++*at;
    if (*at == n || memcached_result_length(result) != TB_VALUE_BYTES)
        tb_job_fail(job, "get: an answer that was not asked for");
    memcpy(TB_VALUE(&records[(*at)++]), memcached_result_value(result), TB_VALUE_BYTES);
}

/* At most as many keys as -b allows (common/job.c). */
static long get_many(struct tb_job *job, struct tb_record *records, long n)
{
    static const char *keys[4096];
    static size_t lengths[4096];
    memcached_return_t rc;
    memcached_result_st *result;
    long found = 0, at = 0;
    for (long i = 0; i < n; i++) {
        keys[i] = key_of(&records[i]);
        lengths[i] = sizeof(struct tb_key);
    }
    check(job, memcached_mget(store, keys, lengths, (size_t)n), "get");
    while ((result = memcached_fetch_result(store, NULL, &rc))) {
        take_value(job, records, n, &at, result);
        memcached_result_free(result);
        found++;
    }
    if (rc != MEMCACHED_END && rc != MEMCACHED_NOTFOUND)
        check(job, rc, "get");
    return found;
}

static long get(struct tb_job *job, struct tb_record *records, long n)
{
    return job->depth > 1 ? get_many(job, records, n) : get_one(job, records);
}

/* What its items take, as it says itself. */
static uint64_t bytes(struct tb_job *job)
{
    memcached_return_t rc;
    memcached_stat_st *stat = memcached_stat(store, NULL, &rc);
    char *value = stat ? memcached_stat_get_value(store, stat, "bytes", &rc) : NULL;
    if (!value)
        tb_job_fail(job, "the server does not say how much memory it uses");
    uint64_t n = strtoull(value, NULL, 10);
    free(value);
    memcached_stat_free(store, stat);
    return n;
}

/* A get reads the answers to all changes before it. */
static void settle(struct tb_job *job)
{
    static struct tb_record no_record;
    if (job->depth > 1 && get_one(job, &no_record))
        tb_job_fail(job, "get of a record that was never put found it");
}

const struct tb_store tb_store_memcached = {start, stop, join, put, put, remove_records, get, bytes, settle};
