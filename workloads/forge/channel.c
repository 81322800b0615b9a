/*
 * How a client gets its requests done. Each request has a slot with a buffer, so that several are under way at the same
 * time; without an I/O node the client does each at once on files of its own. A client that waits asks a silent I/O node for a
 * sign of life, so that a dead one is an error and no wait for ever.
 */
#include "message.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { OPEN_ROOM = sizeof(struct tb_seen) + 4200, CLOSED = -1 }; /* a path of 4000 bytes, its rank and NUL */
static const double ASK_AFTER_S = 2, GIVE_UP_AFTER_S = 5;        /* together within the 10 s that users are told */

struct slot {
    bool busy;
    void *room;                /* the bytes; a write's request, a read's answer */
    struct tb_message message; /* a read's request, a write's answer */
    MPI_Request sent, answered;
    struct tb_transfer transfer;
};

struct tb_channel {
    struct tb_channel_settings settings;
    int node, busy, next; /* the server; slots in use; the slot of the next request */
    uint64_t number;
    int64_t messages;
    struct slot *slot;
    void *memory;        /* the rooms of all slots; NULL: each has its own, which no I/O node sees */
    struct tb_seen seen; /* where an I/O node finds it */
    bool in_place;       /* the server sees it */
    char *path;          /* of the open file; NULL: none */
    bool direct;
    int handle; /* at the server */
    struct tb_files *own;
    double heard, asked; /* when the I/O node gave a sign of life; when it was asked for one, 0: it is not */
    struct tb_message ping;
    char pong;
    MPI_Request ping_sent, pong_came;
};

/* Names the file where one is open. */
static _Noreturn void give_up(const struct tb_channel *ch, const char *what, int64_t offset, const char *reason)
{
    char told[160];
    if (ch->node == TB_NO_NODE)
        snprintf(told, sizeof(told), "%s", reason);
    else
        snprintf(told, sizeof(told), "%s (I/O node %d)", reason, ch->node);
    tb_fail(ch->path ? ch->path : "a file", what, offset, told);
}

/*
 * The rooms are one piece of memory where an I/O node may see them, so that it maps them once. Without such memory `seen`
 * stays zero, and bytes go in messages. All pages are touched here, so that no measured request pays for its first touch.
 */
static void make_rooms(struct tb_channel *ch)
{
    const struct tb_channel_settings *s = &ch->settings;
    size_t each = tb_room_size(s->largest);
    if (s->near)
        ch->memory = tb_memory_new((size_t)s->in_flight * each, &ch->seen);
    for (int i = 0; i < s->in_flight; i++) {
        ch->slot[i].room = ch->memory ? (char *)ch->memory + (size_t)i * each : tb_room_new(s->largest);
        memset(tb_room_data(ch->slot[i].room), s->fill, s->largest);
    }
}

static void free_rooms(struct tb_channel *ch)
{
    for (int i = 0; !ch->memory && i < ch->settings.in_flight; i++)
        free(ch->slot[i].room);
    if (ch->memory)
        tb_memory_free(ch->memory, &ch->seen);
}

struct tb_channel *tb_channel_new(const struct tb_channel_settings *s, int node)
{
    struct tb_channel *ch = calloc(1, sizeof(*ch));
    if (!ch || !(ch->slot = calloc((size_t)s->in_flight, sizeof(*ch->slot))) || !(ch->own = tb_files_new()))
        tb_fail("memory", "allocate", -1, "no room for requests");
    ch->settings = *s;
    ch->node = node;
    ch->handle = CLOSED;
    make_rooms(ch);
    return ch;
}

/* The answer is awaited before the question goes, as the I/O node sends it with a blocking call. */
static void ask_for_life(struct tb_channel *ch, double now)
{
    ch->asked = now;
    ch->ping = (struct tb_message){.kind = TB_PING};
    MPI_Irecv(&ch->pong, 1, MPI_BYTE, ch->node, TB_TAG_PONG, ch->settings.wire, &ch->pong_came);
    MPI_Isend(&ch->ping, sizeof(ch->ping), MPI_BYTE, ch->node, TB_TAG_CONTROL, ch->settings.wire, &ch->ping_sent);
}

/* An answer to a request is a sign of life as well as the pong, so both have to be old before the I/O node is given up. */
static void hear(struct tb_channel *ch, double now)
{
    int came = 0;
    MPI_Test(&ch->pong_came, &came, MPI_STATUS_IGNORE);
    if (came) {
        MPI_Wait(&ch->ping_sent, MPI_STATUS_IGNORE);
        ch->asked = 0;
        ch->heard = now;
    } else if (now - ch->asked > GIVE_UP_AFTER_S && now - ch->heard > GIVE_UP_AFTER_S) {
        give_up(ch, "wait", -1, "it gives no sign of life");
    }
}

/* Called where a look found nothing. The clock is read now and then only. */
static void be_patient(struct tb_channel *ch, int polls)
{
    tb_rest(polls);
    if (polls % 64)
        return;
    double now = MPI_Wtime();
    if (ch->asked > 0)
        hear(ch, now);
    else if (now - ch->heard > ASK_AFTER_S)
        ask_for_life(ch, now);
}

