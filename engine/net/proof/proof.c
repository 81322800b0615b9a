/*
 * Proofs of the secret (proof.h): libsodium's crypto_auth, HMAC-SHA-512-256. Every part is hashed with its length, so that no
 * two conversations give the same bytes.
 */
#include "net/proof/proof.h"

#include <sodium.h>
#include <string.h>

_Static_assert(crypto_auth_hmacsha512256_BYTES == TB_NET_PROOF_BYTES, "a proof is one hash");
_Static_assert(crypto_auth_hmacsha512256_KEYBYTES == TB_NET_SECRET_BYTES, "the secret is the key");

/* Two bytes of length are enough: the longest part is a record of less than 1 KiB. */
static void mix(crypto_auth_hmacsha512256_state *s, const void *bytes, size_t n)
{
    uint8_t length[2] = {(uint8_t)n, (uint8_t)(n >> 8)};
    crypto_auth_hmacsha512256_update(s, length, sizeof(length));
    crypto_auth_hmacsha512256_update(s, bytes, n);
}

/*
 * The word says what the proof is for, and the instance is part of it: with one secret for two instances a proof for one
 * is none for the other.
 */
static void begin(crypto_auth_hmacsha512256_state *s, const struct tb_proof_key *key, const char *what)
{
    crypto_auth_hmacsha512256_init(s, key->secret, sizeof(key->secret));
    mix(s, what, strlen(what));
    mix(s, key->instance, strlen(key->instance));
}

void tb_proof_make(const struct tb_proof_key *key, enum tb_proof_side side, const struct tb_hello *hello,
                   const uint8_t nonce[TB_NET_NONCE_BYTES], uint8_t proof[TB_NET_PROOF_BYTES])
{
    static const char *const words[] = {[TB_PROOF_CALLED] = "called", [TB_PROOF_CALLER] = "caller", [TB_PROOF_KEY] = "key"};
    crypto_auth_hmacsha512256_state s;
    uint8_t bytes[TB_HELLO_BYTES];
    tb_hello_put(hello, bytes);
    begin(&s, key, words[side]);
    mix(&s, bytes, sizeof(bytes));
    mix(&s, nonce, TB_NET_NONCE_BYTES);
    crypto_auth_hmacsha512256_final(&s, proof);
}

/* Compared in a time that does not depend on where the first difference is, so a proof cannot be found byte by byte. */
int tb_proof_is_right(const struct tb_proof_key *key, enum tb_proof_side side, const struct tb_hello *hello,
                      const uint8_t nonce[TB_NET_NONCE_BYTES], const uint8_t proof[TB_NET_PROOF_BYTES])
{
    uint8_t right[TB_NET_PROOF_BYTES];
    tb_proof_make(key, side, hello, nonce, right);
    return sodium_memcmp(right, proof, sizeof(right)) == 0;
}

void tb_proof_of_text(const struct tb_proof_key *key, const char *what, const char *text, uint8_t proof[TB_NET_PROOF_BYTES])
{
    crypto_auth_hmacsha512256_state s;
    begin(&s, key, what);
    mix(&s, text, strlen(text));
    crypto_auth_hmacsha512256_final(&s, proof);
}
