/*
 * What nodes say to each other, as bytes: fixed layouts, little-endian, checked when they are read. The one place that
 * knows them.
 *
 *   hello      opens a connection: caller and called, of which start, what for, and a number that is used once
 *   challenge  the called node's own number, with its proof
 *   proof      the caller's
 *   frame      everything after the proofs: a head, then `bytes` of payload
 */
#ifndef TB_NET_FRAME_H
#define TB_NET_FRAME_H

#include <stddef.h>
#include <stdint.h>

enum { TB_NET_NAME_MAX = 65, TB_NET_START_BYTES = 16, TB_NET_NONCE_BYTES = 32, TB_NET_PROOF_BYTES = 32 };

/* Numeric, as text. */
struct tb_net_address {
    char host[64], port[8];
};

enum tb_purpose {
    TB_FOR_LIFE,  /* the one connection between two nodes that says whether the other lives */
    TB_FOR_CALLS, /* a lane: one request, its answer, the next request */
};

struct tb_hello {
    char from[TB_NET_NAME_MAX], to[TB_NET_NAME_MAX];
    uint8_t from_start[TB_NET_START_BYTES], to_start[TB_NET_START_BYTES];
    struct tb_net_address address; /* where the caller listens */
    enum tb_purpose purpose;
    uint8_t nonce[TB_NET_NONCE_BYTES];
};

struct tb_challenge {
    uint8_t nonce[TB_NET_NONCE_BYTES], proof[TB_NET_PROOF_BYTES];
};

enum {
    TB_HELLO_BYTES = 8 + 2 * TB_NET_NAME_MAX + 2 * TB_NET_START_BYTES + sizeof(struct tb_net_address) + 4 + TB_NET_NONCE_BYTES,
    TB_CHALLENGE_BYTES = TB_NET_NONCE_BYTES + TB_NET_PROOF_BYTES,
    TB_FRAME_BYTES = 16,
    TB_PAYLOAD_MAX = 1 << 20,
    TB_DIGEST_BYTES = 32, /* of the list of nodes */
};

enum tb_frame_kind {
    TB_FRAME_BEAT = 1, /* nothing but a sign of life */
    TB_FRAME_LIST,     /* the digest of the list of nodes that the sender starts with */
    TB_FRAME_REFUSED,  /* the sender has its nodes already: `result` is -EEXIST for a name that came twice, or -ENOSPC */
    TB_FRAME_REQUEST,  /* `result` is the room for its answer */
    TB_FRAME_ANSWER,   /* `result` as tb_net_serve's: where it is not negative, so many bytes follow */
};

struct tb_frame {
    enum tb_frame_kind kind;
    uint32_t bytes;
    int64_t result;
};

void tb_hello_put(const struct tb_hello *h, uint8_t out[TB_HELLO_BYTES]);
void tb_challenge_put(const struct tb_challenge *c, uint8_t out[TB_CHALLENGE_BYTES]);
void tb_frame_put(const struct tb_frame *f, uint8_t out[TB_FRAME_BYTES]);
/* 0, or -EPROTO for what no node of this version says. */
int tb_hello_get(const uint8_t in[TB_HELLO_BYTES], struct tb_hello *h);
void tb_challenge_get(const uint8_t in[TB_CHALLENGE_BYTES], struct tb_challenge *c);
int tb_frame_get(const uint8_t in[TB_FRAME_BYTES], struct tb_frame *f);

/* A name of a node: letters, digits, '.', '_' and '-', not first a '.'; so it is a name of a file, too. */
int tb_net_name_is_valid(const char *name);

#endif