/*
 * What `heard` says is from an earlier wait. A client that made no request for a while must not take its own pause for the
 * silence of the I/O node, so the time counts from here.
 */
static void wait_for(struct tb_channel *ch, MPI_Request *request)
{
    int done = 0;
    ch->heard = MPI_Wtime();
    MPI_Test(request, &done, MPI_STATUS_IGNORE);
    for (int polls = 1; !done; polls++) {
        be_patient(ch, polls);
        MPI_Test(request, &done, MPI_STATUS_IGNORE);
    }
}

/* What this client asked the I/O node before must not meet another one's answers. */
static void end_of_ping(struct tb_channel *ch)
{
    if (ch->asked > 0)
        wait_for(ch, &ch->pong_came);
    if (ch->asked > 0)
        MPI_Wait(&ch->ping_sent, MPI_STATUS_IGNORE);
    ch->asked = 0;
}

static struct tb_message next_message(struct tb_channel *ch, enum tb_kind_of_message kind, int slot)
{
    return (struct tb_message){.number = ch->number++, .kind = kind, .file = ch->handle, .slot = (uint32_t)slot};
}

/* Returns how long it is. */
static size_t put_open(const struct tb_channel *ch, void *out)
{
    size_t length = strlen(ch->path) + 1;
    memcpy(out, &ch->seen, sizeof(ch->seen));
    memcpy((char *)out + sizeof(ch->seen), ch->path, length);
    return sizeof(ch->seen) + length;
}

/* An open or a close: nothing else is under way. Returns the status of the answer. */
static int ask(struct tb_channel *ch, enum tb_kind_of_message kind)
{
    MPI_Request sent, answered;
    struct tb_message *m = calloc(1, sizeof(*m) + OPEN_ROOM), answer;
    assert(!ch->busy);
    if (!m)
        give_up(ch, tb_operation_name(kind == TB_ASK_OPEN ? TB_OPEN : TB_CLOSE), -1, strerror(ENOMEM));
    *m = next_message(ch, kind, 0);
    m->direct = ch->direct;
    size_t length = kind == TB_ASK_OPEN ? put_open(ch, m + 1) : 0;
    MPI_Irecv(&answer, sizeof(answer), MPI_BYTE, ch->node, TB_TAG_ANSWER, ch->settings.wire, &answered);
    MPI_Isend(m, (int)(sizeof(*m) + length), MPI_BYTE, ch->node, TB_TAG_CONTROL, ch->settings.wire, &sent);
    wait_for(ch, &answered);
    MPI_Wait(&sent, MPI_STATUS_IGNORE);
    ch->messages += 2;
    ch->in_place = answer.in_place;
    free(m);
    return answer.status;
}

/* With no I/O node the handle is one of `own`. A handle of one I/O node means nothing at another one, or here. */
static void open_here(struct tb_channel *ch)
{
    int handle = ch->node == TB_NO_NODE ? tb_files_open(ch->own, ch->path, ch->direct) : ask(ch, TB_ASK_OPEN);
    if (handle < 0)
        give_up(ch, "open", -1, strerror(-handle));
    ch->handle = handle;
}

/* An error of the close may be the first news of bytes that the file system lost, so it ends the run like a failed write. */
static void close_here(struct tb_channel *ch)
{
    int error = ch->node == TB_NO_NODE ? tb_files_close(ch->own, ch->handle) : ask(ch, TB_ASK_CLOSE);
    if (error)
        give_up(ch, "close", -1, strerror(-error));
    ch->handle = CLOSED;
}

void tb_channel_open(struct tb_channel *ch, const char *path, bool direct)
{
    ch->path = strdup(path);
    ch->direct = direct;
    if (!ch->path)
        give_up(ch, "open", -1, strerror(ENOMEM));
    open_here(ch);
}

/*
 * All answers come first: a close is queued beside reads and writes, and another thread of the I/O node could do it before
 * them.
 */
void tb_channel_close(struct tb_channel *ch)
{
    tb_channel_drain(ch);
    close_here(ch);
    free(ch->path);
    ch->path = NULL;
}

/*
 * The order is what keeps a file whole: answers of the old I/O node first, then its close, and only then the open at the
 * new one. So each client has its file open at one of them at a time, and each request is answered by the one that got it.
 */
void tb_channel_turn_to(struct tb_channel *ch, int node)
{
    if (node == ch->node)
        return;
    tb_channel_drain(ch);
    if (ch->path)
        close_here(ch);
    end_of_ping(ch);
    ch->node = node;
    if (ch->path)
        open_here(ch);
}

/* The reader sees the bytes before the slot is free, as the next request may fill the same room. */
static void take(struct tb_channel *ch, struct slot *s)
{
    if (s->transfer.operation == TB_READ)
        ch->settings.took(ch->settings.reader, &s->transfer, tb_room_data(s->room));
}

