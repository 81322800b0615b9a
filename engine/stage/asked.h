/*
 * Files that a program asks for before they were staged in. The adapter in the program sends
 * the name over a socket without a file (an abstract one, of this user alone), and the answer
 * is when the file is there: so the program waits for its own files, not for all.
 */
#ifndef TB_STAGE_ASKED_H
#define TB_STAGE_ASKED_H

#include <limits.h>
#include <sys/queue.h>

/*
 * What the adapter is told by its environment: the socket's name, a colon, the folder that files arrive in; and the folder
 * that they come from, by which it knows a file that a killed mover did not bring.
 */
#define TB_ASKED_VARIABLE "TIERBENCH_STAGE_IN"
#define TB_ASKED_FROM_VARIABLE "TIERBENCH_STAGE_FROM"

struct tb_question {
    LIST_ENTRY(tb_question) next;
    int fd;
    char path[PATH_MAX];
};

struct tb_asked {
    int fd; /* -1: no program can ask */
    LIST_HEAD(, tb_question) open;
};

/* 0 or -errno. */
int tb_asked_begin(struct tb_asked *asked, const char *name);
void tb_asked_end(struct tb_asked *asked);

#define TB_ASKED_WAITS (-1)
/* Is it there? 0, TB_ASKED_WAITS, or why it will not be (errno). `is_first`: it is asked for now. */
typedef int tb_asked_look(void *arg, const char *path, int is_first);
/* Take questions, and answer those that can be. */
void tb_asked_serve(struct tb_asked *asked, tb_asked_look *look, void *arg);

#endif
