/*
 * Executing programs.  The kernel opens a program itself, and where that begins
 * with "#!" its interpreter too.  Under a scratch prefix (and while a name waits
 * for its first flush) it has them under other names, and the name in the "#!"
 * line is the program's: so the line is read here, and the kernel is given the
 * interpreter with the words that it would have made itself.
 *
 * Limits: the loader and the libraries that an ELF file (or LD_LIBRARY_PATH) names
 * by an absolute path under a scratch prefix are looked for on the PFS.
 */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tierbench/program.h>

#include "core/adapter.h"
#include "core/record_locks.h"
#include "wrap/spawn/plan.h"

#define SCRIPT_LINE 256                   /* as much of a "#!" line as the kernel reads, */
#define SCRIPT_DEPTH 5                    /* and of scripts that interpret scripts */
#define MOST_WORDS (2 * SCRIPT_DEPTH + 1) /* of each an interpreter and an argument, and the first script */

static const char *variable(char *const *environment, const char *name)
{
    size_t n = strlen(name);
    for (; environment && *environment; environment++)
        if (strncmp(*environment, name, n) == 0 && (*environment)[n] == '=')
            return *environment + n + 1;
    return NULL;
}

static const char library[] = "libtierbench_preload";
static bool by_environment; /* we were preloaded by it, and not by the system's list */

static __attribute__((constructor)) void note_environment(void)
{
    const char *list = getenv("LD_PRELOAD");
    by_environment = list && strstr(list, library);
}

/* The next program's environment lacks the adapter, or says of no instance. */
static bool leaves_adapter(char *const *next)
{
    const char *list = variable(next, "LD_PRELOAD");
    bool finds = variable(next, "TIERBENCH_INSTANCE") || variable(next, "TIERBENCH_CONFIG") || variable(next, "HERMES_CONF");
    return by_environment && (!list || !strstr(list, library) || !finds);
}

/*
 * A program that loads no adapter goes to the PFS itself.  It finds there what was
 * written until now, and one line says that it goes past the tiers.  `kernel` is the
 * name of the program, or of its interpreter, that the kernel has.  True: it is such a program.
 */
static bool announce_unserved(const char *path, const char *kernel, char *const *environment)
{
    tb_engine *e = tb_inside ? NULL : tb_adapter_engine();
    char text[PATH_MAX + 128];
    int saved = errno;
    tb_enter();
    const char *why = e ? tb_program_unserved(kernel) : NULL;
    if (e && !why && leaves_adapter(environment) && access(kernel, X_OK) == 0)
        why = "is started without the adapter's environment";
    if (why) {
        tb_engine_flush(e, -1);
        int n = snprintf(text, sizeof(text), "tierbench: %s %s: its I/O passes the tiers by\n", path, why);
        if (REAL(write)(STDERR_FILENO, text, (size_t)n) < 0)
            errno = 0; /* nothing reads the message */
    }
    tb_leave();
    errno = saved;
    return why;
}

/* What the kernel is given in the place of a program's name and first word. */
struct program {
    const char *path;
    int n;                         /* words in the place of argv[0]; 0: it stays, as do all of them */
    const char *words[MOST_WORDS]; /* the last `n` of them */
    struct tb_path found, interpreter;
    char line[SCRIPT_DEPTH + 1][SCRIPT_LINE + 1];
};

/* The name that the kernel has, after its bytes were flushed; where it can't be said the kernel has no such name either. */
static const char *kernel_name(const char *path, struct tb_path *p)
{
    if (tb_path_find(AT_FDCWD, path, p))
        tb_path_flush(p);
    tb_path_real(&(int){AT_FDCWD}, &path, TB_NAME_LOOK, p);
    return path;
}

/* How many bytes begin what may be executed; 0 where it may not. */
static size_t read_start(const char *kernel, char *line)
{
    int saved = errno;
    ssize_t n = -1;
    tb_enter();
    int fd = faccessat(AT_FDCWD, kernel, X_OK, AT_EACCESS) ? -1 : open(kernel, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0) {
        n = read(fd, line, SCRIPT_LINE);
        close(fd);
    }
    tb_leave();
    errno = saved;
    return n > 0 ? (size_t)n : 0;
}

