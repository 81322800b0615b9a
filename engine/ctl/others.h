/* Other living instances of this user that have the same files. */
#ifndef TB_CTL_OTHERS_H
#define TB_CTL_OTHERS_H

/*
 * One line on stderr for each that has a prefix in common with instance `name`, which has just been started. Not of those that are made
 * for it: with several nodes, in scratch both of them, or the one that this process runs under.
 */
void ctl_name_others(const char *name);

#endif
