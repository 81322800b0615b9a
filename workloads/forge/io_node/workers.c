/*
 * The threads of an I/O node. Handlers check a request and queue it for the dispatchers, which do it and say how it went.
 * Without handlers the thread that receives checks. A write's answer is made after the write, and of what it returned.
 */
#include "io_node.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct worker {
    struct tb_workers *all;
    pthread_t thread;
    struct tb_node_counts counts; /* of this thread alone */
};

struct tb_workers {
    struct tb_queue arrived, ready, done;
    struct tb_files *files;
    int handlers, dispatchers, aggregate;
    size_t largest;
    _Atomic int64_t took_ns; /* the last read or write */
    struct worker *worker;   /* handlers, then dispatchers */
};

/* A range that fits in no buffer, or bytes that changed on their way: the answer says so and nothing is written. */
static int wrong(const struct tb_workers *w, const struct tb_request *r)
{
    const struct tb_message *m = tb_room_message(r->room);
    if (m->kind == TB_ASK_OPEN || m->kind == TB_ASK_CLOSE)
        return 0;
    if (m->offset < 0 || m->size > w->largest)
        return -EINVAL;
    if (m->kind == TB_ASK_WRITE && m->check && XXH3_64bits(r->data, m->size) != m->checksum)
        return -EBADMSG;
    return 0;
}

/* What is wrong goes past the dispatchers: it never reaches a file, and its answer tells the client. */
static void handle(struct tb_workers *w, struct tb_request *r)
{
    int error = wrong(w, r);
    tb_room_message(r->room)->status = error;
    tb_queue_put(error ? &w->done : &w->ready, r);
}

static void *handler(void *argument)
{
    struct tb_workers *w = ((struct worker *)argument)->all;
    struct tb_request *r;
    while ((r = tb_queue_take(&w->arrived, 1)))
        handle(w, r);
    return NULL;
}

