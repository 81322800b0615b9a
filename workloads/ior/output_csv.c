/*
 * IOR's CSV: the table alone, every number with four decimals. Options, warnings and summaries have no place in it, so they
 * are not printed. Rows are in the order of the run.
 */
#include "tb_ior.h"

/* IOR says the columns again for each test, which is how a reader knows that one begins. */
static void test(struct tb_report *r, const struct tb_test *t, uint32_t signature)
{
    (void)t;
    (void)signature;
    fputs("access,bw(MiB/s),IOPS,Latency,block(KiB),xfer(KiB),open(s),wr/rd(s),close(s),total(s),numTasks,iter\n", r->out);
}

static void result(struct tb_report *r, const struct tb_test *t, const struct tb_result *x)
{
    fprintf(r->out, "%s,%.4f,%.4f,%.4f,%.4f,%.4f,%.4f,%.4f,%.4f,%.4f,%d,%d\n", x->write ? "write" : "read", x->bandwidth_mib, x->iops,
            x->latency_s, (double)t->options->block / 1024, (double)t->options->transfer / 1024, x->open_s, x->transfer_s, x->close_s,
            x->total_s, t->world.tasks, x->repetition);
}

const struct tb_output tb_csv = {.name = "CSV", .test = test, .result = result};
