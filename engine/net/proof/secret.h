/*
 * The secret that makes processes peers: 32 random bytes in a file that only this user can read, in the folder that all
 * nodes see. The process that starts the nodes makes it.
 */
#ifndef TB_NET_SECRET_H
#define TB_NET_SECRET_H

#include <stdint.h>

#include "base/error.h"

enum { TB_NET_SECRET_BYTES = 32 };

/* A new one in FOLDER/secret, in the place of an older one: what an earlier start left there is believed no more. */
int tb_net_secret_make(const char *folder, struct tb_error *err);
/* Refuses what is not a regular file of this user, of mode 0600 and of that size. */
int tb_net_secret_read(const char *folder, uint8_t secret[TB_NET_SECRET_BYTES], struct tb_error *err);

#endif
