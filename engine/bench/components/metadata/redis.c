/*
 * Redis as a store (store.h), over hiredis and a Unix socket.  Records are strings; nothing
 * is saved to disk.  Requests are appended and sent together, then each answer is read: with
 * one request at once that is what redisCommand does.
 */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/server.h"
#include "metadata/store.h"

static struct tb_server server;
static redisContext *redis;

/* No port, no snapshot and no log: requests come by the socket alone, and the disk is not measured. */
static int start(struct tb_job *job)
{
    const char *path = tb_server_socket(job);
    char *argv[] = {"redis-server", "--port",       "0",          "--save", "",          "--appendonly",
                    "no",           "--unixsocket", (char *)path, "--dir",  job->folder, NULL};
    return path ? tb_server_start(job, &server, argv, tb_server_takes) : TB_JOB_REFUSED;
}

static void stop(struct tb_job *job)
{
    (void)job;
    tb_server_stop(&server);
}

/* One connection for each process, kept for the whole run. */
static void join(struct tb_job *job)
{
    redis = redisConnectUnix(tb_server_socket(job));
    if (!redis || redis->err)
        tb_job_fail(job, "cannot connect: %s", redis ? redis->errstr : "no memory");
}

/* The next answer; the caller frees it. */
static redisReply *answer(struct tb_job *job)
{
    void *reply = NULL;
    if (redisGetReply(redis, &reply) != REDIS_OK)
        tb_job_fail(job, "the server did not answer: %s", redis->errstr);
    redisReply *r = reply;
    if (r->type == REDIS_REPLY_ERROR)
        tb_job_fail(job, "the server refused: %s", r->str);
    return r;
}

/* Only put into the client's buffer: the first answer that is read sends all. */
static void ask(const char *command, const struct tb_record *r, bool with_value)
{
    const char *words[] = {command, (const char *)&r->key, (const char *)r + sizeof(r->key)};
    const size_t lengths[] = {strlen(command), sizeof(r->key), TB_VALUE_BYTES};
    redisAppendCommandArgv(redis, with_value ? 3 : 2, words, lengths);
}

/* All requests first, then all answers: so many are under way at once. */
static void put(struct tb_job *job, const struct tb_record *records, long n)
{
    for (long i = 0; i < n; i++)
        ask("SET", &records[i], true);
    for (long i = 0; i < n; i++)
        freeReplyObject(answer(job));
}

static void remove_records(struct tb_job *job, const struct tb_record *records, long n)
{
    for (long i = 0; i < n; i++)
        ask("DEL", &records[i], false);
    for (long i = 0; i < n; i++) {
        redisReply *r = answer(job);
        if (r->integer != 1)
            tb_job_fail(job, "delete of %s: it is not there", records[i].path);
        freeReplyObject(r);
    }
}

/* A value of another length counts as not found. The bytes are compared by the caller. */
static long get(struct tb_job *job, struct tb_record *records, long n)
{
    long found = 0;
    for (long i = 0; i < n; i++)
        ask("GET", &records[i], false);
    for (long i = 0; i < n; i++) {
        redisReply *r = answer(job);
        if (r->type == REDIS_REPLY_STRING && r->len == TB_VALUE_BYTES) {
            memcpy(TB_VALUE(&records[i]), r->str, TB_VALUE_BYTES);
            found++;
        }
        freeReplyObject(r);
    }
    return found;
}

/* What its data take, as it says itself. */
static uint64_t bytes(struct tb_job *job)
{
    redisReply *r = redisCommand(redis, "INFO memory");
    const char *used = r ? strstr(r->str, "used_memory:") : NULL;
    if (!used)
        tb_job_fail(job, "the server does not say how much memory it uses");
    uint64_t n = strtoull(used + strlen("used_memory:"), NULL, 10);
    freeReplyObject(r);
    return n;
}

const struct tb_store tb_store_redis = {start, stop, join, put, put, remove_records, get, bytes};
