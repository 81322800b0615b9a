/*
 * Messages and reads of one lane (fabric.h). The thread that waits on a lane also makes libfabric move, so no thread has to
 * do it for all; a served lane always waits, and so answers reads.
 *
 * An endpoint takes messages from any process. So each carries a proof of the lane's session and of its place in the order, and
 * what does not fit is dropped. What a message offers is registered for reading only, under a key that cannot be guessed.
 */
#include "net/transport/fabric_lane.h"

#include <errno.h>
#include <poll.h>
#include <rdma/fi_errno.h>
#include <sodium.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

#define SLICE_MS 50 /* waits end so often, to look at the time and the connection */
#define SPINS 200
#define KEY_TRIES 8

enum { PROOF_BYTES = crypto_aead_chacha20poly1305_ietf_ABYTES, OFFER_BYTES = 16, HEAD_BYTES = TB_FRAME_BYTES + OFFER_BYTES };

_Static_assert(PROOF_BYTES + HEAD_BYTES <= TB_FABRIC_SLOT - TB_FABRIC_INLINE, "a slot takes a message with what goes inline");
_Static_assert(sizeof(((struct tb_lane *)0)->session) == crypto_aead_chacha20poly1305_ietf_KEYBYTES, "the session is the key");

/* A key is the right to read the memory, so it is drawn and not counted up. */
static uint64_t draw_key(const struct fi_info *info)
{
    uint64_t key;
    size_t bytes = info->domain_attr->mr_key_size;
    randombytes_buf(&key, sizeof(key));
    return bytes >= sizeof(key) ? key : key & ((1ull << 8 * bytes) - 1);
}

static int enable(struct tb_fabric_lane *l, struct fid_mr *mr)
{
    if (!(l->fabric->info->domain_attr->mr_mode & FI_MR_ENDPOINT))
        return 0;
    int rc = fi_mr_bind(mr, &l->ep->fid, 0);
    return rc ? rc : fi_mr_enable(mr);
}

/*
 * A key may be taken already where the provider's keys are short, so another one is drawn. Without `always` only memory
 * that this provider wants registered is.
 */
int tb_fabric_register(struct tb_fabric_lane *l, const void *memory, size_t n, uint64_t access, bool always, struct fid_mr **mr)
{
    const struct fi_info *info = l->fabric->info;
    int rc = -FI_ENOKEY;
    *mr = NULL;
    if (!always && !(info->domain_attr->mr_mode & FI_MR_LOCAL))
        return 0;
    for (int i = 0; i < KEY_TRIES && rc == -FI_ENOKEY; i++)
        rc = fi_mr_reg(l->fabric->domain, memory, n, access, 0, draw_key(info), 0, mr, NULL);
    if (!rc && (rc = enable(l, *mr)))
        fi_close(&(*mr)->fid);
    if (rc)
        *mr = NULL;
    return rc;
}

static void *descriptor(struct fid_mr *mr)
{
    return mr ? fi_mr_desc(mr) : NULL;
}

/* While a provider's queue is full it has to be moved on, and with FI_PROGRESS_MANUAL only looking at it does that. */
static int post(struct tb_fabric_lane *l, unsigned i)
{
    ssize_t rc;
    l->in[i].is_done = false;
    while ((rc = fi_recv(l->ep, l->slots[i], TB_FABRIC_SLOT, descriptor(l->slots_mr), FI_ADDR_UNSPEC, &l->in[i].context)) == -FI_EAGAIN)
        fi_cq_read(l->cq, NULL, 0);
    return (int)rc;
}

int tb_fabric_post_all(struct tb_fabric_lane *l)
{
    int rc = 0;
    for (unsigned i = 0; i < TB_FABRIC_POSTED && !rc; i++)
        rc = post(l, i);
    return rc;
}

/* An error without an operation is one of the queue; the wait then ends by its deadline or by the connection. */
static void note_error(struct tb_fabric_lane *l)
{
    struct fi_cq_err_entry e = {.err = 0};
    if (fi_cq_readerr(l->cq, &e, 0) != 1 || !e.op_context)
        return;
    struct tb_fabric_op *op = e.op_context;
    op->rc = e.err ? -e.err : -EIO;
    op->is_done = true;
}

/* One look at the queue, or a wait of `ms` where it can wait. */
static ssize_t look(struct tb_fabric_lane *l, int ms)
{
    struct fi_cq_msg_entry e;
    ssize_t n = ms > 0 ? fi_cq_sread(l->cq, &e, 1, NULL, ms) : fi_cq_read(l->cq, &e, 1);
    if (n == 1) {
        struct tb_fabric_op *op = e.op_context;
        op->n = e.len;
        op->rc = 0;
        op->is_done = true;
    } else if (n == -FI_EAVAIL) {
        note_error(l);
    }
    return n;
}