/* As the kernel reads a "#!" line: the interpreter, and all that follows it as one argument (or NULL).  NULL: no script. */
static const char *read_script(const char *kernel, char *line, const char **argument)
{
    size_t n = read_start(kernel, line);
    line[n] = 0;
    if (strncmp(line, "#!", 2) != 0)
        return NULL;
    char *interpreter = line + 2 + strspn(line + 2, " \t"), *end = interpreter + strcspn(interpreter, " \t\n");
    if (n == SCRIPT_LINE && !*end) /* cut off inside the name: the kernel refuses it */
        return NULL;
    char *rest = end + strspn(end, " \t");
    n = strcspn(rest, "\n");
    while (n && (rest[n - 1] == ' ' || rest[n - 1] == '\t'))
        n--;
    rest[n] = *end = 0;
    *argument = n ? rest : NULL;
    return *interpreter ? interpreter : NULL;
}

static void put_first(struct program *p, const char *word)
{
    p->words[MOST_WORDS - ++p->n] = word;
}

/* Where one of the names is not the kernel's, its own reading of the lines would end there.  0 or -ELOOP. */
static int follow_script(const char *path, struct program *p)
{
    const char *kernel = p->path, *name, *argument;
    bool moved = kernel != path;
    put_first(p, path);
    for (int depth = 0; (name = read_script(kernel, p->line[depth], &argument)); depth++) {
        if (depth == SCRIPT_DEPTH)
            return -ELOOP;
        if (argument)
            put_first(p, argument);
        put_first(p, name);
        kernel = kernel_name(name, &p->interpreter);
        moved |= kernel != name;
    }
    if (moved && p->n > 1)
        p->path = kernel;
    else
        p->n = 0;
    return 0;
}

/* 0, or -1 with errno where the kernel would refuse it, or an inherited file can't be flushed. */
static int find_program(const char *path, char *const *environment, struct program *p)
{
    const char *name = (intptr_t)path < 4096 ? NULL : path; /* the kernel's to refuse */
    if (tb_coherent_for_exec())
        return -1;
    *p = (struct program){.path = path};
    if (!name || tb_inside || !tb_adapter_engine())
        return 0;
    p->path = kernel_name(path, &p->found);
    const char *script = p->path;
    if (follow_script(path, p))
        return (int)tb_result(-ELOOP);
    if (announce_unserved(path, p->path, environment) && p->n)
        p->words[MOST_WORDS - 1] = script; /* its interpreter knows the kernel's names only */
    return 0;
}

/* As execvp looks for it, and its name from then on in `found`; longer names than fit are left to it. */
static int find_by_list(const char *file, char *const *environment, char *found, struct program *p)
{
    const char *list = getenv("PATH");
    if (!file || strchr(file, '/'))
        return find_program(file, environment, p);
    for (const char *at = list ? list : "/bin:/usr/bin"; *at; at += strspn(at, ":")) {
        size_t n = strcspn(at, ":");
        if (snprintf(found, PATH_MAX, "%.*s/%s", (int)n, at, file) < PATH_MAX && access(found, X_OK) == 0) {
            int rc = find_program(found, environment, p);
            if (p->path == found)
                p->path = file; /* libc finds it there too */
            return rc;
        }
        at += n;
    }
    p->path = file;
    p->n = 0;
    return tb_coherent_for_exec();
}

/* The words for the kernel, made on the stack: an exec may come between a fork and nothing else. */
static size_t room_for(const struct program *p, char *const argv[])
{
    size_t n = 0;
    while (p->n && argv && argv[n])
        n++;
    return n + (size_t)p->n + 1;
}

static char *const *words_for(const struct program *p, char *const argv[], const char **room)
{
    size_t n = (size_t)p->n;
    if (!n)
        return argv;
    memcpy(room, p->words + MOST_WORDS - n, n * sizeof(*room));
    for (size_t i = 1; argv && argv[0] && argv[i]; i++)
        room[n++] = argv[i];
    room[n] = NULL;
    return (char *const *)room;
}

/* This process goes on as another program, with its record locks; or the call fails. */
#define REPLACE(call)                       \
    (__extension__({                        \
        bool begun = tb_locks_exec_begin(); \
        int result = (call);                \
        tb_locks_exec_end(begun);           \
        result;                             \
    }))

TB_WRAPPER int execve(const char *path, char *const argv[], char *const envp[])
{
    struct program p;
    if (find_program(path, envp, &p))
        return -1;
    const char *room[room_for(&p, argv)];
    return REPLACE(REAL(execve)(p.path, words_for(&p, argv, room), envp));
}

TB_WRAPPER int execv(const char *path, char *const argv[])
{
    return execve(path, argv, environ);
}

/* An interpreter has a name of its own that no list is searched for. */
TB_WRAPPER int execvpe(const char *file, char *const argv[], char *const envp[])
{
    struct program p;
    char found[PATH_MAX];
    if (find_by_list(file, envp, found, &p))
        return -1;
    const char *room[room_for(&p, argv)];
    return REPLACE((p.n ? REAL(execve) : REAL(execvpe))(p.path, words_for(&p, argv, room), envp));
}

