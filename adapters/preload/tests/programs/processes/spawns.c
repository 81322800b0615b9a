/*
 * What posix_spawn does between fork and exec, in the current folder: all of it happens when
 * the child is made, in the order in which it was asked for. The same is right without the tiers.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checks.h"

extern char **environ;
static posix_spawn_file_actions_t actions;

static void put(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text) && close(fd) == 0);
}

static void begin(void)
{
    CHECK(posix_spawn_file_actions_init(&actions) == 0);
}

static void add_open(int fd, const char *path, int flags)
{
    CHECK(posix_spawn_file_actions_addopen(&actions, fd, path, flags, 0644) == 0);
}

static void end(void)
{
    CHECK(posix_spawn_file_actions_destroy(&actions) == 0);
}

/* The error of the spawn, or the child's exit status. */
static int run_file(const char *file, const char *script)
{
    char *argv[] = {"sh", "-c", (char *)script, NULL};
    pid_t pid;
    int status = 0, rc = posix_spawnp(&pid, file, &actions, NULL, argv, environ);
    CHECK(rc || waitpid(pid, &status, 0) == pid);
    return rc ? rc : WEXITSTATUS(status);
}

static int run(const char *script)
{
    return run_file("sh", script);
}

static void nothing_before(void)
{
    put("keep", "content");
    begin();
    add_open(1, "keep", O_WRONLY | O_TRUNC);
    add_open(2, "never", O_WRONLY | O_CREAT);
    end();
    CHECK(holds("keep", "content") && access("never", F_OK) < 0);
}

/* With the same actions more than once, on what there is by then. */
static void at_each_spawn(void)
{
    begin();
    add_open(1, "later/x", O_WRONLY | O_CREAT | O_EXCL);
    CHECK(run("printf 1") == ENOENT && mkdir("later", 0755) == 0);
    CHECK(run("printf 1") == 0 && run("printf 2") == EEXIST && holds("later/x", "1"));
    CHECK(unlink("later/x") == 0 && run("printf 3") == 0 && holds("later/x", "3"));
    end();
    begin();
    add_open(1, "log", O_WRONLY | O_CREAT | O_APPEND);
    put("log", "first ");
    CHECK(run("printf 'second '") == 0 && run("printf third") == 0 && holds("log", "first second third"));
    end();
}

static void in_directories(void)
{
    CHECK(mkdir("one", 0755) == 0 && mkdir("one/two", 0755) == 0 && mkdir("three", 0755) == 0);
    int three = open("three", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    put("one/two/in", "text");
    put("one/two/program", "#!/bin/sh\nprintf program\n");
    CHECK(chmod("one/two/program", 0755) == 0);
    begin();
    CHECK(posix_spawn_file_actions_addchdir_np(&actions, "one") == 0);
    add_open(30, "two", O_RDONLY | O_DIRECTORY);
    CHECK(posix_spawn_file_actions_addfchdir_np(&actions, three) == 0);
    add_open(1, "out", O_WRONLY | O_CREAT);
    CHECK(posix_spawn_file_actions_addfchdir_np(&actions, 30) == 0);
    add_open(0, "in", O_RDONLY);
    add_open(3, "made", O_WRONLY | O_CREAT);
    CHECK(run("cat; printf made >&3; printf x > by-name") == 0);
    CHECK(holds("three/out", "text") && holds("one/two/made", "made") && holds("one/two/by-name", "x"));
    CHECK(access("out", F_OK) < 0 && access("made", F_OK) < 0);
    CHECK(run_file("./program", "") == 0 && holds("three/out", "program"));
    end();
    close(three);
}

/* The descriptors of this process and of the child are not mixed up, nor with those that the adapter opens. */
static void with_numbers(void)
{
    int late = open("late", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    close(late);
    begin();
    for (int fd = 3; fd < 30; fd++)
        add_open(fd, "numbers", O_WRONLY | O_CREAT | O_APPEND);
    CHECK(posix_spawn_file_actions_addclose(&actions, 29) == 0 && posix_spawn_file_actions_adddup2(&actions, 28, 1) == 0);
    CHECK(run("for fd in 3 4 5 6 7 8 9; do printf $fd >&$fd; done; printf end; ! [ -e /proc/self/fd/29 ]") == 0 &&
          holds("numbers", "3456789end"));
    end();
    begin();
    CHECK(posix_spawn_file_actions_adddup2(&actions, late, 1) == 0);
    late = open("late", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    CHECK(write(late, "parent ", 7) == 7 && run("printf child") == 0 && holds("late", "parent child"));
    close(late);
    end();
    begin();
    CHECK(posix_spawn_file_actions_addclosefrom_np(&actions, 3) == 0);
    add_open(1, "after", O_WRONLY | O_CREAT | O_EXCL);
    add_open(3, "closed", O_WRONLY | O_CREAT | O_CLOEXEC);
    CHECK(run("printf after; ! [ -e /proc/self/fd/3 ]") == 0 && holds("after", "after") && holds("closed", ""));
    end();
}

/* What is no regular file, and a new one that its mode lets no one open again. */
static void of_other_kinds(void)
{
    int fifo = -1;
    CHECK(mkfifo("fifo", 0644) == 0 && (fifo = open("fifo", O_RDWR | O_CLOEXEC)) >= 0 && write(fifo, "line\n", 5) == 5);
    begin();
    add_open(0, "fifo", O_RDONLY);
    add_open(2, "/dev/null", O_WRONLY);
    CHECK(posix_spawn_file_actions_addopen(&actions, 1, "mode", O_WRONLY | O_CREAT, 0) == 0);
    CHECK(run("read line; printf $line; ls absent >&2; exit 7") == 7 && chmod("mode", 0644) == 0 && holds("mode", "line"));
    end();
    close(fifo);
}

/* An object that is begun again without an end has no actions; a spawn that fails has done what comes before its error. */
static void without_leaks(void)
{
    struct rlimit few = {256, 256}, before;
    int rc = 0;
    CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
    few.rlim_max = before.rlim_max;
    CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
    for (int i = 0; i < 300 && !rc; i++) {
        begin();
        add_open(1, "leaks", O_WRONLY | O_CREAT | O_APPEND);
        CHECK(run_file("./absent", "") == ENOENT);
        add_open(2, "absent/", O_WRONLY);
        CHECK(run("") != 0);
        begin();
        add_open(1, "leaks", O_WRONLY | O_CREAT | O_APPEND);
        rc = i % 30 ? 0 : run("printf .");
        end();
    }
    CHECK(rc == 0 && holds("leaks", "..........") && setrlimit(RLIMIT_NOFILE, &before) == 0);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    nothing_before();
    at_each_spawn();
    in_directories();
    with_numbers();
    of_other_kinds();
    without_leaks();
    printf("%d failures\n", failures);
    return failures != 0;
}
