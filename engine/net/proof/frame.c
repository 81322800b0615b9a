/*
 * The codec of what nodes say (frame.h). A reader takes nothing for granted: lengths have limits, names end, and what must be
 * zero is zero, so a frame that is read and put again has the same bytes.
 */
#include "net/proof/frame.h"

#include <errno.h>
#include <string.h>

static const uint8_t magic[8] = "TBnet\0\0\1"; /* the last is the version */

static void put_bytes(uint8_t **to, const void *from, size_t n)
{
    memcpy(*to, from, n);
    *to += n;
}

static void get_bytes(const uint8_t **from, void *to, size_t n)
{
    memcpy(to, *from, n);
    *from += n;
}

/* Byte by byte, lowest first, so that the layout is the same whatever the machine and its alignment. */
static void put_number(uint8_t **to, uint64_t value, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        *(*to)++ = (uint8_t)(value >> 8 * i);
}

static uint64_t get_number(const uint8_t **from, unsigned n)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < n; i++)
        value |= (uint64_t) * (*from)++ << 8 * i;
    return value;
}

/*
 * A name is also that of a record's file, so it has no slash; and no dot first, which files have before they are whole
 * (members.c).
 */
int tb_net_name_is_valid(const char *name)
{
    size_t n = strnlen(name, TB_NET_NAME_MAX);
    return n > 0 && n < TB_NET_NAME_MAX && name[0] != '.' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == n;
}

/* It ends in its place. */
static int is_text(const char *text, size_t size)
{
    return strnlen(text, size) < size;
}

/* Texts go with their whole room, zeros after the end: a hello has one length, which the reader can wait for. */
void tb_hello_put(const struct tb_hello *h, uint8_t out[TB_HELLO_BYTES])
{
    put_bytes(&out, magic, sizeof(magic));
    put_bytes(&out, h->from, sizeof(h->from));
    put_bytes(&out, h->to, sizeof(h->to));
    put_bytes(&out, h->from_start, sizeof(h->from_start));
    put_bytes(&out, h->to_start, sizeof(h->to_start));
    put_bytes(&out, h->address.host, sizeof(h->address.host));
    put_bytes(&out, h->address.port, sizeof(h->address.port));
    put_number(&out, h->purpose, 4);
    put_bytes(&out, h->nonce, sizeof(h->nonce));
}

/*
 * What the caller says of itself is only a word until the proof is right; here it is only looked at for what no node would
 * send.
 */
int tb_hello_get(const uint8_t in[TB_HELLO_BYTES], struct tb_hello *h)
{
    uint8_t opens[sizeof(magic)];
    get_bytes(&in, opens, sizeof(opens));
    get_bytes(&in, h->from, sizeof(h->from));
    get_bytes(&in, h->to, sizeof(h->to));
    get_bytes(&in, h->from_start, sizeof(h->from_start));
    get_bytes(&in, h->to_start, sizeof(h->to_start));
    get_bytes(&in, h->address.host, sizeof(h->address.host));
    get_bytes(&in, h->address.port, sizeof(h->address.port));
    uint64_t purpose = get_number(&in, 4);
    h->purpose = (enum tb_purpose)purpose;
    get_bytes(&in, h->nonce, sizeof(h->nonce));
    if (memcmp(opens, magic, sizeof(magic)) || purpose > TB_FOR_CALLS || !is_text(h->address.host, sizeof(h->address.host)) ||
        !is_text(h->address.port, sizeof(h->address.port)))
        return -EPROTO;
    return tb_net_name_is_valid(h->from) && tb_net_name_is_valid(h->to) ? 0 : -EPROTO;
}

void tb_challenge_put(const struct tb_challenge *c, uint8_t out[TB_CHALLENGE_BYTES])
{
    put_bytes(&out, c->nonce, sizeof(c->nonce));
    put_bytes(&out, c->proof, sizeof(c->proof));
}

/* Any bytes are a number and a proof: whether the proof is right is for its reader to say. */
void tb_challenge_get(const uint8_t in[TB_CHALLENGE_BYTES], struct tb_challenge *c)
{
    get_bytes(&in, c->nonce, sizeof(c->nonce));
    get_bytes(&in, c->proof, sizeof(c->proof));
}

void tb_frame_put(const struct tb_frame *f, uint8_t out[TB_FRAME_BYTES])
{
    put_number(&out, f->kind, 4);
    put_number(&out, f->bytes, 4);
    put_number(&out, (uint64_t)f->result, 8);
}

/* What its kind allows. An answer's bytes are its result: a head that says two lengths is not believed. */
static int frame_is_valid(const struct tb_frame *f)
{
    switch (f->kind) {
    case TB_FRAME_BEAT: return f->bytes == 0 && f->result == 0;
    case TB_FRAME_LIST: return f->bytes == TB_DIGEST_BYTES && f->result == 0;
    case TB_FRAME_REFUSED: return f->bytes == 0 && (f->result == -EEXIST || f->result == -ENOSPC);
    case TB_FRAME_REQUEST: return f->bytes <= TB_PAYLOAD_MAX && f->result >= 0 && f->result <= TB_PAYLOAD_MAX;
    case TB_FRAME_ANSWER: return f->bytes <= TB_PAYLOAD_MAX && f->bytes == (f->result > 0 ? f->result : 0);
    default: return 0;
    }
}

/* A result below -4095 is no error number of Linux, so a caller cannot mistake it for one. */
int tb_frame_get(const uint8_t in[TB_FRAME_BYTES], struct tb_frame *f)
{
    uint64_t kind = get_number(&in, 4);
    f->bytes = (uint32_t)get_number(&in, 4);
    f->result = (int64_t)get_number(&in, 8);
    f->kind = kind <= TB_FRAME_ANSWER ? (enum tb_frame_kind)kind : 0;
    return frame_is_valid(f) && f->result > -4096 ? 0 : -EPROTO;
}