/* The other side's end closes the lane's connection, whatever the provider notices. */
static int judge(struct tb_lane *lane, uint64_t until_ns)
{
    struct pollfd p = {.fd = lane->fd, .events = POLLRDHUP};
    if (lane->is_over || poll(&p, 1, 0) != 0)
        return -ECONNRESET;
    return tb_now_ns() >= until_ns ? -ETIMEDOUT : 0;
}

/* For a queue that cannot wait: short pauses while an answer may be near, long ones for a lane that idles. */
static void pause_a_little(unsigned turn)
{
    nanosleep(&(struct timespec){0, turn < 20 * SPINS ? 20000 : 500000}, NULL);
}

/*
 * Looks at once and again: most answers are there within microseconds. Only then does it sleep, by the queue's own wait or
 * in short pauses, and at every half slice it judges time and connection.
 */
static int wait_for(struct tb_fabric_lane *l, struct tb_fabric_op *op, uint64_t until_ns)
{
    uint64_t judged_ns = tb_now_ns();
    int rc = 0;
    for (unsigned turn = 0; !op->is_done && !rc; turn++) {
        bool may_wait = l->waits && turn > 0;
        ssize_t n = look(l, may_wait ? SLICE_MS : 0);
        if (n == 1)
            turn = 0;
        else if (!l->waits && turn > SPINS)
            pause_a_little(turn);
        if (!op->is_done && tb_now_ns() - judged_ns >= SLICE_MS * 1000000ull / 2) {
            rc = judge(l->lane, until_ns);
            judged_ns = tb_now_ns();
        }
    }
    return op->is_done ? op->rc : rc;
}

/*
 * Never the same twice under one key: each side counts its own messages, and the first byte says which side. The key is of
 * this lane alone.
 */
static const uint8_t *nonce_of(bool calls, uint64_t n, uint8_t nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES])
{
    memset(nonce, 0, crypto_aead_chacha20poly1305_ietf_NPUBBYTES);
    nonce[0] = calls;
    memcpy(nonce + 4, &n, sizeof(n));
    return nonce;
}

/*
 * A slot is the proof, the head, the offer, and what goes inline. Nothing is encrypted: the message is the additional data
 * of an empty text, so only the proof is made. The bytes are no more secret than over TCP.
 */
static void seal(struct tb_fabric_lane *l, uint8_t *slot, size_t n)
{
    uint8_t nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES], nothing = 0;
    crypto_aead_chacha20poly1305_ietf_encrypt_detached(&nothing, slot, NULL, &nothing, 0, slot + PROOF_BYTES, n - PROOF_BYTES, NULL,
                                                       nonce_of(l->lane->calls, l->n_sent++, nonce), l->lane->session);
}

static bool is_sealed(struct tb_fabric_lane *l, const uint8_t *slot, size_t n)
{
    uint8_t nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES], nothing = 0;
    return n >= PROOF_BYTES + HEAD_BYTES &&
           crypto_aead_chacha20poly1305_ietf_decrypt_detached(&nothing, NULL, &nothing, 0, slot, slot + PROOF_BYTES, n - PROOF_BYTES,
                                                              nonce_of(!l->lane->calls, l->n_taken, nonce), l->lane->session) == 0;
}

/* After this the other side's reads of that memory fail. */
static void withdraw(struct tb_fabric_lane *l)
{
    if (l->offered_mr)
        fi_close(&l->offered_mr->fid);
    l->offered_mr = NULL;
    l->offered = NULL;
}

/*
 * A served lane answers from the same memory each time, and registers it once. What a caller sends is its own, and may be
 * another memory at the same address the next time.
 */
static int offer(struct tb_fabric_lane *l, const void *payload, size_t n, struct tb_remote *r)
{
    int rc = 0;
    if (l->lane->calls || l->offered != payload || l->n_offered < n) {
        withdraw(l);
        rc = tb_fabric_register(l, payload, n, FI_REMOTE_READ, true, &l->offered_mr);
        l->offered = rc ? NULL : payload;
        l->n_offered = n;
    }
    if (!rc) {
        r->address = l->fabric->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)payload : 0;
        r->key = fi_mr_key(l->offered_mr);
    }
    return rc;
}

static int send_slot(struct tb_fabric_lane *l, const uint8_t *slot, size_t n, uint64_t until_ns)
{
    ssize_t rc;
    l->out.is_done = false;
    while ((rc = fi_send(l->ep, slot, n, descriptor(l->slots_mr), l->other, &l->out.context)) == -FI_EAGAIN) {
        int stop = judge(l->lane, until_ns);
        if (stop)
            return stop;
        look(l, 0);
    }
    return rc ? (int)rc : wait_for(l, &l->out, until_ns);
}

