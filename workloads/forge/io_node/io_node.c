/*
 * The thread of an I/O node that talks MPI: it receives requests, gives them to the workers and sends their answers. Reads
 * and writes are received only where a buffer is free; the others wait at their clients, which is all the flow control
 * there is. It ends when each client said that it has.
 *
 * Two threads can talk; the one that holds the lock of the wire does. This thread drops the lock for a lone read or write
 * that it does itself. The other thread looks now and then whether the lock is free, and talks from then on.
 */
#include "io_node.h"

#include <assert.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* A client's buffers, where this process sees them. */
struct mapped {
    char *at; /* NULL: it does not */
    size_t size;
};

/*
 * A buffer holds the largest request of the scenario, so the pool has a limit in bytes, too; four of any size, so that a
 * few threads have work. Data comes before control, but every 16 requests control has its turn, so that a ping is answered
 * under load.
 */
enum { MOST_BUFFERS = 1024, POOL_BYTES = 256 << 20, LEAST_BUFFERS = 4, CONTROL_EVERY = 16, STAND_BY_NS = 300000000 };
/*
 * How long the last read or write took, where the thread that talks does the next one itself: a hand-over to another thread
 * takes some ten microseconds, and is worth it where two can work at the same time.
 */
enum { BUSY_NS = 25000, LONE_NS = 200000 };

struct node {
    const struct tb_node_settings *settings;
    struct tb_workers *workers;
    pthread_mutex_t wire;       /* of MPI and of all below */
    struct tb_request *free;    /* of the pool: the last used first, as its bytes are warm */
    struct tb_request *coming;  /* the next read or write is received into it; NULL: all buffers are in use */
    int pooled, most;           /* buffers that were made, and how many may be */
    int under_way, ended;       /* requests that have no answer yet; clients that ended */
    struct tb_request *sending; /* answers that MPI has not taken yet */
    struct mapped *mapped;      /* by rank */
    struct tb_node_counts counts;
    sem_t over;           /* posted at the end, for the second thread */
    _Atomic bool is_away; /* a thread that talks does a request itself */
    _Atomic bool is_over;
};

/* A control message gets a request of its own length; only reads and writes have the pool's. */
static struct tb_request *new_request(size_t bytes)
{
    struct tb_request *r = calloc(1, sizeof(*r));
    if (!r)
        tb_fail("memory", "allocate", -1, "no room for a request");
    r->room = tb_room_new(bytes);
    return r;
}

static void drop(struct node *n, struct tb_request *r)
{
    if (r->from_pool) {
        r->next = n->free;
        n->free = r;
        return;
    }
    free(r->room);
    free(r);
}

/* NULL: all buffers are in use. They are made when they are needed first. */
static struct tb_request *from_pool(struct node *n)
{
    struct tb_request *r = n->free;
    if (r) {
        n->free = r->next;
        return r;
    }
    if (n->pooled == n->most)
        return NULL;
    n->pooled++;
    r = new_request(n->settings->largest);
    r->from_pool = true;
    return r;
}

/* Counts what came in, also what then fails; calls on files are counted where they are made. */
static void count(struct node *n, const struct tb_message *m)
{
    n->counts.open += m->kind == TB_ASK_OPEN;
    n->counts.close += m->kind == TB_ASK_CLOSE;
    n->counts.read += m->kind == TB_ASK_READ;
    n->counts.write += m->kind == TB_ASK_WRITE;
    n->counts.read_bytes += m->kind == TB_ASK_READ ? (int64_t)m->size : 0;
    n->counts.write_bytes += m->kind == TB_ASK_WRITE ? (int64_t)m->size : 0;
    n->counts.in_place += m->in_place;
}

/* What a ping asks is whether this thread runs. The client receives before it asks, so the send does not wait. */
static void pong(struct node *n, int client)
{
    char alive = 1;
    MPI_Send(&alive, 1, MPI_BYTE, client, TB_TAG_PONG, n->settings->wire);
}

/* At a client's first open; the answer to each says whether its buffers are seen. */
static void look_at_memory(struct node *n, struct tb_request *r)
{
    struct mapped *its = &n->mapped[r->client];
    const struct tb_seen *seen = r->data;
    if (!its->at)
        *its = (struct mapped){tb_memory_of(seen), seen->size};
    tb_room_message(r->room)->in_place = its->at != NULL;
}

