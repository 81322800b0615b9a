/*
 * The progress of a stage, from the log alone, so that any node can show it. Counts are the log's lines, as Spectral
 * shows them; bytes, which lines of Spectral lack, give the rate and the time left. At the end files that were not moved
 * are named, up to MOST_NAMED of them.
 */
#include "staging/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/ctl.h"
#include "text/sizes.h"
#include "text/text.h"

#define BAR 24
#define SHORTEST_BAR 6
#define MOST_NAMED 20

/* Bytes that were moved before do not count for the rate. */
void ctl_progress_begin(struct ctl_stage_progress *p, struct tb_ledger *ledger, const char *host, const char *from)
{
    *p = (struct ctl_stage_progress){.ledger = ledger, .host = host, .from = from, .start = ctl_now(), .bytes_before = ledger->bytes_moved};
}

static int columns(void)
{
    struct winsize size;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
}

/*
 * After the counts: [#####-----] 120.0 MiB/s, 3 s left. The rate is the mean since the start, which jumps less than that of
 * the last second. All of it fits into a line of the terminal, or each next one would go below it: so where there is little room there is a
 * shorter bar, or none.
 */
static void show_bar(const struct ctl_stage_progress *p, const char *counts)
{
    const struct tb_ledger *l = p->ledger;
    double spent = ctl_now() - p->start, moved = (double)(l->bytes_moved - p->bytes_before);
    double rate = spent > 0 ? moved / spent : 0;
    double left = l->bytes_queued > l->bytes_moved ? (double)(l->bytes_queued - l->bytes_moved) : 0;
    double share = l->bytes_queued ? (double)l->bytes_moved / (double)l->bytes_queued : 1;
    char tail[60];
    int n = snprintf(tail, sizeof(tail), " %.1f MiB/s", rate / TB_MIB), room;
    if (rate > 0)
        n += snprintf(tail + n, sizeof(tail) - (size_t)n, ", %.0f s left", left / rate);
    room = columns() - 1 - (int)strlen(counts) - n - (int)strlen(" []");
    int bar = room < BAR ? room : BAR, full = (int)((share < 1 ? share : 1) * bar);
    printf("\r\033[K%.*s", columns() - 1, counts);
    if (bar >= SHORTEST_BAR)
        printf(" [%.*s%.*s]", full, "########################", bar - full, "------------------------");
    if (room + (int)strlen(" []") >= 0)
        fputs(tail, stdout);
}

/* Without a terminal a line only where it differs from the last one, so that a job's output stays short. */
void ctl_progress_show(struct ctl_stage_progress *p, bool last)
{
    char line[sizeof(p->line)];
    bool bar = isatty(STDOUT_FILENO);
    double now = ctl_now();
    snprintf(line, sizeof(line), "Enqueued:%" PRIu64 " Dequeued:%" PRIu64 " Done:%" PRIu64, p->ledger->enqueued, p->ledger->dequeued,
             p->ledger->done);
    if (!last && (now - p->told < (bar ? 0.2 : 1) || (strcmp(line, p->line) == 0 && !bar)))
        return;
    p->told = now;
    if (last && !bar && strcmp(line, p->line) == 0)
        return;
    strcpy(p->line, line);
    if (bar)
        show_bar(p, line);
    else
        fputs(line, stdout);
    if (!bar || last)
        putchar('\n');
    fflush(stdout);
}

struct left {
    const struct ctl_stage_progress *of;
    int n, failed;
};

/* At most MOST_NAMED: the whole list is --left's. With `host` only its own files, as other nodes name theirs. */
static void name_left(void *arg, const struct tb_entry *e)
{
    struct left *left = arg;
    const struct ctl_stage_progress *p = left->of;
    if ((p->host && strcmp(e->host, p->host) != 0) || (p->from && !tb_path_is_under(e->source, p->from)))
        return;
    left->failed += e->state == TB_ENTRY_FAILED;
    if (left->n++ < MOST_NAMED)
        fprintf(stderr, "tierctl: not moved: %s:%s to %s: %s\n", e->host, e->source, e->destination,
                e->state == TB_ENTRY_FAILED && e->reason ? e->reason : "there was no time, or no mover");
}

/* The last line of progress comes before the names, so that what is read last is what is missing. */
int ctl_progress_end(struct ctl_stage_progress *p, bool complete)
{
    struct left left = {.of = p};
    ctl_progress_show(p, true);
    if (!complete || !p->host)
        tb_ledger_each_left(p->ledger, name_left, &left);
    if (!left.n && complete)
        return puts("All files moved"), fflush(stdout), 0;
    if (left.n > MOST_NAMED)
        fprintf(stderr, "tierctl: and %d more\n", left.n - MOST_NAMED);
    if (!complete && !left.failed)
        ctl_fail("stopped before all files were moved; `tierctl wait` goes on");
    return EXIT_DRAIN_FAILED;
}
