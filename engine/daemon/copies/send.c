/*
 * Copies, as many as a message holds at a time (send.h). Bytes are read from buffers alone, under the locks of their chunks.
 *
 * The turn is held for all messages of a list, so that the commit which follows is of exactly these bytes. Commits of this file
 * wait for it, of all programs of this node; other files don't.
 */
#include "copies/send.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "file/file.h"
#include "layer/layer.h"
#include "relay.h"
#include "shared/local.h"

#define SECONDS 4 /* others wait for the turn, and take a node that lets go of nothing for 8 s for lost */

struct parcel {
    tb_engine *e;
    uint64_t until_ns;
    struct tb_net *net;
    struct tb_wire w;
    char path[TB_PATH_MAX];
    struct tb_wire_range *range; /* of this message */
    char *bytes, *message;
    size_t n_bytes;
};

static size_t size_of(const struct parcel *p)
{
    return sizeof(p->w) + p->w.n * sizeof(*p->range) + p->w.n_gone + p->n_bytes;
}

/*
 * The path goes with every message: the keeper knows the file by its numbers alone, and needs the name to save the bytes when this node
 * is lost.
 */
static int64_t send_message(struct parcel *p)
{
    size_t ranges = p->w.n * sizeof(*p->range);
    memcpy(p->message, &p->w, sizeof(p->w));
    memcpy(p->message + sizeof(p->w), p->range, ranges);
    memcpy(p->message + sizeof(p->w) + ranges, p->path, p->w.n_gone);
    memcpy(p->message + sizeof(p->w) + ranges + p->w.n_gone, p->bytes, p->n_bytes);
    unsigned keeper = relay_keeper(p->net, &p->w.file);
    int64_t got = tb_net_call(p->net, keeper, p->message, size_of(p), NULL, 0);
    if (got < 0 && got != -ENOBUFS && got != -ESTALE) {
        p->w.lo = p->range[0].lo;
        relay_say_lost(p->e, p->net, &p->w, keeper, got);
        got = -EIO;
    }
    p->w.n = 0;
    p->n_bytes = 0;
    return got;
}

/* [lo, hi), or as much of it as the message has room for; then that goes, and it begins again. */
static int add(struct parcel *p, uint64_t lo, uint64_t hi)
{
    int64_t rc = 0;
    while (lo < hi && rc >= 0) {
        size_t used = size_of(p) + sizeof(*p->range), room = TB_NET_BYTES_MAX > used ? TB_NET_BYTES_MAX - used : 0;
        uint64_t end = hi - lo < room ? hi : lo + room;
        if (!room) {
            rc = tb_now_ns() > p->until_ns ? -ENOBUFS : send_message(p);
            continue;
        }
        rc = tb_local_read(p->e, &p->w.file, lo, end, p->bytes + p->n_bytes);
        p->range[p->w.n++] = (struct tb_wire_range){lo, end};
        p->n_bytes += end - lo;
        lo = end;
    }
    return rc < 0 ? (int)rc : 0;
}

static int send_all(struct parcel *p, const struct tb_ranges *ranges)
{
    int rc = 0;
    tb_layer_enter();
    for (uint32_t i = 0; i < ranges->n && !rc; i++)
        rc = add(p, ranges->at[i].lo, ranges->at[i].hi);
    tb_layer_leave(true);
    int64_t got = !rc && p->w.n ? send_message(p) : rc;
    return got < 0 ? (int)got : 0;
}

/* Without memory for a message it is as if the keeper had no room: the caller then brings the bytes to the PFS. */
int copies_send(tb_engine *e, struct tb_net *net, uint32_t file, const struct tb_wire_file *id, const struct tb_ranges *ranges,
                uint64_t clock)
{
    struct parcel *p = NULL;
    if (relay_keeper(net, id) == tb_net_self(net))
        return -ENOBUFS;
    p = malloc(sizeof(*p));
    if (!p)
        return -ENOBUFS;
    *p = (struct parcel){
        .e = e, .net = net, .until_ns = tb_now_ns() + SECONDS * 1000000000ull, .w = {.op = TB_WIRE_COPY, .file = *id, .hi = clock}};
    p->range = malloc(TB_NET_BYTES_MAX);
    p->bytes = malloc(TB_NET_BYTES_MAX);
    p->message = malloc(TB_NET_BYTES_MAX);
    int stripe = tb_file_lock(e, file);
    p->w.n_gone = (uint32_t)tb_file_path(e, &e->region.files[file], p->path, sizeof(p->path));
    tb_file_unlock(e, stripe);
    int rc = p->range && p->bytes && p->message && p->w.n_gone && p->w.n_gone < sizeof(p->path) ? send_all(p, ranges) : -ENOBUFS;
    free(p->range);
    free(p->bytes);
    free(p->message);
    free(p);
    return rc;
}
