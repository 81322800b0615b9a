/*
 * Where the nodes of an instance are: a record of each, as a text that proves the secret.
 *
 * A record is a hint where to call, and no proof that a node is there: the node that it names must prove the secret, and that
 * it is of the start which the record names. So what an earlier start left in the folder misleads no node.
 */
#ifndef TB_NET_MEMBERS_H
#define TB_NET_MEMBERS_H

#include <stdbool.h>

#include "base/error.h"
#include "net/start/address.h"
#include "net/proof/proof.h"

enum { TB_RECORD_MAX = 1024 };

struct tb_record {
    char node[TB_NET_NAME_MAX], boot[40]; /* boot: of the kernel, for messages */
    uint8_t start[TB_NET_START_BYTES];    /* drawn at each start */
    struct tb_net_address address;
};

/* This process's; draws its start. */
void tb_record_begin(const char *node, struct tb_record *r);
void tb_record_put(const struct tb_proof_key *key, const struct tb_record *r, char text[TB_RECORD_MAX]);
/* 0, or -EPROTO: of another instance, another secret, or no record at all. */
int tb_record_get(const struct tb_proof_key *key, const char *text, struct tb_record *r);

/* A descriptor of FOLDER/peers, which is made where it is missing; or -errno and why. */
int tb_members_open(const char *folder, struct tb_error *err);
/* The record of a node: 0, -ENOENT, -EPROTO as tb_record_get, or another -errno. */
int tb_members_read(int peers, const struct tb_proof_key *key, const char *node, struct tb_record *r);
/* Takes the name for this process: -EEXIST where another process has it, unless that is to be replaced. */
int tb_members_write(int peers, const struct tb_proof_key *key, const struct tb_record *own, bool replace);
/* Where it is still this process's. */
void tb_members_remove(int peers, const struct tb_proof_key *key, const struct tb_record *own);

/* Called for each name in the folder that may be a node's, `r` NULL for what is no record of this instance. */
typedef void tb_members_seen(void *arg, const char *node, const struct tb_record *r);
int tb_members_list(int peers, const struct tb_proof_key *key, tb_members_seen *seen, void *arg);

#endif
