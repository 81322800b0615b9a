/*
 * What a call to another node costs: tb-net-cost FOLDER WAY BYTES CALLS AT_ONCE [NAMESPACE ADDRESS]
 *
 * Two processes of this machine; one asks for BYTES by a request of 64 bytes, CALLS times, AT_ONCE from threads of its own.
 * WAY is `raw` (blocking sockets, one a thread, nothing in between) or a provider of the network. Prints the
 * nanoseconds that it took, all calls together. FOLDER is a private one, with a secret where WAY is a provider. With `raw` the process that
 * answers may be in another network: NAMESPACE is its file in /proc, ADDRESS its own there.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/net.h"
#include "net/proof/secret.h"

enum { REQUEST_BYTES = 64, THREADS_MAX = 64 };

struct task {
    const char *folder, *way;
    size_t bytes;
    long calls;
    unsigned at_once;
    _Atomic long left;
    struct tb_net *net;
    struct sockaddr_in raw;
};

static void fail(const char *what)
{
    fprintf(stderr, "tb-net-cost: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* False: the other side has all that it wanted. */
static bool move(int fd, char *at, size_t n, ssize_t (*how)(int, char *, size_t))
{
    for (ssize_t step; n > 0; at += step, n -= (size_t)step)
        if ((step = how(fd, at, n)) <= 0)
            return false;
    return true;
}

static ssize_t to_socket(int fd, char *at, size_t n)
{
    return send(fd, at, n, MSG_NOSIGNAL);
}

static ssize_t from_socket(int fd, char *at, size_t n)
{
    return recv(fd, at, n, 0);
}

/* As the network sets its own: without it the kernel may hold a short request back. */
static void without_delay(int fd)
{
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

struct served {
    int fd;
    size_t bytes;
};

/* Ends when the asking side closes: each of its threads has a connection, and this one serves it. */
static void *serve_raw_one(void *arg)
{
    struct served *s = arg;
    char request[REQUEST_BYTES], *answer = calloc(1, s->bytes);
    while (move(s->fd, request, sizeof(request), from_socket) && move(s->fd, answer, s->bytes, to_socket))
        ;
    close(s->fd);
    free(s);
    return free(answer), NULL;
}

static void serve_raw(int listener, size_t bytes)
{
    for (;;) {
        struct served *s = malloc(sizeof(*s));
        pthread_t thread;
        *s = (struct served){accept(listener, NULL, NULL), bytes};
        without_delay(s->fd);
        pthread_create(&thread, NULL, serve_raw_one, s);
    }
}

/* The answer's bytes are whatever is in the room: what they are costs nothing on the way. */
static int64_t serve(void *arg, unsigned from, const void *request, size_t n, void *answer, size_t room)
{
    const struct task *t = arg;
    (void)from, (void)request, (void)n, (void)answer;
    return t->bytes <= room ? (int64_t)t->bytes : -EMSGSIZE;
}

static void open_net(struct task *t, const char *node)
{
    struct tb_error err;
    struct tb_net_options o = {.folder = t->folder,
                               .instance = "cost",
                               .node = node,
                               .n_nodes = 2,
                               .interface = "lo",
                               .provider = t->way,
                               .start_ms = 20000,
                               .answer_ms = 8000,
                               .serve = serve,
                               .arg = t};
    if (tb_net_open(&o, &t->net, &err)) {
        fprintf(stderr, "tb-net-cost: %s\n", err.text);
        exit(2);
    }
}

/* Threads draw from one count, so that none is left over while another still works. */
static void *ask_raw(void *arg)
{
    struct task *t = arg;
    char request[REQUEST_BYTES] = "", *answer = malloc(t->bytes);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&t->raw, sizeof(t->raw)))
        fail("connect");
    without_delay(fd);
    while (atomic_fetch_sub(&t->left, 1) > 0)
        if (!move(fd, request, sizeof(request), to_socket) || !move(fd, answer, t->bytes, from_socket))
            fail("the other node ended");
    close(fd);
    return free(answer), NULL;
}

static void *ask_net(void *arg)
{
    struct task *t = arg;
    char request[REQUEST_BYTES] = "", *answer = malloc(t->bytes);
    while (atomic_fetch_sub(&t->left, 1) > 0) {
        errno = 0;
        if (tb_net_call(t->net, 1, request, sizeof(request), answer, t->bytes) != (int64_t)t->bytes)
            fail("call");
    }
    return free(answer), NULL;
}

/* The start of the threads is in the time; more calls make it count less. */
static uint64_t ask_all(struct task *t, long calls, void *ask(void *))
{
    pthread_t threads[THREADS_MAX];
    uint64_t begin = tb_now_ns();
    t->left = calls;
    for (unsigned i = 0; i < t->at_once; i++)
        pthread_create(&threads[i], NULL, ask, t);
    for (unsigned i = 0; i < t->at_once; i++)
        pthread_join(threads[i], NULL);
    return tb_now_ns() - begin;
}

/* The other node ends with this one. */
static pid_t start_other(struct task *t, int listener)
{
    pid_t pid = fork();
    if (pid)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (listener >= 0)
        serve_raw(listener, t->bytes);
    open_net(t, "b");
    for (;;)
        pause();
}

static int listen_raw(struct task *t, const char *address)
{
    socklen_t size = sizeof(t->raw);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    t->raw = (struct sockaddr_in){.sin_family = AF_INET};
    if (inet_pton(AF_INET, address, &t->raw.sin_addr) != 1 || bind(fd, (struct sockaddr *)&t->raw, size) || listen(fd, THREADS_MAX) ||
        getsockname(fd, (struct sockaddr *)&t->raw, &size))
        fail(address);
    return fd;
}

static void enter(int space)
{
    if (space < 0 || setns(space, CLONE_NEWNET))
        fail("network namespace");
}

/* A socket stays in the network that it was made in. */
static int listen_there(struct task *t, const char *namespace, const char *address)
{
    int here = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), there = open(namespace, O_RDONLY | O_CLOEXEC);
    enter(there);
    int listener = listen_raw(t, address);
    enter(here);
    close(here);
    close(there);
    return listener;
}

int main(int argc, char **argv)
{
    struct tb_error err;
    if (argc != 6 && argc != 8)
        return fprintf(stderr, "usage: tb-net-cost FOLDER raw|PROVIDER BYTES CALLS AT_ONCE [NAMESPACE ADDRESS]\n"), 2;
    struct task t = {.folder = argv[1], .way = argv[2], .bytes = (size_t)atol(argv[3]), .calls = atol(argv[4])};
    t.at_once = (unsigned)atoi(argv[5]);
    if (t.at_once < 1 || t.at_once > THREADS_MAX || t.bytes < 1)
        return fprintf(stderr, "tb-net-cost: calls at once: allowed are 1 to %d\n", THREADS_MAX), 2;
    bool raw = strcmp(t.way, "raw") == 0;
    if (!raw && tb_net_secret_make(t.folder, &err))
        return fprintf(stderr, "tb-net-cost: %s\n", err.text), 2;
    int listener = !raw ? -1 : argc == 8 ? listen_there(&t, argv[6], argv[7]) : listen_raw(&t, "127.0.0.1");
    pid_t other = start_other(&t, listener);
    if (raw)
        close(listener);
    if (!raw)
        open_net(&t, "a");
    ask_all(&t, t.calls / 10 + 1, raw ? ask_raw : ask_net); /* both sides warm */
    printf("%llu\n", (unsigned long long)ask_all(&t, t.calls, raw ? ask_raw : ask_net));
    if (!raw)
        tb_net_close(t.net);
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
    return 0;
}
