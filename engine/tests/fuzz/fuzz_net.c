/*
 * What other processes say to a node: before the proof, after it, and on a lane; records of nodes; uses of memory that is lent; and what
 * is said of files to their keeper, with second copies.
 *
 * The first byte chooses the reader. What the codec takes must come out again as the same bytes. A listener and a lane get the
 * input over a socket, as it would come from outside.
 */
#include "fuzz.h"

#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "copies/store.h"
#include "keeper.h"
#include "lend.h"
#include "net/net.h"
#include "net/proof/frame.h"
#include "net/proof/proof.h"
#include "net/start/members.h"
#include "net/transport/tcp.h"

static const struct tb_proof_key key = {.secret = "known", .instance = "fuzz"};

static void read_hello(const uint8_t *data, size_t size)
{
    uint8_t in[TB_HELLO_BYTES] = {0}, out[TB_HELLO_BYTES];
    struct tb_hello h;
    memcpy(in, data, size < sizeof(in) ? size : sizeof(in));
    if (tb_hello_get(in, &h))
        return;
    tb_hello_put(&h, out);
    fuzz_check(memcmp(in, out, sizeof(in)) == 0);
    fuzz_check(tb_net_name_is_valid(h.from) && !strchr(h.from, '/') && strlen(h.address.host) < sizeof(h.address.host));
}

static void read_frame(const uint8_t *data, size_t size)
{
    uint8_t in[TB_FRAME_BYTES] = {0}, out[TB_FRAME_BYTES];
    struct tb_frame f;
    memcpy(in, data, size < sizeof(in) ? size : sizeof(in));
    if (tb_frame_get(in, &f))
        return;
    tb_frame_put(&f, out);
    fuzz_check(memcmp(in, out, sizeof(in)) == 0 && f.bytes <= TB_NET_BYTES_MAX);
}

/* The proof is put right, so that the fields are read and not only refused. */
static void read_record(const uint8_t *data, size_t size)
{
    char text[TB_RECORD_MAX], again[TB_RECORD_MAX];
    struct tb_record r;
    size_t n = size < sizeof(text) - 1 ? size : sizeof(text) - 1;
    memcpy(text, data, n);
    text[n] = 0;
    if (tb_record_get(&key, text, &r) == 0)
        fuzz_check(tb_net_name_is_valid(r.node));
    r = (struct tb_record){.node = "n", .boot = "b", .address = {"127.0.0.1", "1"}};
    memcpy(r.start, data, size < sizeof(r.start) ? size : sizeof(r.start));
    tb_record_put(&key, &r, again);
    fuzz_check(tb_record_get(&key, again, &r) == 0);
    again[size % strlen(again)] ^= 1;
    fuzz_check(tb_record_get(&key, again, &r) != 0);
}

/* Messages of a lane until its end, into memory that is as large as what is asked for. */
static void read_lane(const uint8_t *data, size_t size)
{
    struct tb_transport t;
    struct tb_error err;
    struct tb_frame head;
    int ends[2];
    const uint8_t session[TB_NET_PROOF_BYTES] = {0};
    size_t room = size ? data[0] * 16u : 0;
    uint8_t *memory = malloc(room + 1);
    fuzz_check(memory && socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    fuzz_check(tb_transport_open(&t, "tcp", &(struct tb_net_address){"", ""}, &err) == 0);
    struct tb_lane *lane = tb_lane_make(&t, ends[0], false, session);
    fuzz_check(lane && send(ends[1], data, size, MSG_DONTWAIT) == (ssize_t)size);
    close(ends[1]);
    while (tb_transport_tcp.recv(lane, &head, memory, room, UINT64_MAX) == 0)
        fuzz_check(head.bytes <= room);
    tb_lane_free(lane);
    free(memory);
}

#define SECTION 65536u

/* Uses of lent memory by another node: a request each, with what it says follows, in a piece as small as one buffer. */
static void use_lent_memory(const uint8_t *data, size_t size)
{
    struct lend *l;
    struct tb_wire w;
    uint8_t answer[SECTION];
    fuzz_check(lend_begin(SECTION, 3, &l) == 0);
    while (size >= sizeof(w)) {
        memcpy(&w, data, sizeof(w));
        data += sizeof(w);
        size -= sizeof(w);
        size_t n = w.n < size ? w.n : size;
        int64_t got = w.op & 1 ? lend_put(l, w.again % 4, &w, data, n) : lend_get(l, w.again % 4, &w, answer, w.n_gone % sizeof(answer));
        fuzz_check(got < 0 || ((w.op & 1 ? got == 0 : got == w.n) && w.hi + w.n <= SECTION && w.again % 4 < 2));
        data += w.op & 1 ? n : 0;
        size -= w.op & 1 ? n : 0;
    }
    lend_end(l);
}

#define MOST 65536u

/* Messages of three nodes, each with its length before it; at the end all that was kept goes. */
static void tell_the_keeper(const uint8_t *data, size_t size)
{
    static uint64_t answer[MOST / 8];
    struct tb_wire w;
    uint64_t more[512];
    copies_set_limit(MOST);
    while (size >= sizeof(w) + 2) {
        uint32_t from = data[0] % 3;
        size_t n = data[1] * 16u;
        memcpy(&w, data + 2, sizeof(w));
        data += sizeof(w) + 2;
        size -= sizeof(w) + 2;
        n = n < size ? n : size;
        memcpy(more, data, n);
        data += n;
        size -= n;
        w.file = (struct tb_wire_file){w.file.inode % 2, 0};
        w.hi %= MOST; /* of a range, or a clock */
        bool copies = w.op % 8 < 3;
        w.op = (copies ? TB_WIRE_COPY : TB_WIRE_LOOK) + w.op % (copies ? 3 : TB_WIRE_REMOVE);
        int64_t got =
            copies ? copies_answer(from, &w, more, n, answer, sizeof(answer)) : keeper_answer(from, &w, more, n, answer, sizeof(answer));
        fuzz_check(got <= (int64_t)sizeof(answer) && copies_bytes() <= MOST);
    }
    for (uint64_t i = 0; i < 2; i++)
        for (uint32_t node = 0; node < 3; node++) {
            struct tb_wire_extent all = {0, UINT64_MAX, UINT64_MAX, node, 0};
            w = (struct tb_wire){.op = TB_WIRE_REMOVE, .n_gone = 1, .file = {i, 0}};
            keeper_answer(node, &w, &all, sizeof(all), answer, sizeof(answer));
        }
    fuzz_check(keeper_count() == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const readers[])(const uint8_t *, size_t) = {read_hello, read_frame, read_record, read_lane, use_lent_memory};
    if (size > 0 && size < 60000 && data[0] == 255)
        tell_the_keeper(data + 1, size - 1);
    else if (size > 0 && size < 60000)
        readers[data[0] % 5](data + 1, size - 1);
    return 0;
}
