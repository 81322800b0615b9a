/*
 * The proofs at the start of a connection (greet.h).
 *
 * One thread serves all that wait, without waiting for any: a connection is a few bytes that are not complete yet. The called
 * node proves itself first; so the caller's proof, too, is only told to a node that has the secret.
 */
#include "net/start/greet.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

struct guest {
    int fd;
    uint64_t until_ns;
    size_t n; /* bytes of what is awaited: the hello, then the proof */
    bool is_challenged;
    uint8_t bytes[TB_HELLO_BYTES];
    struct tb_hello hello;
    uint8_t nonce[TB_NET_NONCE_BYTES];
};

struct waiting {
    struct guest guests[TB_GREET_WAITING]; /* the oldest first */
    unsigned n;
};

/* The order stays, oldest first: the limits of time and number look at the first one only. */
static void forget(struct waiting *w, unsigned i)
{
    memmove(&w->guests[i], &w->guests[i + 1], (--w->n - i) * sizeof(w->guests[0]));
}

static void refuse(struct tb_greeter *g, struct waiting *w, unsigned i, const char *why)
{
    char other[96], line[256];
    tb_net_describe_other(w->guests[i].fd, other, sizeof(other));
    snprintf(line, sizeof(line), "a connection from %s %s: closed", other, why);
    close(w->guests[i].fd);
    forget(w, i);
    g->refused(g->arg, line);
}

/*
 * When all places are taken the oldest goes: it has had the most time to prove itself, and a stranger with many
 * connections cannot keep a node out.
 */
static void welcome(struct tb_greeter *g, struct waiting *w)
{
    int fd = accept4(g->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) { /* no descriptor is left, perhaps: it is not asked for again at once */
        nanosleep(&(struct timespec){0, 10000000}, NULL);
        return;
    }
    if (w->n == TB_GREET_WAITING)
        refuse(g, w, 0, "had to make room for another before it proved the secret");
    w->guests[w->n++] = (struct guest){.fd = fd, .until_ns = tb_now_ns() + TB_GREET_MS * 1000000ull};
}

/* The start is compared, too: a caller that read an old record learns that the process it looks for is gone. */
static bool is_for_me(const struct tb_greeter *g, const struct guest *guest)
{
    return strcmp(guest->hello.to, g->name) == 0 && memcmp(guest->hello.to_start, g->start, sizeof(g->start)) == 0;
}

/* To a socket that has sent nothing yet, a challenge goes whole or not at all. */
static const char *challenge(struct tb_greeter *g, struct guest *guest)
{
    struct tb_challenge c;
    uint8_t bytes[TB_CHALLENGE_BYTES];
    if (tb_hello_get(guest->bytes, &guest->hello))
        return "sent what no node says";
    if (!is_for_me(g, guest))
        return "looked for another node or another start";
    randombytes_buf(guest->nonce, sizeof(guest->nonce));
    memcpy(c.nonce, guest->nonce, sizeof(c.nonce));
    tb_proof_make(g->key, TB_PROOF_CALLED, &guest->hello, guest->nonce, c.proof);
    tb_challenge_put(&c, bytes);
    if (send(guest->fd, bytes, sizeof(bytes), MSG_NOSIGNAL) != sizeof(bytes))
        return "ended before it proved the secret";
    guest->is_challenged = true;
    guest->n = 0;
    return NULL;
}

/*
 * First the hello, then the proof, each taken as its bytes come. A guest that has proved itself leaves the list before its
 * owner gets it, since the owner may keep the thread for a while.
 */
static void hear(struct tb_greeter *g, struct waiting *w, unsigned i)
{
    struct guest *guest = &w->guests[i];
    size_t whole = guest->is_challenged ? TB_NET_PROOF_BYTES : TB_HELLO_BYTES;
    ssize_t n = recv(guest->fd, guest->bytes + guest->n, whole - guest->n, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0)
        return refuse(g, w, i, "ended before it proved the secret");
    guest->n += (size_t)n;
    if (guest->n < whole)
        return;
    if (!guest->is_challenged) {
        const char *why = challenge(g, guest);
        return why ? refuse(g, w, i, why) : (void)0;
    }
    if (!tb_proof_is_right(g->key, TB_PROOF_CALLER, &guest->hello, guest->nonce, guest->bytes))
        return refuse(g, w, i, "did not prove the secret");
    struct guest proved = *guest;
    uint8_t session[TB_NET_PROOF_BYTES];
    tb_proof_make(g->key, TB_PROOF_KEY, &proved.hello, proved.nonce, session);
    forget(w, i);
    g->arrived(g->arg, proved.fd, &proved.hello, session);
}

