/*
 * What proves that a process knows the secret, without telling it: a keyed hash of the whole conversation so far.
 *
 * Each side mixes in a number that it has just drawn, so an old conversation proves nothing; and each a word of its own,
 * so that what one side sent is no proof when it is sent back.
 */
#ifndef TB_NET_PROOF_H
#define TB_NET_PROOF_H

#include <stdint.h>

#include "net/proof/frame.h"
#include "net/proof/secret.h"

/* The third is never sent: it is the key of this one conversation. */
enum tb_proof_side { TB_PROOF_CALLED, TB_PROOF_CALLER, TB_PROOF_KEY };

/* Of this start of the instance: what all proofs have in common. */
struct tb_proof_key {
    uint8_t secret[TB_NET_SECRET_BYTES];
    char instance[256];
};

void tb_proof_make(const struct tb_proof_key *key, enum tb_proof_side side, const struct tb_hello *hello,
                   const uint8_t nonce[TB_NET_NONCE_BYTES], uint8_t proof[TB_NET_PROOF_BYTES]);
int tb_proof_is_right(const struct tb_proof_key *key, enum tb_proof_side side, const struct tb_hello *hello,
                      const uint8_t nonce[TB_NET_NONCE_BYTES], const uint8_t proof[TB_NET_PROOF_BYTES]);
/* The same for a text: `what` says what for. */
void tb_proof_of_text(const struct tb_proof_key *key, const char *what, const char *text, uint8_t proof[TB_NET_PROOF_BYTES]);

#endif