TB_WRAPPER int execvp(const char *file, char *const argv[])
{
    return execvpe(file, argv, environ);
}

/* By descriptor the kernel names a script /dev/fd/N; it refuses one that is closed by then. */
static int exec_descriptor(int fd, char *const argv[], char *const envp[], int flags)
{
    struct program p;
    char name[32];
    snprintf(name, sizeof(name), "/dev/fd/%d", fd);
    tb_fd_coherent(fd);
    if (find_program(name, envp, &p))
        return -1;
    if (REAL(fcntl)(fd, F_GETFD) & FD_CLOEXEC)
        p.n = 0;
    const char *room[room_for(&p, argv)];
    if (p.n)
        return REPLACE(REAL(execve)(p.path, words_for(&p, argv, room), envp));
    return REPLACE(REAL(execveat)(fd, "", argv, envp, flags));
}

TB_WRAPPER int fexecve(int fd, char *const argv[], char *const envp[])
{
    return exec_descriptor(fd, argv, envp, AT_EMPTY_PATH);
}

static int exec_beside(int dirfd, const char *path, char *const argv[], char *const envp[], int flags)
{
    struct tb_path p;
    if (tb_path_find(dirfd, path, &p) && !flags)
        return execve(p.path, argv, envp);
    char name[PATH_MAX];
    if (tb_coherent_for_exec())
        return -1;
    if (tb_path_name(dirfd, path, name))
        announce_unserved(path, name, envp);
    tb_path_real(&dirfd, &path, TB_NAME_LOOK, &p);
    return REPLACE(REAL(execveat)(dirfd, path, argv, envp, flags));
}

TB_WRAPPER int execveat(int dirfd, const char *path, char *const argv[], char *const envp[], int flags)
{
    bool empty = flags & AT_EMPTY_PATH && (intptr_t)path >= 4096 && !*path;
    return empty ? exec_descriptor(dirfd, argv, envp, flags) : exec_beside(dirfd, path, argv, envp, flags);
}

typedef int spawn_function(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes,
                           char *const argv[], char *const envp[]);

/* libc forks without calling a wrapper. The child inherits the descriptors all the same, and keeps those that this process closes later. */
static int spawn(spawn_function *real, pid_t *pid, const struct program *p, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
    const char *room[room_for(p, argv)];
    char *const *words = words_for(p, argv, room);
    tb_engine *e = tb_inside || tb_fd_highest() < 0 ? NULL : tb_adapter_engine();
    pid_t made = 0;
    if (!e)
        return real(pid, p->path, actions, attributes, words, envp);
    tb_enter();
    tb_engine_atfork_prepare(e);
    int rc = real(&made, p->path, actions, attributes, words, envp);
    tb_engine_atfork_parent(e);
    if (rc)
        tb_engine_atfork_failed(e);
    else
        tb_engine_spawned(e, made);
    tb_leave();
    if (rc == 0 && pid)
        *pid = made;
    return rc;
}

/* Its name is the child's to find, where the actions have led it; one that stays as it is keeps the program's own words. */
static int find_planned(const struct tb_plan *plan, const char *path, char *const *environment, char *found, struct program *p)
{
    const char *there = tb_plan_program(plan, path, found);
    int rc = find_program(there, environment, p);
    if (rc == 0 && p->path == there)
        p->path = path;
    return rc;
}

TB_WRAPPER int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes,
                           char *const argv[], char *const envp[])
{
    struct program p;
    struct tb_plan plan;
    char found[PATH_MAX];
    int rc = tb_plan_make(&plan, actions);
    if (rc)
        return rc;
    rc = find_planned(&plan, path, envp, found, &p) ? errno
                                                    : spawn(REAL(posix_spawn), pid, &p, tb_plan_actions(&plan), attributes, argv, envp);
    tb_plan_end(&plan);
    return rc;
}

TB_WRAPPER int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes,
                            char *const argv[], char *const envp[])
{
    struct program p;
    struct tb_plan plan;
    char found[PATH_MAX];
    if ((intptr_t)file < 4096 || strchr(file, '/'))
        return posix_spawn(pid, file, actions, attributes, argv, envp);
    int rc = tb_plan_make(&plan, actions);
    if (rc)
        return rc;
    spawn_function *real = NULL;
    if (find_by_list(file, envp, found, &p))
        rc = errno;
    else
        real = p.n ? REAL(posix_spawn) : REAL(posix_spawnp);
    if (real)
        rc = spawn(real, pid, &p, tb_plan_actions(&plan), attributes, argv, envp);
    tb_plan_end(&plan);
    return rc;
}
