/*
 * The process that takes a lock and acts ("the locker"), and its actions.
 *
 * An action is one call, or a few, after which the lock must be what the kernel makes of it. All actions work on the
 * descriptors and names below, which the locker sets before it takes the lock.
 */
#ifndef TB_TEST_LOCKS_H
#define TB_TEST_LOCKS_H

#include <stdbool.h>
#include <sys/types.h>

#define BYTES 100000
#define SPILL (24 << 20) /* more than the tiers of the test hold */
#define TELL 50          /* the locker speaks and listens here; a program that it executes finds them there */
#define HEAR 51

enum kind { FCNTL, LOCKF, OFD, FLOCK };

struct action {
    const char *name;
    void (*act)(void);
};
#define ACTION(name) {#name, name}

/* What to act on (locker.c): f, f with O_APPEND, other, f again. */
extern int fd, appended, other, second;
extern char f[64], other_name[80], second_name[80];
extern char block[1 << 20];

void die(const char *what);
int make(const char *name, int flags);
void put(int at, off_t n, off_t offset);
int run_lock(int at, enum kind kind);
/* One byte through a pipe; false: the other side has ended. */
void tell(int at);
bool hear(int at);

/* Each table ends with an action without a name. */
extern const struct action file_actions[], descriptor_actions[], process_actions[];

/* Actions that others are made of. */
void append_sync(void);
void link_unlink(void);
void map_it(void);
void sync_fd(void);
void truncate_longer(void);
void truncate_name(void);
void close_second(void);
void child_acts(void);
void run_program(void);

/* The program that the locker executed (process_actions): what to do, the name of f, and the four descriptors. */
int after_exec(char **args);
/* Locks of one thread, names and descriptors of others: how often the lock was lost. */
int race(void);

/* The names of one case, and whether a lock on the file is seen by a new descriptor of another process. */
void name_files(const char *which, enum kind kind, const char *action);
const char *seen_anew(enum kind kind, const char *name);
extern int to_parent[2], to_child[2];

#endif
