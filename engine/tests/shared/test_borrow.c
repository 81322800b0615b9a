/*
 * A node joins the others, and one of them asks for its state before the table of lenders is whole: what the daemon says of itself is read
 * only then. The network, and the message about lost bytes, are played.
 */
#include "fixture.h"

#include <pthread.h>
#include <time.h>

#include "borrow.h"
#include "relay.h"

#define NODES 3u

static struct tb_net *const net = (struct tb_net *)&(int){0};

unsigned tb_net_count(const struct tb_net *asked)
{
    if (asked != net)
        abort(); /* the thread that asks is not cmocka's */
    return NODES;
}

int tb_net_is_alive(const struct tb_net *asked, unsigned node)
{
    assert_ptr_equal(asked, net);
    return node < NODES;
}

int64_t tb_net_call(struct tb_net *asked, unsigned node, const void *request, size_t n, void *answer, size_t room)
{
    (void)asked, (void)node, (void)request, (void)n, (void)answer, (void)room;
    return -1;
}

void relay_say_lost(tb_engine *e, const struct tb_net *asked, const struct tb_wire *w, unsigned node, int64_t why)
{
    (void)e, (void)asked, (void)w, (void)node, (void)why;
}

static bool asks;
static pthread_t asker;

static void *ask(void *unused)
{
    struct borrowed all, lost;
    (void)unused;
    borrow_all(&all, &lost);
    assert_int_equal(all.used + lost.used, 0);
    return NULL;
}

/* Between the first table and the second one another node asks, and has time to do so. */
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size)
{
    static int calls;
    if (asks && ++calls == 2) {
        asks = false;
        pthread_create(&asker, NULL, ask, NULL);
        nanosleep(&(struct timespec){0, 50000000}, NULL);
    }
    return __real_calloc(n, size);
}

static void is_asked_while_it_begins(void **state)
{
    struct fixture x;
    (void)state;
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    fixture_start(&x);
    x.engine->header->config.tiers[2].medium = TB_MEDIUM_REMOTE;
    asks = true;
    assert_int_equal(borrow_begin(x.engine, net), 0);
    assert_int_equal(pthread_join(asker, NULL), 0);
    borrow_end(x.engine);
    x.engine->header->config.tiers[2].medium = TB_MEDIUM_DIRECTORY;
    fixture_stop(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(is_asked_while_it_begins)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