/* A small payload is copied into the slot. A large one is offered, and the other side reads it straight from this memory. */
int tb_fabric_send(struct tb_lane *lane, const struct tb_frame *head, const void *payload, uint64_t until_ns)
{
    struct tb_fabric_lane *l = lane->state;
    uint8_t *slot = l->slots[TB_FABRIC_POSTED];
    struct tb_remote r = {0, 0};
    bool goes_inline = head->bytes <= TB_FABRIC_INLINE;
    int rc = goes_inline ? 0 : offer(l, payload, head->bytes, &r);
    if (rc)
        return rc;
    tb_frame_put(head, slot + PROOF_BYTES);
    memcpy(slot + PROOF_BYTES + TB_FRAME_BYTES, &r, OFFER_BYTES);
    if (goes_inline && head->bytes)
        memcpy(slot + PROOF_BYTES + HEAD_BYTES, payload, head->bytes);
    size_t n = PROOF_BYTES + HEAD_BYTES + (goes_inline ? head->bytes : 0);
    seal(l, slot, n);
    return send_slot(l, slot, n, until_ns);
}

static int read_part(struct tb_fabric_lane *l, const struct tb_remote *from, void *to, size_t n, void *desc, uint64_t until_ns)
{
    ssize_t rc;
    l->out.is_done = false;
    while ((rc = fi_read(l->ep, to, n, desc, l->other, from->address, from->key, &l->out.context)) == -FI_EAGAIN) {
        int stop = judge(l->lane, until_ns);
        if (stop)
            return stop;
        look(l, 0);
    }
    return rc ? (int)rc : wait_for(l, &l->out, until_ns);
}

/* After an error the memory stays registered until the lane is closed: the device may still be writing to it. */
int tb_fabric_read_remote(struct tb_lane *lane, const struct tb_remote *from, void *to, size_t n, uint64_t until_ns)
{
    struct tb_fabric_lane *l = lane->state;
    struct tb_remote at = *from;
    struct fid_mr *mr;
    size_t most = l->fabric->info->ep_attr->max_msg_size;
    int rc = tb_fabric_register(l, to, n, FI_READ, false, &mr);
    for (size_t done = 0, part; done < n && !rc; done += part, at.address += part) {
        part = n - done < most ? n - done : most;
        rc = read_part(l, &at, (char *)to + done, part, descriptor(mr), until_ns);
    }
    if (rc) {
        tb_lane_break(lane);
        l->broken_mr = mr;
    } else if (mr)
        fi_close(&mr->fid);
    return rc;
}

/* The slot is proved by now. Its numbers are checked all the same, because a node of the job may have a fault. */
static int take(struct tb_fabric_lane *l, const uint8_t *slot, size_t n, struct tb_frame *head, void *payload, size_t room,
                uint64_t until_ns)
{
    struct tb_remote r;
    int rc = tb_frame_get(slot + PROOF_BYTES, head);
    memcpy(&r, slot + PROOF_BYTES + TB_FRAME_BYTES, OFFER_BYTES);
    if (rc || head->bytes > room)
        return rc ? rc : -EMSGSIZE;
    if (head->bytes > TB_FABRIC_INLINE)
        return tb_fabric_read_remote(l->lane, &r, payload, head->bytes, until_ns);
    if (n != PROOF_BYTES + HEAD_BYTES + head->bytes)
        return -EPROTO;
    memcpy(payload, slot + PROOF_BYTES + HEAD_BYTES, head->bytes);
    return 0;
}

/*
 * Slots are taken in the order in which they were posted. A message that is not sealed is dropped without an answer, and
 * its slot is posted again, so a stranger can cost time and nothing else.
 */
int tb_fabric_recv(struct tb_lane *lane, struct tb_frame *head, void *payload, size_t room, uint64_t until_ns)
{
    struct tb_fabric_lane *l = lane->state;
    for (;;) {
        unsigned i = l->next;
        int rc = wait_for(l, &l->in[i], until_ns);
        if (rc)
            return rc;
        bool counts = is_sealed(l, l->slots[i], l->in[i].n);
        if (counts) {
            l->n_taken++;
            rc = take(l, l->slots[i], l->in[i].n, head, payload, room, until_ns);
        }
        l->next = (i + 1) % TB_FABRIC_POSTED;
        int posted = post(l, i);
        if (rc || posted || counts)
            return rc ? rc : posted;
    }
}
