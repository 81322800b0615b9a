/*
 * This process and its instance: attaching before main, going on after fork, and ending where
 * going on past the buffers would read or write wrong bytes.
 */
#include "core/attach.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/adapter.h"
#include "core/arrivals.h"
#include "core/base.h"
#include "core/cwd.h"
#include "core/record_locks.h"

#define RECOVERY_LOOKS 1500 /* half a minute */
#define LOOK_NS 20000000
#define LOOKS_A_SECOND 50

_Thread_local int tb_inside __attribute__((tls_model("initial-exec")));
_Thread_local int tb_cancel_state __attribute__((tls_model("initial-exec"))) = PTHREAD_CANCEL_DISABLE;

static _Atomic(tb_engine *) engine;
static tb_engine *foreign; /* an instance that this process may not use, while its parent could: adapter.h */
static _Atomic int state;  /* 0 not tried, 1 trying, 2 attached, 3 none */

_Thread_local _Atomic uint32_t *tb_own_calls __attribute__((tls_model("initial-exec")));
static _Thread_local tb_engine *told __attribute__((tls_model("initial-exec"))); /* of a call of this thread that is under way */

void tb_call_begins(void)
{
    told = engine;
    if (told)
        tb_engine_call_begins(told);
}

/* The next call counts in line, where this thread has a count of its own. */
void tb_call_ends(void)
{
    if (told) {
        tb_engine_call_ends(told);
        tb_own_calls = tb_engine_own_calls(told);
    }
    told = NULL;
}

void *tb_real(const char *name)
{
    void *f = dlsym(RTLD_NEXT, name);
    if (!f)
        abort(); /* a libc without a function we wrap is not the one we were built for */
    return f;
}

/* Inside until the fork is made: a signal handler's own fork would wait for this one. */
static void before_fork(void)
{
    tb_enter();
    if (engine)
        tb_engine_atfork_prepare(engine);
    tb_locks_before_fork();
}

static void in_parent(void)
{
    tb_locks_in_parent();
    if (engine)
        tb_engine_atfork_parent(engine);
    tb_leave();
}

/* A child that can use neither slot nor locks: what it inherited is coherent and the kernel's alone, and it has no engine from here on. */
static void become_foreign(void)
{
    foreign = engine;
    engine = NULL;
    state = 3;
    tb_fds_forget();
}

static void in_child(void)
{
    tb_locks_in_child();
    told = engine; /* the call in which it was forked, in this process's own slot */
    tb_own_calls = NULL;
    if (engine)
        tb_engine_atfork_child(engine);
    if (engine && tb_engine_is_foreign(engine))
        become_foreign();
    tb_cwd_reset();
    tb_leave();
}

bool tb_fork_begins(bool leaves)
{
    if (tb_inside || !tb_adapter_engine())
        return false;
    if (leaves)
        tb_engine_atfork_leaves();
    before_fork();
    return true;
}

void tb_fork_ends(pid_t made)
{
    int saved = errno;
    made == 0 ? in_child() : in_parent();
    if (made < 0)
        tb_fork_failed();
    errno = saved;
}

/* What was made for the child is given back. */
void tb_fork_failed(void)
{
    int saved = errno;
    tb_engine *e = tb_inside ? NULL : tb_adapter_engine();
    if (e) {
        tb_enter();
        tb_engine_atfork_failed(e);
        tb_leave();
    }
    errno = saved;
}

static void say(const char *format, ...)
{
    char text[PATH_MAX + 256];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (n < 0 || REAL(write)(STDERR_FILENO, text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1) < 0)
        errno = 0; /* nothing reads the message */
}

/* Of the instance that was named, or of none that was found. */
static const char *reason(int rc, bool found)
{
    if (found)
        return tb_engine_refusal();
    return rc == -ENOTUNIQ ? "several run with this configuration: name one by TIERBENCH_INSTANCE"
         : rc == -ENOENT   ? "no such instance runs"
                           : strerror(-rc);
}

void tb_end_program(const char *what, const char *why)
{
    say("tierbench: %s cannot be used (%s): this program ends, for without the buffers it would read old bytes\n", what, why);
    _exit(2);
}

/* After 1, 2, 4, 8 ... seconds. */
static void say_wait(const char *whom, double seconds)
{
    unsigned whole = (unsigned)seconds;
    if (!(whole & (whole - 1)))
        say("tierbench: to use its instance this program has waited %u s for %s\n", whole, whom);
}

/* Nothing of that name serves this user. Any other failure is this process's own: the instance may hold newer bytes than the PFS. */
static bool may_pass(int rc)
{
    return rc == -ENOENT || rc == -EPERM || rc == -EPROTO || rc == -ESTALE || rc == -EINVAL;
}

/*
 * Until all of it is on the PFS a program would read old bytes there. As long as the ending process lives: that it does, the lease says. Where
 * the drain fails the instance goes on.
 */
