/*
 * One node for the tests of the network: net_node FOLDER NODE N INTERFACE PROVIDER ANSWER_MS START_MS
 *
 * Says `open NUMBER NAME,NAME...` or `refused RC TEXT`, then obeys lines of its input:
 *   call NODE BYTES ASKED   sends a request of BYTES that asks for an answer of ASKED bytes: `answer RESULT MS`
 *   many NODE N ASKED       N calls at once from threads of their own: `many RIGHT WRONG MS`
 *   alive NODE              `alive 0|1`
 * and ends with its input. A request's first 8 bytes say how long the answer is to be, or what errno; the next 8 how many
 * milliseconds it takes. What is answered is a pattern that the caller checks: `answer wrong` where a byte is another.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "net/net.h"

struct question {
    int64_t bytes;
    int64_t ms;
};

static struct tb_net *net;

static uint8_t pattern(unsigned node, size_t i)
{
    return (uint8_t)(node * 31 + i * 7 + (i >> 8));
}

static int64_t serve(void *arg, unsigned from, const void *request, size_t n, void *answer, size_t room)
{
    struct question q;
    (void)arg;
    if (n < sizeof(q))
        return -EINVAL;
    memcpy(&q, request, sizeof(q));
    for (size_t i = sizeof(q); i < n; i++)
        if (((const uint8_t *)request)[i] != pattern(from, i))
            return -EBADMSG;
    nanosleep(&(struct timespec){q.ms / 1000, q.ms % 1000 * 1000000}, NULL);
    for (int64_t i = 0; i < q.bytes && (size_t)i < room; i++)
        ((uint8_t *)answer)[i] = pattern(from, (size_t)i);
    return q.bytes;
}

/* The answer's length or -errno; -EILSEQ where a byte is wrong. */
static int64_t ask(unsigned node, size_t bytes, int64_t asked, int64_t ms)
{
    size_t n = bytes < sizeof(struct question) ? sizeof(struct question) : bytes;
    uint8_t *request = malloc(n), *answer = malloc(TB_NET_BYTES_MAX);
    struct question q = {asked, ms};
    for (size_t i = 0; i < n; i++)
        request[i] = pattern(tb_net_self(net), i);
    memcpy(request, &q, sizeof(q));
    int64_t got = tb_net_call(net, node, request, n, answer, TB_NET_BYTES_MAX);
    for (int64_t i = 0; i < got; i++)
        if (answer[i] != pattern(tb_net_self(net), (size_t)i))
            got = -EILSEQ;
    free(request);
    free(answer);
    return got;
}

struct one_of_many {
    pthread_t thread;
    unsigned node;
    int64_t asked, got;
};

static void *ask_one(void *arg)
{
    struct one_of_many *o = arg;
    o->got = ask(o->node, 0, o->asked, 0);
    return NULL;
}

static void ask_many(unsigned node, unsigned n, int64_t asked)
{
    struct one_of_many *all = calloc(n, sizeof(*all));
    uint64_t begin = tb_now_ns();
    unsigned right = 0;
    for (unsigned i = 0; i < n; i++) {
        all[i] = (struct one_of_many){.node = node, .asked = asked - i};
        pthread_create(&all[i].thread, NULL, ask_one, &all[i]);
    }
    for (unsigned i = 0; i < n; i++) {
        pthread_join(all[i].thread, NULL);
        right += all[i].got == all[i].asked;
    }
    free(all);
    printf("many %u %u %" PRIu64 "\n", right, n - right, (tb_now_ns() - begin) / 1000000);
}

static void obey(const char *line)
{
    unsigned node, n;
    long long bytes, asked, ms = 0;
    if (sscanf(line, "call %u %lld %lld %lld", &node, &bytes, &asked, &ms) >= 3) {
        uint64_t begin = tb_now_ns();
        int64_t got = ask(node, (size_t)bytes, asked, ms);
        printf("answer %" PRId64 " %" PRIu64 "\n", got, (tb_now_ns() - begin) / 1000000);
    } else if (sscanf(line, "many %u %u %lld", &node, &n, &asked) == 3) {
        ask_many(node, n, asked);
    } else if (sscanf(line, "alive %u", &node) == 1) {
        printf("alive %d\n", tb_net_is_alive(net, node));
    } else {
        printf("what? %s", line);
    }
}

int main(int argc, char **argv)
{
    char line[256];
    struct tb_error err;
    if (argc != 8)
        return 2;
    struct tb_net_options o = {.folder = argv[1],
                               .instance = "test",
                               .node = argv[2],
                               .n_nodes = (unsigned)atoi(argv[3]),
                               .interface = argv[4],
                               .provider = argv[5],
                               .answer_ms = atoi(argv[6]),
                               .start_ms = atoi(argv[7]),
                               .serve = serve};
    setvbuf(stdout, NULL, _IOLBF, 0);
    int rc = tb_net_open(&o, &net, &err);
    if (rc)
        return printf("refused %d %s\n", rc, err.text), 2;
    printf("open %u ", tb_net_self(net));
    for (unsigned i = 0; i < tb_net_count(net); i++)
        printf("%s%s", i ? "," : "", tb_net_name(net, i));
    printf("\n");
    while (fgets(line, sizeof(line), stdin))
        obey(line);
    tb_net_close(net);
    return 0;
}
