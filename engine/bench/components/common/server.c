/*
 * Starting, awaiting and stopping a server program (server.h). It runs in the measurement's own folder, says what it has to
 * say into a file there, and ends with this process, however that ends. None of it is in a measured time.
 */
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LOOKS 1000 /* of LOOK_NS: how long a server may take to start or to end */
#define LOOK_NS 10000000
#define NO_PROGRAM 127

/* Between two looks; the time of a start or a stop is in no figure. */
static void look_later(void)
{
    nanosleep(&(struct timespec){0, LOOK_NS}, NULL);
}

/* What it prints goes to a file: the output of a measurement is its rows. */
static void __attribute__((noreturn)) be_the_server(const struct tb_job *job, char *const argv[], pid_t parent)
{
    char path[TB_JOB_FOLDER + 16], sbin[64];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* it ended before the line above */
        _exit(1);
    signal(SIGINT, SIG_IGN); /* a terminal sends it to all: the server ends when it is told to */
    signal(SIGTERM, SIG_DFL);
    snprintf(path, sizeof(path), "%s/server.log", job->folder);
    int log = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (log < 0 || dup2(log, 1) < 0 || dup2(log, 2) < 0)
        _exit(1);
    execvp(argv[0], argv);
    snprintf(sbin, sizeof(sbin), "/usr/sbin/%s", argv[0]); /* often not in a user's PATH */
    execv(sbin, argv);
    _exit(errno == ENOENT ? NO_PROGRAM : 1);
}

/* The last line that the server wrote says why it ended. */
static void say_last_line(const struct tb_job *job, const char *name)
{
    char path[TB_JOB_FOLDER + 16], line[256] = "it wrote nothing";
    snprintf(path, sizeof(path), "%s/server.log", job->folder);
    FILE *log = fopen(path, "r");
    while (log && fgets(line, sizeof(line), log))
        ;
    if (log)
        fclose(log);
    line[strcspn(line, "\n")] = '\0';
    fprintf(stderr, "%s: %s: %s did not start: %s\n", job->program, job->system, name, line);
}

/* Ready is what a connection says, not a time that has passed. */
int tb_server_start(struct tb_job *job, struct tb_server *server, char *const argv[], bool (*is_ready)(const struct tb_job *job))
{
    int status;
    pid_t parent = getpid();
    server->pid = fork();
    if (server->pid == 0)
        be_the_server(job, argv, parent);
    for (int i = 0; i < LOOKS && server->pid > 0; i++) {
        if (waitpid(server->pid, &status, WNOHANG) == server->pid) {
            server->pid = 0;
            if (WIFEXITED(status) && WEXITSTATUS(status) == NO_PROGRAM)
                return tb_job_skip(job, "there is no program %s", argv[0]);
            break;
        }
        if (is_ready(job)) {
            job->server = server->pid;
            return 0;
        }
        look_later();
    }
    say_last_line(job, argv[0]);
    return 1;
}

/* Asked first: a server that is killed leaves its own files where it likes. */
void tb_server_stop(struct tb_server *server)
{
    if (server->pid <= 0)
        return;
    kill(server->pid, SIGTERM);
    for (int i = 0; i < LOOKS; i++) {
        if (waitpid(server->pid, NULL, WNOHANG) != 0) {
            server->pid = 0;
            return;
        }
        look_later();
    }
    kill(server->pid, SIGKILL);
    waitpid(server->pid, NULL, 0);
    server->pid = 0;
}

/* False: the path does not fit, and connecting to a part of it would be another server. */
static bool address_of(const struct tb_job *job, struct sockaddr_un *out)
{
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = snprintf(out->sun_path, sizeof(out->sun_path), "%s/socket", job->folder);
    return n < (int)sizeof(out->sun_path);
}

/* Said here and not by the server, which may end without a word that a user could act on. */
const char *tb_server_socket(const struct tb_job *job)
{
    static struct sockaddr_un address;
    if (address_of(job, &address))
        return address.sun_path;
    fprintf(stderr, "%s: %s: TMPDIR makes %s/socket; allowed: a path of at most 107 bytes for a Unix socket\n", job->program, job->system,
            job->folder);
    return NULL;
}

/* A connection that is closed at once: the server has seen its first client before the clock runs. */
bool tb_server_takes(const struct tb_job *job)
{
    struct sockaddr_un address;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool takes = fd >= 0 && address_of(job, &address) && connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0;
    if (fd >= 0)
        close(fd);
    return takes;
}