/* Pings and ends have no answer from the workers, so they are not under way. */
static void begin(struct node *n, struct tb_request *r)
{
    const struct tb_message *m = tb_room_message(r->room);
    count(n, m);
    if (m->kind == TB_ASK_OPEN)
        look_at_memory(n, r);
    if (m->kind == TB_PING || m->kind == TB_END) {
        if (m->kind == TB_PING)
            pong(n, r->client);
        n->ended += m->kind == TB_END;
        drop(n, r);
        return;
    }
    n->under_way++;
    tb_workers_give(n->workers, r);
}

/* The size is asked for first, as a path's length differs; a probed message is no other thread's. */
static bool receive_control(struct node *n)
{
    MPI_Status status;
    MPI_Message message;
    int there, bytes;
    MPI_Improbe(MPI_ANY_SOURCE, TB_TAG_CONTROL, n->settings->wire, &there, &message, &status);
    if (!there)
        return false;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    struct tb_request *r = new_request((size_t)bytes);
    r->client = status.MPI_SOURCE;
    r->data = tb_room_data(r->room);
    MPI_Mrecv(tb_room_message(r->room), bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE);
    begin(n, r);
    return true;
}

/* At most one receive is posted; without a free buffer none, and reads and writes wait in MPI. */
static void be_open_for_data(struct node *n)
{
    if (n->coming || !(n->coming = from_pool(n)))
        return;
    MPI_Irecv(tb_room_message(n->coming->room), (int)(sizeof(struct tb_message) + n->settings->largest), MPI_BYTE, MPI_ANY_SOURCE,
              TB_TAG_DATA, n->settings->wire, &n->coming->way);
}

/* The slot is another process's word, but of the same program: a number past its buffers can only be our own error. */
static void *data_of(const struct node *n, const struct tb_request *r)
{
    const struct tb_message *m = tb_room_message(r->room);
    const struct mapped *its = &n->mapped[r->client];
    size_t each = tb_room_size(n->settings->largest);
    if (!m->in_place)
        return tb_room_data(r->room);
    assert(its->at && (m->slot + 1) * each <= its->size);
    return tb_room_data(its->at + m->slot * each);
}

/* NULL: nothing came. */
static struct tb_request *receive_data(struct node *n)
{
    MPI_Status status;
    struct tb_request *r = n->coming;
    int there = 0;
    if (r)
        MPI_Test(&r->way, &there, &status);
    if (there) {
        r->client = status.MPI_SOURCE;
        r->data = data_of(n, r);
        n->coming = NULL;
    }
    be_open_for_data(n);
    return there ? r : NULL;
}

/* A read's answer has its bytes after it, unless it failed or the client has them. */
static void answer(struct node *n, struct tb_request *r)
{
    const struct tb_message *m = tb_room_message(r->room);
    size_t bytes = sizeof(*m) + (m->kind == TB_ASK_READ && !m->status && !m->in_place ? m->size : 0);
    n->counts.write_calls += r->was_alone && m->kind == TB_ASK_WRITE;
    n->counts.read_calls += r->was_alone && m->kind == TB_ASK_READ;
    r->was_alone = false;
    MPI_Isend(m, (int)bytes, MPI_BYTE, r->client, TB_TAG_ANSWER + (int)m->slot, n->settings->wire, &r->way);
    r->next = n->sending;
    n->sending = r;
}

static bool answer_what_is_done(struct node *n)
{
    struct tb_request *r = tb_workers_done(n->workers);
    bool any = r != NULL;
    while (r) {
        struct tb_request *next = r->next;
        answer(n, r);
        r = next;
    }
    return any;
}

/* Short answers are gone at once; a read's waits for its client. */
static bool forget_sent(struct node *n)
{
    bool any = false;
    for (struct tb_request **at = &n->sending; *at;) {
        struct tb_request *r = *at;
        int gone;
        MPI_Test(&r->way, &gone, MPI_STATUS_IGNORE);
        if (!gone) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        n->under_way--;
        drop(n, r);
        any = true;
    }
    return any;
}

/* From LEAST_BUFFERS to MOST_BUFFERS, as many as POOL_BYTES hold. */
static int most_buffers(const struct tb_node_settings *s)
{
    size_t fit = POOL_BYTES / s->largest;
    return fit < LEAST_BUFFERS ? LEAST_BUFFERS : fit > MOST_BUFFERS ? MOST_BUFFERS : (int)fit;
}

/*
 * Worth doing here? Below BUSY_NS yes, from LONE_NS on no: a slow call here keeps the messages of all clients waiting. In
 * between where nothing else is under way and nothing waits, as no other request could be done at the same time. Never
 * while the other thread does one.
 */
