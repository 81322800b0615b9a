/*
 * Which locks are left after each call, printed: the same outside and under the adapter, in the current folder.
 *
 * A case is one kind of lock (fcntl, lockf, OFD, flock), one action of the table and one file, made by the program
 * itself (new) or there before it (old: `locks prepare` makes those).  A child takes the lock and acts; its parent, which
 * holds nothing, asks before and after by a descriptor of its own and by a new one.
 *
 *   locks prepare | locks new|old | locks race     TB_DRAIN: the command that drains, for the action "drain"
 */
#include "locks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const kinds[] = {"fcntl", "lockf", "ofd", "flock"};
int to_parent[2], to_child[2];

/* What another process sees of the lock by its descriptor `at`. */
static const char *seen(int at, enum kind kind)
{
    static char text[2][64];
    static int which;
    char *out = text[which ^= 1];
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (kind == FLOCK) {
        int rc = flock(at, LOCK_EX | LOCK_NB);
        if (rc == 0)
            flock(at, LOCK_UN);
        return rc == 0 ? "none" : errno == EWOULDBLOCK ? "held" : strerror(errno);
    }
    if (fcntl(at, kind == OFD ? F_OFD_GETLK : F_GETLK, &range))
        return strerror(errno);
    if (range.l_type == F_UNLCK)
        return "none";
    snprintf(out, sizeof(text[0]), "%s %lld+%lld", range.l_type == F_WRLCK ? "write" : "read", (long long)range.l_start,
             (long long)range.l_len);
    return out;
}

void name_files(const char *which, enum kind kind, const char *action)
{
    snprintf(f, sizeof(f), "%s-%s-%s", which, kinds[kind], action);
    snprintf(other_name, sizeof(other_name), "other-%s", f);
    snprintf(second_name, sizeof(second_name), "second-%s", f);
}

static void hold_and_act(enum kind kind, const struct action *a, int flags)
{
    dup2(to_parent[1], TELL);
    dup2(to_child[0], HEAR);
    close_range(3, TELL - 1, 0);
    fd = make(f, flags);
    put(fd, BYTES, 0);
    other = make(other_name, O_CREAT);
    put(other, BYTES, 0);
    appended = open(f, O_WRONLY | O_APPEND);
    second = open(f, O_RDONLY);
    if (run_lock(fd, kind))
        die("lock");
    tell(TELL);
    hear(HEAR);
    a->act();
    fflush(stdout);
    tell(TELL);
    hear(HEAR);
    _exit(0);
}

const char *seen_anew(enum kind kind, const char *name)
{
    int at = open(name, O_RDWR);
    const char *what = at < 0 ? strerror(errno) : seen(at, kind);
    if (at >= 0)
        close(at);
    return what;
}

static void run_case(const char *which, enum kind kind, const struct action *a)
{
    name_files(which, kind, a->name);
    fflush(stdout);
    if (pipe(to_parent) || pipe(to_child))
        die("pipe");
    pid_t child = fork();
    if (child == 0)
        hold_and_act(kind, a, strcmp(which, "old") ? O_CREAT : 0);
    close(to_parent[1]);
    close(to_child[0]);
    bool ready = hear(to_parent[0]);
    int at = ready ? open(f, O_RDWR) : -1;
    printf("%s %s %s: %s", which, kinds[kind], a->name, ready ? seen(at, kind) : "not taken");
    fflush(stdout);
    if (ready)
        tell(to_child[1]);
    ready = ready && hear(to_parent[0]);
    printf(", then %s, by name %s\n", ready ? seen(at, kind) : "dead", seen_anew(kind, f));
    close(at);
    close(to_parent[0]);
    close(to_child[1]);
    int status = 0;
    waitpid(child, &status, 0);
    if (status)
        printf("status %x\n", (unsigned)status);
    unlink(f);
    unlink(second_name);
    unlink(other_name);
}

/* A case of each action of the table and kind of lock, or, to prepare, its file. */
static void run_table(const struct action *actions, const char *which, const char *only)
{
    for (const struct action *a = actions; a->name; a++)
        for (enum kind kind = FCNTL; kind <= FLOCK; kind++)
            if (only && strcmp(only, a->name) != 0) {
                continue;
            } else if (strcmp(which, "prepare") == 0) {
                name_files("old", kind, a->name);
                put(make(f, O_CREAT), BYTES, 0);
            } else {
                run_case(which, kind, a);
            }
}

int main(int argc, char **argv)
{
    const struct action *tables[] = {file_actions, descriptor_actions, process_actions};
    alarm(240);
    memset(block, 'l', sizeof(block));
    if (argc > 2 && strcmp(argv[1], "after") == 0)
        return after_exec(argv + 2);
    if (argc < 2 || strcmp(argv[1], "race") == 0)
        return race();
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
        run_table(tables[i], argv[1], argc > 2 ? argv[2] : NULL);
    return 0;
}
