/*
 * Memcached as a store (store.h), over libmemcached's binary protocol and a Unix socket.
 * Several requests at once: keys of a get go out together, changes are buffered by the
 * library and flushed, which is its own way to pipeline them.  Their answers are read here, right
 * after they were asked for.  Left to itself the library reads them when 500 requests or 65 KiB are
 * under way: it waits 50 ms for each, and one that comes later is counted as read.  From then on it
 * takes the answer of one request for another one's.  So at most AT_ONCE go out before their answers.
 */
#include <libmemcached/memcached.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/server.h"
#include "metadata/store.h"

#define AT_ONCE 256   /* requests of at most 176 bytes */
#define MOST_MS 60000 /* that an answer may take on a busy machine; a server that died ends the connection */

static struct tb_server server;
static memcached_st *store;
static memcached_result_st answer; /* to a change: only its status counts */

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

/* Buffered is a success with an answer that comes later: `take_answers` reads it. */
static void check(struct tb_job *job, memcached_return_t rc, const char *what)
{
    if (rc != MEMCACHED_SUCCESS && rc != MEMCACHED_BUFFERED)
        tb_job_fail(job, "%s: %s", what, memcached_last_error_message(store));
}

static void join(struct tb_job *job)
{
    store = memcached_create(NULL);
    check(job, memcached_behavior_set(store, MEMCACHED_BEHAVIOR_BINARY_PROTOCOL, 1), "binary protocol");
    check(job, memcached_behavior_set(store, MEMCACHED_BEHAVIOR_POLL_TIMEOUT, MOST_MS), "time for an answer");
    check(job, memcached_server_add_unix_socket(store, tb_server_socket(job)), "connect");
    memcached_result_create(store, &answer);
    if (job->depth > 1)
        check(job, memcached_behavior_set(store, MEMCACHED_BEHAVIOR_BUFFER_REQUESTS, 1), "buffered requests");
}

static const char *key_of(const struct tb_record *r)
{
    return (const char *)&r->key;
}

static long piece(long left)
{
    return left < AT_ONCE ? left : AT_ONCE;
}

/* Sends what is buffered and reads one answer for each request; without buffering each call has read its own. */
static void take_answers(struct tb_job *job, long n, const char *what)
{
    memcached_return_t rc;
    if (job->depth == 1)
        return;
    check(job, memcached_flush_buffers(store), what);
    for (long i = 0; i < n; i++) {
        if (!memcached_fetch_result(store, &answer, &rc))
            tb_job_fail(job, "%s: %ld of %ld requests were answered: %s", what, i, n, memcached_strerror(store, rc));
    }
}

static memcached_return_t set(const struct tb_record *r)
{
    return memcached_set(store, key_of(r), sizeof(struct tb_key), TB_VALUE(r), TB_VALUE_BYTES, 0, 0);
}

static memcached_return_t delete(const struct tb_record *r)
{
    return memcached_delete(store, key_of(r), sizeof(struct tb_key), 0);
}

typedef memcached_return_t change(const struct tb_record *);

static void change_all(struct tb_job *job, const struct tb_record *records, long n, change *make, const char *what)
{
    for (long i = 0; i < n; i += AT_ONCE) {
        long end = i + piece(n - i);
        for (long k = i; k < end; k++)
            check(job, make(&records[k]), what);
        take_answers(job, end - i, what);
    }
}

/* Also for an update: a set replaces. */
static void put(struct tb_job *job, const struct tb_record *records, long n)
{
    change_all(job, records, n, set, "put");
}

static void remove_records(struct tb_job *job, const struct tb_record *records, long n)
{
    change_all(job, records, n, delete, "delete");
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

static long get_piece(struct tb_job *job, struct tb_record *records, long n)
{
    const char *keys[AT_ONCE];
    size_t lengths[AT_ONCE];
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

static long get_many(struct tb_job *job, struct tb_record *records, long n)
{
    long found = 0;
    for (long i = 0; i < n; i += AT_ONCE)
        found += get_piece(job, records + i, piece(n - i));
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

const struct tb_store tb_store_memcached = {start, stop, join, put, put, remove_records, get, bytes};
