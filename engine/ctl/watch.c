/*
 * Looks at the counters and shows what is in the tiers and what moved since the
 * last look.  Counters only: a look takes no lock that a program could wait for.
 *
 * On a terminal the picture is drawn over the last one, line by line and cut to
 * its width, so that what was printed before stays on the screen.
 */
#include "base/report.h"
#include "common/show.h"
#include "instance/stats.h"
#include "text/sizes.h"
#include "watch.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define BAR 18 /* characters of a tier's picture */
#define ERRORS_SHOWN 5

struct look {
    double at; /* seconds since the instance started */
    struct tb_stats stats;
    struct tb_instance_info info;
};

struct watch {
    tb_engine *engine;
    bool json, terminal;
    int columns, lines; /* of the terminal; of the last picture */
    struct look last, now;
};

/* The look before is kept, because rates need two. */
static void look(struct watch *w)
{
    w->last = w->now;
    tb_engine_stats(w->engine, &w->now.stats);
    tb_instance_info(w->engine, &w->now.info);
    w->now.at = tb_instance_age(w->engine);
}

/* MiB a second since the last look; counters never fall. */
static double rate(const struct watch *w, uint64_t last, uint64_t now)
{
    double seconds = w->now.at - w->last.at;
    return seconds > 0 && w->last.at > 0 ? (double)(now - last) / TB_MIB / seconds : 0;
}

struct tier_view {
    const char *name;
    double capacity, dirty, clean, free, in, out, flush; /* MiB, MiB/s */
};

/*
 * The counters are read without a lock and may not fit each other, so each is cut to the one
 * above it.
 */
static struct tier_view view_tier(const struct watch *w, uint32_t t)
{
    const struct tb_tier_stats *a = &w->last.stats.tier[t], *b = &w->now.stats.tier[t];
    uint64_t used = b->used < b->capacity ? b->used : b->capacity, dirty = b->dirty < used ? b->dirty : used;
    return (struct tier_view){.name = b->name,
                              .capacity = (double)b->capacity / TB_MIB,
                              .dirty = (double)dirty / TB_MIB,
                              .clean = (double)(used - dirty) / TB_MIB,
                              .free = (double)(b->capacity - used) / TB_MIB,
                              .in = rate(w, a->bytes_in, b->bytes_in),
                              .out = rate(w, a->bytes_out, b->bytes_out),
                              .flush = rate(w, a->flushed, b->flushed)};
}

/* One line of the picture, drawn over the line before. */
static void draw(struct watch *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Cut at the width of the terminal: a line that wraps would move all below it. What an earlier line left is cleared. */
static void draw(struct watch *w, const char *format, ...)
{
    char line[512];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    printf("%.*s\033[K\n", w->columns, line);
    w->lines++;
}

/* Rounded up: what is dirty shows as one character at least, however little it is. */
static void draw_bar(const struct tier_view *v, char *out)
{
    double each = v->capacity > 0 ? BAR / v->capacity : 0;
    int dirty = (int)(v->dirty * each + 0.999), used = (int)((v->dirty + v->clean) * each + 0.999);
    for (int i = 0; i < BAR; i++)
        out[i] = i < dirty ? '#' : i < used ? '+' : '.';
    out[BAR] = 0;
}

/* Only the first lines: a picture that is higher than the terminal could not be drawn over. */
static void draw_error(void *arg, const struct tb_file_report *r)
{
    struct watch *w = arg;
    if (w->lines < 4 + TB_MAX_TIERS + ERRORS_SHOWN)
        draw(w, "error: %s: %s", r->path, strerror(-r->error));
}

/* The cursor goes up by the lines of the last picture, and what that had more is cleared at the end. */
static void draw_picture(struct watch *w)
{
    const struct tb_stats *s = &w->now.stats, *last = &w->last.stats;
    const struct tb_instance_info *i = &w->now.info;
    char bar[BAR + 1];
    if (w->lines)
        printf("\033[%dA", w->lines);
    w->lines = 0;
    draw(w, "%s  %.0f s  daemon %s  clients %u  huge pages %s  files %u (%u dirty)", i->name, w->now.at, i->daemon_alive ? "alive" : "dead",
         i->n_clients, tb_huge_pages_name(i->huge_pages), s->n_files, s->n_dirty_files);
    draw(w, "%-8s %-*s %8s%8s%8s%8s%8s%8s", "tier", BAR + 2, "#dirty +clean, MiB:", "dirty", "clean", "free", "in/s", "out/s", "flush/s");
    for (uint32_t t = 0; t < s->n_tiers; t++) {
        struct tier_view v = view_tier(w, t);
        draw_bar(&v, bar);
        draw(w, "%-8.8s [%s] %8.1f%8.1f%8.1f%8.1f%8.1f%8.1f", v.name, bar, v.dirty, v.clean, v.free, v.in, v.out, v.flush);
    }
    draw(w, "pfs      %.1f MiB/s written, %.1f read; %.1f MiB spilled, %llu fsyncs", rate(w, last->pfs_bytes_written, s->pfs_bytes_written),
         rate(w, last->pfs_bytes_read, s->pfs_bytes_read), (double)s->spilled / TB_MIB, (unsigned long long)s->fsyncs);
    tb_instance_errors(w->engine, draw_error, w);
    fputs("\033[J", stdout);
}

/* Where stdout is no terminal: one line a look, which a script can read. */
static void print_line(const struct watch *w)
{
    const struct tb_stats *s = &w->now.stats, *last = &w->last.stats;
    printf("%.1f s  clients %u", w->now.at, w->now.info.n_clients);
    for (uint32_t t = 0; t < s->n_tiers; t++) {
        struct tier_view v = view_tier(w, t);
        printf("  %s: dirty %.1f clean %.1f free %.1f MiB, in %.1f out %.1f flush %.1f MiB/s", v.name, v.dirty, v.clean, v.free, v.in,
               v.out, v.flush);
    }
    printf("  pfs: written %.1f read %.1f MiB/s  errors %u\n", rate(w, last->pfs_bytes_written, s->pfs_bytes_written),
           rate(w, last->pfs_bytes_read, s->pfs_bytes_read), s->n_errors);
}

/* Flushed after each look: a reader of a pipe would else get many looks late and at once. */
static void show(struct watch *w)
{
    look(w);
    if (w->json) {
        json_t *j = ctl_instance_json(w->engine, false);
        json_dumpf(j, stdout, JSON_COMPACT);
        puts("");
        json_decref(j);
    } else if (w->terminal) {
        draw_picture(w);
    } else {
        print_line(w);
    }
    fflush(stdout);
}

/* The terminal may have been resized since the last look. */
static int terminal_columns(void)
{
    struct winsize size;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
}

/*
 * The signals are blocked and waited for, so that one of them ends the wait at once and the
 * last picture stays whole. Ends with 0 also when the reader of stdout is gone.
 */
int ctl_watch(tb_engine *engine, double seconds, bool json)
{
    struct watch w = {.engine = engine, .json = json, .terminal = isatty(STDOUT_FILENO) && !json};
    struct timespec wait = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGPIPE);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    do {
        w.columns = terminal_columns();
        show(&w);
        if (sigtimedwait(&ends, NULL, &wait) > 0 || ferror(stdout))
            return 0;
    } while (tb_instance_is_there(engine));
    if (!json)
        printf("instance %s ended\n", w.now.info.name);
    return 0;
}
