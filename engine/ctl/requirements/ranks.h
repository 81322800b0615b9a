/* Ranges of ranks in the names of files, as patterns. */
#ifndef TB_CTL_RANKS_H
#define TB_CTL_RANKS_H

/*
 * `pattern` with {rank}, the number as it is, or {rank:N}, with zeros up to N digits; `ranks` is "7" or "0-63".  `add` gets
 * each of the patterns that together match these ranks and no other; it returns other than 0 to end.  NULL, or what is wrong
 * and allowed.  Without {rank} in the pattern `ranks` must be NULL, and `add` gets the pattern.
 */
const char *ctl_ranks_expand(const char *pattern, const char *ranks, int (*add)(void *arg, const char *pattern), void *arg);

#endif
