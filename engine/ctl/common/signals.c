/*
 * Signals of `tierctl run`: held until there is a program, passed on to it while it runs,
 * answered with one line during the drain (common/signals.h).
 */
#include "common/signals.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const int passed_on[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
#define N_PASSED_ON (sizeof(passed_on) / sizeof(passed_on[0]))

static struct sigaction callers_pipe, callers_ttou;
static sigset_t callers_mask;
static volatile pid_t program;
static volatile bool passes_keys;
static char answer[300];

/* The terminal has told the program of its keys already: it signals the whole group in the foreground. */
static bool is_key(int sig, const siginfo_t *info)
{
    return (sig == SIGINT || sig == SIGQUIT) && info->si_code == SI_KERNEL;
}

/*
 * Only kill and write, which are allowed in a handler; the text was made before. SA_RESTART
 * keeps the drain's calls whole.
 */
static void on_signal(int sig, siginfo_t *info, void *context)
{
    (void)context;
    if (program > 0 && (passes_keys || !is_key(sig, info)))
        kill(program, sig);
    if (program <= 0 && write(STDERR_FILENO, answer, strlen(answer)) < 0)
        return; /* the terminal may be gone */
}

/* SIGKILL and SIGSTOP can't be held; SIGCHLD and the like are not for the program. */
static sigset_t all_passed_on(void)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < N_PASSED_ON; i++)
        sigaddset(&set, passed_on[i]);
    return set;
}

/* Output to a pipe without a reader, or to a terminal that another group uses, must neither end nor stop this process. */
static void ignore_outputs(void)
{
    const struct sigaction ignored = {.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, &ignored, &callers_pipe);
    sigaction(SIGTTOU, &ignored, &callers_ttou);
}

/*
 * Order: the signals are blocked before their handlers change, so that none is lost before
 * there is a program. One that the caller ignores (nohup) stays ignored.
 */
void ctl_signals_hold(const char *instance)
{
    struct sigaction act = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART}, before;
    sigset_t set = all_passed_on();
    snprintf(answer, sizeof(answer),
             "tierctl: the program has ended; its bytes are going to the PFS, which no signal but SIGKILL stops (instance %s)\n", instance);
    sigprocmask(SIG_BLOCK, &set, &callers_mask);
    ignore_outputs();
    for (size_t i = 0; i < N_PASSED_ON; i++)
        if (sigaction(passed_on[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(passed_on[i], &act, NULL);
}

/*
 * In the child, before its exec: ignored signals and the mask outlive an exec, so the program
 * must get the caller's.
 */
void ctl_signals_give_back(void)
{
    struct sigaction now;
    const struct sigaction normal = {.sa_handler = SIG_DFL};
    for (size_t i = 0; i < N_PASSED_ON; i++)
        if (sigaction(passed_on[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaction(passed_on[i], &normal, NULL);
    sigaction(SIGPIPE, &callers_pipe, NULL);
    sigaction(SIGTTOU, &callers_ttou, NULL);
    sigprocmask(SIG_SETMASK, &callers_mask, NULL);
}

/* The number first: signals that waited arrive as soon as the mask is the caller's again. */
static void pass_to(pid_t pid, bool keys)
{
    passes_keys = keys;
    program = pid;
    sigprocmask(SIG_SETMASK, &callers_mask, NULL);
}

void ctl_signals_pass_to(pid_t pid)
{
    pass_to(pid, false);
}

void ctl_signals_pass_all_to(pid_t pid)
{
    pass_to(pid, true);
}

/* From here on a signal is answered: the number may be another process's soon. */
void ctl_signals_program_ended(void)
{
    program = 0;
}
