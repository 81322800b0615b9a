/*
 * tb-ior's command line with its script.  What is refused says why; what is accepted is the same when it is read
 * again, because every rank reads it, and is what the passes rely on: no size overflows, and every transfer is in
 * its file.
 */
#include "fuzz_line.h"

#include "tb_ior.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
FILE *fuzz_open_script(const char *path, const char *mode);

static const char *script;
static size_t script_bytes;

FILE *fuzz_open_script(const char *path, const char *mode)
{
    (void)path;
    return script_bytes ? fmemopen((char *)script, script_bytes, mode) : NULL;
}

struct parsed {
    struct fuzz_line line;
    bool good;
    struct tb_options options;
    struct tb_tests tests;
    struct tb_complaint complaint;
};

/* The complaint is filled first, so that a text without an end is found. */
static void parse(struct parsed *p, const uint8_t *data, size_t size)
{
    memset(&p->complaint, 'x', sizeof(p->complaint));
    p->tests = (struct tb_tests){0};
    fuzz_line_make(&p->line, data, size);
    script = p->line.script;
    script_bytes = (size_t)(p->line.bytes + p->line.size - script);
    p->good = tb_ior_options(&p->options, &p->tests, p->line.argc, p->line.argv, p->line.tasks, &p->complaint);
    if (!p->good)
        fuzz_check_complaint(&p->complaint);
}

static void forget(struct parsed *p)
{
    tb_tests_free(&p->tests);
    fuzz_line_free(&p->line);
}

/*
 * Only small tests: an order of millions of transfers would take the time of many inputs. The
 * last rank has the largest offsets.
 */
static void check_order(const struct tb_options *o, const struct tb_world *w)
{
    enum { FEW = 4096 };
    struct tb_order order;
    if (o->block / o->transfer > FEW || o->segments > FEW || (o->random_offset && w->tasks > 64))
        return;
    tb_order_make(&order, o, w->tasks, w->tasks - 1);
    for (int64_t i = 0; i < order.count && i < FEW; i++) {
        int64_t offset = tb_order_offset(&order, i);
        fuzz_check(offset >= 0 && offset % o->transfer == 0 && offset <= tb_file_bytes(o, w) - o->transfer);
    }
    tb_order_free(&order);
}

/* Only what the passes rely on and no longer check themselves. */
static void check_test(const struct tb_options *o, int tasks)
{
    struct tb_world w = {.tasks = o->tasks > 0 && o->tasks < tasks ? o->tasks : tasks, .nodes = 1, .tasks_per_node = tasks};
    fuzz_check(o->backend && o->output && o->file && *o->file && o->tasks);
    fuzz_check(o->transfer > 0 && o->transfer % 8 == 0 && o->block % o->transfer == 0 && o->segments > 0);
    fuzz_check(o->write || o->read || o->check_write || o->check_read);
    fuzz_check(tb_aggregate(o, &w) > 0 && tb_file_bytes(o, &w) >= o->block);
    int owner = tb_owner(o, &w, 1);
    fuzz_check(owner >= 0 && owner < w.tasks);
    check_order(o, &w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct parsed one, again;
    parse(&one, data, size);
    parse(&again, data, size);
    fuzz_check(one.good == again.good && one.tests.count == again.tests.count);
    fuzz_check(one.good || !strcmp(one.complaint.text, again.complaint.text));
    bool runs = one.good && !one.options.help && !one.options.version;
    fuzz_check(!runs || one.tests.count);
    for (size_t i = 0; runs && i < one.tests.count; i++)
        check_test(&one.tests.options[i], one.line.tasks);
    forget(&one);
    forget(&again);
    return 0;
}