/* An open's message has the client's memory before its path (message.h). */
static int open_or_close(struct tb_workers *w, struct tb_request *r)
{
    const struct tb_message *m = tb_room_message(r->room);
    if (m->kind == TB_ASK_CLOSE)
        return tb_files_close(w->files, m->file);
    return tb_files_open(w->files, (const char *)r->data + sizeof(struct tb_seen), m->direct);
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/*
 * Of one or of several that continue each other. The time is of the last call of any thread: it only guides where the next
 * one is done.
 */
static int transfer(struct tb_workers *w, const struct tb_request *r, int count)
{
    int64_t began = now_ns();
    const struct tb_message *m = tb_room_message(r->room);
    struct iovec pieces[TB_MOST_JOINED];
    int i = 0;
    for (const struct tb_request *at = r; i < count; at = at->next, i++)
        pieces[i] = (struct iovec){at->data, tb_room_message(at->room)->size};
    int error = m->kind == TB_ASK_WRITE ? tb_files_write(w->files, m->file, m->direct, pieces, count, m->offset)
                                        : tb_files_read(w->files, m->file, m->direct, pieces, count, m->offset);
    w->took_ns = now_ns() - began;
    return error;
}

/* Each thread counts for itself, so no counter is shared while requests are measured; tb_workers_stop adds them. */
static void count_calls(struct worker *self, const struct tb_request *r)
{
    if (tb_room_message(r->room)->kind == TB_ASK_WRITE)
        self->counts.write_calls++;
    else
        self->counts.read_calls++;
}

/* The checksum of a read is made by the thread that read, so that the one that talks need not look at the bytes. */
static void say(struct tb_request *r, int status)
{
    struct tb_message *m = tb_room_message(r->room);
    m->status = status;
    if (m->kind == TB_ASK_READ && m->check && !status)
        m->checksum = XXH3_64bits(r->data, m->size);
}

/* From here on the thread that talks owns the request. */
static void finish(struct tb_workers *w, struct tb_request *r, int status)
{
    say(r, status);
    tb_queue_put(&w->done, r);
}

int64_t tb_workers_took_ns(struct tb_workers *w)
{
    return w->took_ns;
}

/* No worker counts this call, so it is marked and counted with its answer. */
void tb_workers_do(struct tb_workers *w, struct tb_request *r)
{
    int error = wrong(w, r);
    r->was_alone = !error;
    say(r, error ? error : transfer(w, r, 1));
}

void tb_workers_leave(struct tb_workers *w, struct tb_request *r)
{
    tb_queue_put(&w->done, r);
}

/* Where the joined call failed, each is tried on its own, so that each answer is its own. */
static void do_run(struct worker *self, struct tb_request *r)
{
    struct tb_workers *w = self->all;
    int count = 0;
    for (const struct tb_request *at = r; at; at = at->next)
        count++;
    int status = transfer(w, r, count);
    count_calls(self, r);
    while (r) {
        struct tb_request *next = r->next; /* the queue takes `next` over */
        if (status && count > 1) {
            count_calls(self, r);
            finish(w, r, transfer(w, r, 1));
        } else {
            finish(w, r, status);
        }
        r = next;
    }
}

static void *dispatcher(void *argument)
{
    struct worker *self = argument;
    struct tb_workers *w = self->all;
    struct tb_request *r;
    while ((r = tb_queue_take(&w->ready, w->aggregate))) {
        const struct tb_message *m = tb_room_message(r->room);
        if (m->kind == TB_ASK_OPEN || m->kind == TB_ASK_CLOSE)
            finish(w, r, open_or_close(w, r));
        else
            do_run(self, r);
    }
    return NULL;
}

static void start(struct worker *worker, struct tb_workers *w, void *(*work)(void *))
{
    worker->all = w;
    int error = pthread_create(&worker->thread, NULL, work, worker);
    if (error)
        tb_fail("threads", "start", -1, strerror(error));
}

struct tb_workers *tb_workers_start(const struct tb_node_settings *s)
{
    struct tb_workers *w = calloc(1, sizeof(*w));
    if (!w || !(w->files = tb_files_new()) || !(w->worker = calloc((size_t)s->handlers + (size_t)s->dispatchers, sizeof(*w->worker))))
        tb_fail("memory", "allocate", -1, "no room for the threads");
    w->handlers = s->handlers;
    w->dispatchers = s->dispatchers;
    w->aggregate = s->aggregate;
    w->largest = s->largest;
    w->took_ns = INT64_MAX; /* not known */
    tb_queue_make(&w->arrived);
    tb_queue_make(&w->ready);
    tb_queue_make(&w->done);
    for (int i = 0; i < s->handlers + s->dispatchers; i++)
        start(&w->worker[i], w, i < s->handlers ? handler : dispatcher);
    return w;
}

/* Without handlers the check is made on the thread that talks. */
void tb_workers_give(struct tb_workers *w, struct tb_request *r)
{
    if (w->handlers)
        tb_queue_put(&w->arrived, r);
    else
        handle(w, r);
}

struct tb_request *tb_workers_done(struct tb_workers *w)
{
    return tb_queue_take_all(&w->done);
}

/* Closing first lets threads finish what is queued. The counters are read after the join, so they need no lock. */
void tb_workers_stop(struct tb_workers *w, struct tb_node_counts *counts)
{
    tb_queue_close(&w->arrived);
    tb_queue_close(&w->ready);
    for (int i = 0; i < w->handlers + w->dispatchers; i++) {
        pthread_join(w->worker[i].thread, NULL);
        counts->read_calls += w->worker[i].counts.read_calls;
        counts->write_calls += w->worker[i].counts.write_calls;
    }
    tb_queue_break(&w->arrived);
    tb_queue_break(&w->ready);
    tb_queue_break(&w->done);
    tb_files_free(w->files);
    free(w->worker);
    free(w);
}