/* Its answer is there. A read's bytes are checked where they arrived. */
static void finish(struct tb_channel *ch, struct slot *s)
{
    const struct tb_transfer *t = &s->transfer;
    const struct tb_message *m = t->operation == TB_READ ? tb_room_message(s->room) : &s->message;
    int64_t offset = t->extent.offset;
    MPI_Wait(&s->sent, MPI_STATUS_IGNORE);
    if (m->status)
        give_up(ch, tb_operation_name(t->operation), offset, strerror(-m->status));
    if (t->operation == TB_READ && t->check && XXH3_64bits(tb_room_data(s->room), t->extent.size) != m->checksum)
        give_up(ch, "read", offset, "the bytes changed on their way");
    take(ch, s);
    s->busy = false;
    ch->busy--;
    ch->messages += 2;
}

/* Every slot that has its answer; whether there was one. */
static bool finish_some(struct tb_channel *ch)
{
    bool any = false;
    for (int i = 0; i < ch->settings.in_flight; i++) {
        int done = 0;
        if (ch->slot[i].busy)
            MPI_Test(&ch->slot[i].answered, &done, MPI_STATUS_IGNORE);
        if (done)
            finish(ch, &ch->slot[i]);
        any |= done != 0;
    }
    return any;
}

/* Until at most so many are under way. */
static void wait_until(struct tb_channel *ch, int most)
{
    ch->heard = ch->busy > most ? MPI_Wtime() : 0;
    for (int polls = 1; ch->busy > most; polls++) {
        if (finish_some(ch))
            polls = 0;
        else
            be_patient(ch, polls);
        if (!polls && ch->busy > most)
            ch->heard = MPI_Wtime();
    }
}

void tb_channel_drain(struct tb_channel *ch)
{
    wait_until(ch, 0);
}

/* The slot stays chosen: the next tb_channel_send sends this buffer. */
void *tb_channel_buffer(struct tb_channel *ch)
{
    wait_until(ch, ch->settings.in_flight - 1);
    ch->next = 0;
    while (ch->slot[ch->next].busy)
        ch->next++;
    return tb_room_data(ch->slot[ch->next].room);
}

/* Done when it returns: without an I/O node no slot is ever busy, and a client makes one request at a time. */
static void do_here(struct tb_channel *ch, struct slot *s)
{
    const struct tb_transfer *t = &s->transfer;
    struct iovec bytes = {tb_room_data(s->room), t->extent.size};
    int error = t->operation == TB_WRITE ? tb_files_write(ch->own, ch->handle, t->direct, &bytes, 1, t->extent.offset)
                                         : tb_files_read(ch->own, ch->handle, t->direct, &bytes, 1, t->extent.offset);
    if (error)
        give_up(ch, tb_operation_name(t->operation), t->extent.offset, strerror(-error));
    take(ch, s);
}

/* The answer is waited for before the request goes, so that it never lacks a place. */
static void send_to_node(struct tb_channel *ch, struct slot *s)
{
    const struct tb_transfer *t = &s->transfer;
    bool write = t->operation == TB_WRITE;
    size_t bytes = t->extent.size, head = sizeof(s->message), along = ch->in_place ? 0 : bytes;
    struct tb_message *m = tb_room_message(s->room), *request = write ? m : &s->message, *answer = write ? &s->message : m;
    *request = next_message(ch, write ? TB_ASK_WRITE : TB_ASK_READ, ch->next);
    request->offset = t->extent.offset;
    request->size = bytes;
    request->direct = t->direct;
    request->check = t->check;
    request->in_place = ch->in_place;
    request->checksum = write && t->check ? XXH3_64bits(tb_room_data(s->room), bytes) : 0;
    MPI_Irecv(answer, (int)(write ? head : head + along), MPI_BYTE, ch->node, TB_TAG_ANSWER + ch->next, ch->settings.wire, &s->answered);
    MPI_Isend(request, (int)(write ? head + along : head), MPI_BYTE, ch->node, TB_TAG_DATA, ch->settings.wire, &s->sent);
    s->busy = true;
    ch->busy++;
}

void tb_channel_send(struct tb_channel *ch, const struct tb_transfer *t)
{
    struct slot *s = &ch->slot[ch->next];
    assert(!s->busy && ch->handle != CLOSED && t->extent.size <= ch->settings.largest);
    s->transfer = *t;
    if (ch->node == TB_NO_NODE)
        do_here(ch, s);
    else
        send_to_node(ch, s);
}

int64_t tb_channel_messages(const struct tb_channel *ch)
{
    return ch->messages;
}

/* Each I/O node is told, also one that never served this client: it ends when it heard so from all clients. */
void tb_channel_free(struct tb_channel *ch)
{
    end_of_ping(ch);
    for (int i = 0; i < ch->settings.nodes; i++) {
        struct tb_message end = {.kind = TB_END};
        MPI_Send(&end, sizeof(end), MPI_BYTE, i, TB_TAG_CONTROL, ch->settings.wire);
    }
    free_rooms(ch);
    tb_files_free(ch->own);
    free(ch->slot);
    free(ch->path);
    free(ch);
}