static int await_end(const char *name, tb_engine **e)
{
    int rc = -EINPROGRESS;
    for (unsigned look = 1; rc == -EINPROGRESS; look++) {
        nanosleep(&(struct timespec){0, LOOK_NS}, NULL);
        rc = tb_engine_attach(name, tb_base(), e);
        if (look % LOOKS_A_SECOND == 0)
            say_wait("the drain with which it ends", look / LOOKS_A_SECOND);
    }
    return rc;
}

/* A recovery takes a moment; then the instance is gone, or can be used again. */
static int attach_to(const char *name, tb_engine **e)
{
    char what[80];
    tb_engine_hear_waits(say_wait);
    int rc = tb_engine_attach(name, tb_base(), e);
    if (rc == -EINPROGRESS)
        rc = await_end(name, e);
    for (int look = 0; rc == -EBUSY && look < RECOVERY_LOOKS; look++) {
        nanosleep(&(struct timespec){0, LOOK_NS}, NULL);
        rc = tb_engine_attach(name, tb_base(), e);
    }
    snprintf(what, sizeof(what), "instance %s", name);
    if (rc && !may_pass(rc))
        tb_end_program(what, tb_engine_refusal());
    return rc;
}

/*
 * Of tierctl alone (engine/ctl/main.c). Under the adapter it would be a client of the instance
 * that it drains, and wait for the file that its own drain holds.
 */
extern const char tb_is_tool __attribute__((weak, visibility("default")));

/* The first of the three variables that is set and not empty. A program with gained rights ignores them: another user may have set them. */
static const char *asked_for(void)
{
    static const char *const variables[] = {"TIERBENCH_INSTANCE", "TIERBENCH_CONFIG", "HERMES_CONF"};
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        const char *text = secure_getenv(variables[i]);
        if (text && *text)
            return text;
    }
    return NULL;
}

/* Without an instance that can be used the program runs on, unbuffered. The state is stored last: other threads wait for it. */
static void attach(void)
{
    char name[64] = "?";
    tb_engine *e = NULL;
    const char *asked = asked_for();
    if (&tb_is_tool || !asked) {
        state = 3;
        return;
    }
    int rc = tb_engine_find(name, sizeof(name));
    bool found = !rc;
    if (found)
        rc = attach_to(name, &e);
    if (rc)
        say("tierbench: instance %s cannot be used (%s): I/O passes through unbuffered\n", asked, reason(rc, found));
    if (e && tb_engine_config_changed(e))
        say("tierbench: the configuration changed after instance %s had started: it goes on with the old one\n", name);
    engine = e;
    if (e)
        tb_base_know_shadow(tb_engine_shadow(e));
    if (e)
        tb_locks_adopt();
    if (e)
        tb_arrivals_read_environment();
    if (e)
        pthread_atfork(before_fork, in_parent, in_child);
    if (e)
        tb_engine_tells_calls(e); /* last: if killed before, this call counts as under way */
    state = e ? 2 : 3;
}

tb_engine *tb_adapter_engine(void)
{
    int untried = 0;
    if (state >= 2)
        return engine;
    if (!atomic_compare_exchange_strong(&state, &untried, 1))
        return NULL; /* another thread attaches: its first file is not yet managed */
    int saved = errno;
    tb_enter();
    attach();
    tb_leave();
    errno = saved;
    return engine;
}

/* In /proc these lead to other files, whose names the program reads in its own words (wrap/names/links.c). */
static bool leads_elsewhere(const char *path)
{
    return strstr(path, "/..") || strstr(path, "/cwd") || strstr(path, "/root") || strstr(path, "/fd/");
}

/*
 * What the system says of itself, and the records of a trace, which begin with the first call: no instance has files there. A pointer that is
 * no string is the kernel's to refuse.
 */
static bool is_unmanaged(const char *path)
{
    static const char *const places[] = {"/etc/", "/proc/", "/sys/", "/dev/urandom", "/dev/random"};
    if ((intptr_t)path >= 4096 && strncmp(path, "/dev/shm/tierbench.", 19) == 0)
        return strstr(path, ".trace/");
    for (size_t i = 0; (intptr_t)path >= 4096 && i < sizeof(places) / sizeof(places[0]); i++)
        if (strncmp(path, places[i], strlen(places[i])) == 0)
            return !leads_elsewhere(path);
    return false;
}

/*
 * An allocator that the program is linked with reads such files while it begins, and holds its lock. That may be before our constructor: the
 * loader asks it for memory, or its own constructor comes first. To attach needs memory, so the thread would wait for itself for ever.
 */
tb_engine *tb_adapter_engine_for(const char *path)
{
    return state < 2 && is_unmanaged(path) ? NULL : tb_adapter_engine();
}

tb_engine *tb_adapter_foreign(void)
{
    return foreign;
}

/*
 * Attached before main, while there is one thread, so that no open misses it. If an allocator begins only now, it begins inside: its calls
 * are libc's.
 */
static __attribute__((constructor)) void attach_early(void)
{
    tb_adapter_engine();
}
