/* Movers of this user that have lost their tierctl: they move what was closed by then, and end. */
#ifndef TB_CTL_ORPHANS_H
#define TB_CTL_ORPHANS_H

/* A line for each on standard output. */
void ctl_movers_name_orphans(void);

#endif
