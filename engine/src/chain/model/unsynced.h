/*
 * Which open-file descriptions of this process have writes that no sync has
 * covered, so that a sync of nothing can cost nothing.
 *
 * Descriptors made by dup share a description.  Lock free; after fork parent
 * and child each keep their own view.  Descriptors of TB_UNSYNCED_LIMIT and
 * above are not followed: they count as written.
 */
#ifndef TB_UNSYNCED_H
#define TB_UNSYNCED_H

#include <stdbool.h>

#define TB_UNSYNCED_LIMIT 65536

struct tb_unsynced;

struct tb_unsynced *tb_unsynced_new(void); /* NULL: no memory */
void tb_unsynced_free(struct tb_unsynced *table);

/* `sync_each`: opened with O_SYNC or O_DSYNC. */
void tb_unsynced_open(struct tb_unsynced *table, int fd, bool sync_each);
void tb_unsynced_dup(struct tb_unsynced *table, int oldfd, int newfd);
void tb_unsynced_close(struct tb_unsynced *table, int fd);

/* Notes a write; returns whether the descriptor syncs each of them. */
bool tb_unsynced_write(struct tb_unsynced *table, int fd);
/* Was anything written since the last call? */
bool tb_unsynced_take(struct tb_unsynced *table, int fd);

#endif
