/* What the listener of a thread is told of a wait: for whom, whether it is in vain, and that it is over. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/wait.h"

#define SECOND_NS 1000000000ull

struct told {
    int calls, pid;
    bool in_vain;
};

static void note(void *arg, int pid, double seconds, bool in_vain)
{
    struct told *told = arg;
    assert_true(seconds > 0);
    *told = (struct told){told->calls + 1, pid, in_vain};
}

static pid_t stopped_process(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* also where a check fails */
        for (raise(SIGSTOP);;)
            pause();
    }
    assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
    return pid;
}

static void a_wait_in_vain_that_is_over_is_in_vain_no_more(void **state)
{
    struct told told = {0};
    pid_t pid = stopped_process();
    (void)state;
    tb_wait_listen_here(note, &told);
    uint64_t now = tb_now_ns();
    struct tb_wait wait = {.since_ns = now - 40 * SECOND_NS, .stopped_ns = now - (TB_WAIT_STOPPED_SECONDS + 1) * SECOND_NS};
    tb_wait_go_on(&wait, pid);
    assert_true(told.calls == 1 && told.pid == pid && told.in_vain);
    tb_wait_end(&wait);
    assert_true(told.calls == 2 && told.pid == 0 && !told.in_vain);
    tb_wait_listen_here(NULL, NULL);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void a_short_wait_is_not_told(void **state)
{
    struct told told = {0};
    struct tb_wait wait = {0};
    (void)state;
    tb_wait_listen_here(note, &told);
    tb_wait_go_on(&wait, getppid());
    tb_wait_go_on(&wait, getppid());
    tb_wait_end(&wait);
    assert_int_equal(told.calls, 0);
    tb_wait_listen_here(NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wait_in_vain_that_is_over_is_in_vain_no_more),
        cmocka_unit_test(a_short_wait_is_not_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