/* Milliseconds until the oldest has waited too long. */
static int patience(const struct waiting *w)
{
    uint64_t now = tb_now_ns();
    if (!w->n)
        return -1;
    return w->guests[0].until_ns <= now ? 0 : (int)((w->guests[0].until_ns - now) / 1000000) + 1;
}

static void look(struct tb_greeter *g, struct waiting *w, struct pollfd *fds)
{
    for (unsigned i = w->n; i-- > 0;) /* from the end: what is forgotten moves only those after it */
        if (fds[2 + i].revents)
            hear(g, w, i);
    while (w->n && w->guests[0].until_ns <= tb_now_ns())
        refuse(g, w, 0, "did not prove the secret in time");
    if (fds[1].revents)
        welcome(g, w);
}

/* Ends when the other end of the pipe is closed. Guests that have not proved themselves are closed with it. */
static void *greet_all(void *arg)
{
    struct tb_greeter *g = arg;
    struct waiting w = {.n = 0};
    struct pollfd fds[2 + TB_GREET_WAITING] = {{.fd = g->wake[0], .events = POLLIN}, {.fd = g->listener, .events = POLLIN}};
    while (!fds[0].revents) {
        for (unsigned i = 0; i < w.n; i++)
            fds[2 + i] = (struct pollfd){.fd = w.guests[i].fd, .events = POLLIN};
        if (poll(fds, 2 + w.n, patience(&w)) >= 0 && !fds[0].revents)
            look(g, &w, fds);
    }
    for (unsigned i = 0; i < w.n; i++)
        close(w.guests[i].fd);
    return NULL;
}

/* The pipe is how the thread is told to end: it waits in poll, and a flag alone would not wake it. */
int tb_greeter_start(struct tb_greeter *g)
{
    if (pipe2(g->wake, O_CLOEXEC))
        return -errno;
    int rc = -pthread_create(&g->thread, NULL, greet_all, g);
    if (rc) {
        close(g->wake[0]);
        close(g->wake[1]);
    }
    return rc;
}

/* The thread is joined before its descriptors are closed: it may be in poll with them. */
void tb_greeter_stop(struct tb_greeter *g)
{
    close(g->wake[1]);
    pthread_join(g->thread, NULL);
    close(g->wake[0]);
    close(g->listener);
}

/* -ETIMEDOUT: the bytes did not come in time; -ECONNRESET: they never will. */
static int receive(int fd, uint8_t *to, size_t size, uint64_t until_ns)
{
    for (size_t n = 0; n < size;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        uint64_t now = tb_now_ns();
        if (now >= until_ns || poll(&p, 1, (int)((until_ns - now) / 1000000) + 1) == 0)
            return -ETIMEDOUT;
        ssize_t got = recv(fd, to + n, size - n, 0);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
            return -ECONNRESET;
        n += got > 0 ? (size_t)got : 0;
    }
    return 0;
}

/*
 * The caller sends its proof only after the other side's was right, so a process that only listens at that address learns
 * nothing from it.
 */
static int prove(const struct tb_proof_key *key, int fd, struct tb_hello *hello, uint64_t until_ns, uint8_t *session)
{
    uint8_t bytes[TB_HELLO_BYTES], answer[TB_CHALLENGE_BYTES], proof[TB_NET_PROOF_BYTES];
    struct tb_challenge c;
    randombytes_buf(hello->nonce, sizeof(hello->nonce));
    tb_hello_put(hello, bytes);
    if (send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL) != sizeof(bytes))
        return -ECONNRESET;
    int rc = receive(fd, answer, sizeof(answer), until_ns);
    if (rc)
        return rc;
    tb_challenge_get(answer, &c);
    if (!tb_proof_is_right(key, TB_PROOF_CALLED, hello, c.nonce, c.proof))
        return -EACCES;
    tb_proof_make(key, TB_PROOF_CALLER, hello, c.nonce, proof);
    if (session)
        tb_proof_make(key, TB_PROOF_KEY, hello, c.nonce, session);
    return send(fd, proof, sizeof(proof), MSG_NOSIGNAL) == sizeof(proof) ? 0 : -ECONNRESET;
}

/* One limit for all of it, connection and proofs together. */
int tb_greet(const struct tb_proof_key *key, const struct tb_net_address *to, const struct tb_net_address *own, struct tb_hello *hello,
             int ms, uint8_t session[TB_NET_PROOF_BYTES])
{
    uint64_t until_ns = tb_now_ns() + (uint64_t)ms * 1000000u;
    int fd = tb_net_connect(to, own, ms);
    if (fd < 0)
        return fd;
    int rc = prove(key, fd, hello, until_ns, session);
    if (rc)
        close(fd);
    return rc ? rc : fd;
}
