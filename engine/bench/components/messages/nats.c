/*
 * NATS as a carrier (carrier.h), by its C client over the loopback: clients publish 8 bytes,
 * the daemon has a synchronous subscription.  With one message at a time the client library
 * sends at once, else it gathers them, as its users do for rate.
 */
#include <nats/nats.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <dirent.h>

#include "common/server.h"
#include "messages/carrier.h"

#define SUBJECT "tierbench.flush"
#define PATIENCE_MS 10000 /* without a message: then one was lost, and the daemon would wait for ever */

static struct tb_server server;
static natsConnection *connection;
static natsSubscription *subscription;

/* The server writes the address that it chose to a file of its own name. */
static bool read_url(const struct tb_job *job, char *url, size_t size)
{
    char path[TB_JOB_FOLDER + 300], text[1024] = "";
    DIR *folder = opendir(job->folder);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        if (!strstr(entry->d_name, ".ports"))
            continue;
        snprintf(path, sizeof(path), "%s/%s", job->folder, entry->d_name);
        FILE *file = fopen(path, "r");
        size_t n = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
        text[n] = '\0';
        if (file)
            fclose(file);
    }
    if (folder)
        closedir(folder);
    const char *begin = strstr(text, "nats://"), *end = begin ? strchr(begin, '"') : NULL;
    if (!end || (size_t)(end - begin) >= size)
        return false;
    memcpy(url, begin, (size_t)(end - begin));
    url[end - begin] = '\0';
    return true;
}

/* The file is written when the server listens. */
static bool is_ready(const struct tb_job *job)
{
    char url[128];
    return read_url(job, url, sizeof(url));
}

/* On a free port: a server of the user's own may have the usual one. */
static int start(struct tb_job *job)
{
    char *argv[] = {"nats-server", "-a", "127.0.0.1", "-p", "-1", "--ports_file_dir", job->folder, NULL};
    return tb_server_start(job, &server, argv, is_ready);
}

static void stop(struct tb_job *job)
{
    (void)job;
    tb_server_stop(&server);
}

static void check(struct tb_job *job, natsStatus s, const char *what)
{
    if (s != NATS_OK)
        tb_job_fail(job, "%s: %s", what, natsStatus_GetText(s));
}

/* A lost connection is an error of the measurement: it is not made again. */
static void connect_to(struct tb_job *job)
{
    char url[128];
    natsOptions *options;
    if (!read_url(job, url, sizeof(url)))
        tb_job_fail(job, "the server's address is gone");
    check(job, natsOptions_Create(&options), "options");
    check(job, natsOptions_SetURL(options, url), "address");
    check(job, natsOptions_SetAllowReconnect(options, false), "reconnect");
    check(job, natsOptions_SetSendAsap(options, job->depth == 1), "send at once");
    check(job, natsConnection_Connect(&connection, options), "connect");
    natsOptions_Destroy(options);
}

/* The flush makes sure that the server knows of the subscription. */
static void join_daemon(struct tb_job *job)
{
    connect_to(job);
    check(job, natsConnection_SubscribeSync(&subscription, connection, SUBJECT), "subscribe");
    check(job, natsSubscription_SetPendingLimits(subscription, -1, -1), "limits");
    check(job, natsConnection_Flush(connection), "subscribe");
}

static void send(struct tb_job *job, uint32_t place)
{
    struct tb_message m = {(uint32_t)job->rank, place};
    check(job, natsConnection_Publish(connection, SUBJECT, &m, sizeof(m)), "publish");
}

static struct tb_message receive(struct tb_job *job)
{
    struct tb_message m;
    natsMsg *message;
    check(job, natsSubscription_NextMsg(&message, subscription, PATIENCE_MS), "no message");
    if (natsMsg_GetDataLength(message) != (int)sizeof(m))
        tb_job_fail(job, "a message of %d bytes", natsMsg_GetDataLength(message));
    memcpy(&m, natsMsg_GetData(message), sizeof(m));
    natsMsg_Destroy(message);
    return m;
}

const struct tb_carrier tb_carrier_nats = {start, stop, join_daemon, connect_to, send, receive};