static bool is_for_this_thread(struct node *n)
{
    int64_t took = tb_workers_took_ns(n->workers);
    int there = 0;
    if (n->is_away || took >= LONE_NS || took < BUSY_NS)
        return !n->is_away && took < BUSY_NS;
    if (n->coming)
        MPI_Request_get_status(n->coming->way, &there, MPI_STATUS_IGNORE);
    return n->under_way == 1 && !there;
}

/*
 * False: it took so long that the other thread talks now, and answers. The wire is given back during the call, so that the
 * other one can talk; it is taken again only if that one did not take it.
 */
static bool do_alone(struct node *n, struct tb_request *r)
{
    n->is_away = true;
    pthread_mutex_unlock(&n->wire);
    tb_workers_do(n->workers, r);
    n->is_away = false;
    if (pthread_mutex_trylock(&n->wire)) {
        tb_workers_leave(n->workers, r);
        return false;
    }
    answer(n, r);
    return true;
}

/* False: as do_alone. */
static bool take_up(struct node *n, struct tb_request *r)
{
    n->under_way++;
    count(n, tb_room_message(r->room));
    if (is_for_this_thread(n))
        return do_alone(n, r);
    tb_workers_give(n->workers, r);
    return true;
}

/* With the wire. True: all clients ended; false: the other thread has the wire. */
static bool talk(struct node *n)
{
    be_open_for_data(n);
    for (int polls = 0, data = 0; n->ended < n->settings->clients || n->under_way;) {
        struct tb_request *r = receive_data(n);
        bool any = r != NULL;
        if (r && !take_up(n, r))
            return false;
        data = r ? data + 1 : 0;
        if (data % CONTROL_EVERY == 0)
            any |= receive_control(n);
        any |= answer_what_is_done(n);
        any |= forget_sent(n);
        polls = any ? 0 : polls + 1;
        if (!any)
            tb_rest(polls);
    }
    return true;
}

/*
 * The pause before this thread looks whether the talking one is stuck in a slow call. It is far below the 5 s after which a
 * client gives up.
 */
static void stand_by(struct node *n)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += STAND_BY_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    sem_timedwait(&n->over, &until);
}

/* Both threads run this. The one that gets the wire talks; it comes back here where the other one took the wire over. */
static void *talk_or_stand_by(void *argument)
{
    struct node *n = argument;
    while (!n->is_over) {
        if (pthread_mutex_trylock(&n->wire)) {
            stand_by(n);
        } else if (talk(n)) {
            n->is_over = true;
            pthread_mutex_unlock(&n->wire);
            sem_post(&n->over);
        }
    }
    return NULL;
}

/* A receive is still posted when all clients have ended, and MPI writes into its buffer until it is cancelled. */
static void free_buffers(struct node *n)
{
    if (n->coming) {
        MPI_Cancel(&n->coming->way);
        MPI_Wait(&n->coming->way, MPI_STATUS_IGNORE);
        drop(n, n->coming);
    }
    while (n->free) {
        struct tb_request *r = n->free;
        n->free = r->next;
        free(r->room);
        free(r);
    }
}

static struct mapped *none_mapped(const struct tb_node_settings *s)
{
    int ranks;
    MPI_Comm_size(s->wire, &ranks);
    struct mapped *all = calloc((size_t)ranks, sizeof(*all));
    if (!all)
        tb_fail("memory", "allocate", -1, "no room for the clients");
    return all;
}

static void unmap(struct node *n)
{
    int ranks;
    MPI_Comm_size(n->settings->wire, &ranks);
    for (int i = 0; i < ranks; i++)
        if (n->mapped[i].at)
            munmap(n->mapped[i].at, n->mapped[i].size);
    free(n->mapped);
}

/* The other thread is joined before the workers stop, so that it uses them no more. */
struct tb_node_counts tb_io_node_run(const struct tb_node_settings *s)
{
    struct node n = {
        .settings = s,
        .workers = tb_workers_start(s),
        .most = most_buffers(s),
        .mapped = none_mapped(s),
        .wire = PTHREAD_MUTEX_INITIALIZER,
    };
    pthread_t other;
    sem_init(&n.over, 0, 0);
    int error = pthread_create(&other, NULL, talk_or_stand_by, &n);
    if (error)
        tb_fail("threads", "start", -1, strerror(error));
    talk_or_stand_by(&n);
    pthread_join(other, NULL);
    tb_workers_stop(n.workers, &n.counts);
    free_buffers(&n);
    unmap(&n);
    sem_destroy(&n.over);
    return n.counts;
}
