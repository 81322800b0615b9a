#ifndef TB_CHAIN_FAULT_PARSE_H
#define TB_CHAIN_FAULT_PARSE_H

#include "chain/fault/fault.h"

/* 0, or -EINVAL: `text` is no fault. */
int tb_fault_parse(const char *text, struct tb_fault *out);

#endif
