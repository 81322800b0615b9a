/*
 * The picture of `plan --svg`: what is where in the tiers. One bar a tier, all on one scale of bytes; a slab is a coloured
 * segment, cut into its buffers where each would be at least 3 px wide. What a tier's slabs leave free (metadata, remainders)
 * stays grey.
 *
 * Below the bars, with --writes: a column for each write. Its colours are the tiers that would take it, the fastest on top. The
 * key under it has the sums.
 */
#include <errno.h>
#include <string.h>

#include "common/ctl.h"
#include "config/placement.h"
#include "plan/svg.h"
#include "text/sizes.h"

#define LEFT 120.0
#define WIDTH 900.0
#define BAR 64.0
#define STEP 124.0
#define LINE 18.0
#define MIN_BUFFER_PX 3.0

static const char *const colours[TB_MAX_SLABS] = {"#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677", "#aa3377", "#88bbaa", "#ddaa77"};

/* Names of tiers and files are the user's, and may hold what SVG reads as its own. */
static void escape(FILE *out, const char *text)
{
    for (; *text; text++)
        if (strchr("<>&\"", *text))
            fprintf(out, "&#%d;", *text);
        else
            fputc(*text, out);
}

/* White lines between buffers, left out where they would hide the colour. */
static void draw_slab(FILE *out, const struct tb_layout_slab *s, uint32_t index, double x, double y, double scale)
{
    double each = (double)s->buffer_size * scale, width = each * s->n_buffers;
    fprintf(out, "<rect x='%.2f' y='%.2f' width='%.2f' height='%.2f' fill='%s'/>\n", x, y, width, BAR, colours[index]);
    for (uint32_t i = 1; each >= MIN_BUFFER_PX && i < s->n_buffers; i++)
        fprintf(out, "<path d='M%.2f %.2fv%.2f' stroke='#fff' stroke-width='0.6'/>\n", x + each * i, y, BAR);
}

/* Binary units, as in configurations. */
static const char *size_text(uint64_t bytes, char *out, size_t size)
{
    if (bytes >= TB_MIB)
        snprintf(out, size, "%.4g MiB", (double)bytes / TB_MIB);
    else
        snprintf(out, size, "%.4g KiB", (double)bytes / 1024.0);
    return out;
}

/* `scale` is px for a byte, the same for all tiers, so that bars can be compared. */
static void draw_tier(FILE *out, const struct tb_config *c, const struct tb_layout *l, uint32_t t, double y, double scale)
{
    const struct tb_config_tier *tier = &c->tiers[t];
    char text[32];
    double x = LEFT, key = LEFT;
    fprintf(out, "<text x='%.0f' y='%.1f' text-anchor='end' font-weight='bold'>", LEFT - 12, y + BAR / 2);
    escape(out, tier->name);
    fprintf(out, "</text><text x='%.0f' y='%.1f' text-anchor='end' fill='#666'>%s</text>\n", LEFT - 12, y + BAR / 2 + 18,
            size_text(tier->capacity, text, sizeof(text)));
    fprintf(out, "<rect x='%.2f' y='%.2f' width='%.2f' height='%.2f' fill='#e4e4e4'/>\n", LEFT, y, (double)tier->capacity * scale, BAR);
    for (uint32_t k = 0; k < tier->n_slabs; k++) {
        const struct tb_layout_slab *s = &l->slab[l->tier_first_slab[t] + k];
        draw_slab(out, s, k, x, y, scale);
        x += (double)(s->buffer_size * s->n_buffers) * scale;
        fprintf(out, "<rect x='%.0f' y='%.1f' width='11' height='11' fill='%s'/><text x='%.0f' y='%.1f'>slab %u: %u x %s</text>\n", key,
                y + BAR + 8, colours[k], key + 16, y + BAR + 18, k, s->n_buffers, size_text(s->buffer_size, text, sizeof(text)));
        key += WIDTH / 4;
    }
}

/* Five marks from 0 to the largest tier's capacity. */
static void draw_axis(FILE *out, uint64_t largest, double y)
{
    char text[32];
    for (int i = 0; i <= 4; i++) {
        double x = LEFT + WIDTH * i / 4;
        fprintf(out,
                "<path d='M%.1f 56V%.1f' stroke='#bbb' stroke-dasharray='2 4'/><text x='%.1f' y='%.1f' text-anchor='middle' "
                "fill='#666'>%s</text>\n",
                x, y, x, y + 18, size_text(largest * (uint64_t)i / 4, text, sizeof(text)));
    }
}

/* The places' own colours, apart from the slabs'. */
static const char *const place_colours[PLAN_PLACES - 1] = {"#332288", "#117733", "#999933", "#cc6677",
                                                           "#882255", "#44aa99", "#ddcc77", "#88ccee"};
#define PFS_COLOUR "#777777"

/* The place after the last tier is the PFS. */
static const char *place_name(const struct tb_config *c, uint32_t place)
{
    return place < c->n_tiers ? c->tiers[place].name : "PFS";
}

/* There is a colour for each tier that a configuration may have. */
static const char *place_colour(const struct tb_config *c, uint32_t place)
{
    return place < c->n_tiers ? place_colours[place] : PFS_COLOUR;
}

/* The column is always full: a colour's height is the share of its bytes, not their number. */
static void draw_column(FILE *out, const struct tb_config *c, const struct plan_writes *w, uint32_t i, double y)
{
    double width = WIDTH / w->n_columns, all = 0;
    for (uint32_t p = 0; p <= c->n_tiers; p++)
        all += (double)w->column[i][p];
    for (uint32_t p = 0; p <= c->n_tiers; p++) {
        double height = all > 0 ? BAR * (double)w->column[i][p] / all : 0;
        if (height > 0)
            fprintf(out, "<rect x='%.2f' y='%.2f' width='%.2f' height='%.2f' fill='%s' shape-rendering='crispEdges'/>\n", LEFT + width * i,
                    y, width, height, place_colour(c, p));
        y += height;
    }
}

/* A line where each group begins, with the number that the list has. */
static void draw_group_ends(FILE *out, const struct plan_writes *w, double y)
{
    double x = LEFT;
    for (uint32_t g = 0; g < w->n_groups; g++) {
        double width = WIDTH * (double)w->group[g].n / (double)w->n;
        fprintf(out, "<path d='M%.2f %.2fv%.2f' stroke='#000'/>\n", x, y - 5, BAR + 10);
        if (width >= 20)
            fprintf(out, "<text x='%.2f' y='%.2f'>%u</text>\n", x + 4, y - 4, g + 1);
        x += width;
    }
    fprintf(out, "<path d='M%.2f %.2fv%.2f' stroke='#000'/>\n", x, y - 5, BAR + 10);
}

/* Under the columns, since a group may be too narrow for its text. */
static void list_groups(FILE *out, const struct plan_writes *w, double y)
{
    char size[32];
    for (uint32_t g = 0; g < w->n_groups; g++) {
        fprintf(out, "<text x='%.0f' y='%.1f'>%u: %llu x %s to ", LEFT, y + LINE * g, g + 1, (unsigned long long)w->group[g].n,
                size_text(w->group[g].bytes, size, sizeof(size)));
        escape(out, w->group[g].file);
        fputs("</text>\n", out);
    }
}

/* The key adds up all groups, one colour a place, also for places that got nothing: a user looks for them by name. */
static void draw_writes(FILE *out, const struct tb_config *c, const struct plan_writes *w, double y)
{
    double key = LEFT;
    char size[32];
    fprintf(out, "<text x='%.0f' y='%.1f' font-size='17' font-weight='bold'>Where %llu writes go under %s</text>\n", LEFT, y,
            (unsigned long long)w->n, tb_policy_name(c->placement.policy));
    y += 34;
    for (uint32_t i = 0; i < w->n_columns; i++)
        draw_column(out, c, w, i, y);
    draw_group_ends(out, w, y);
    list_groups(out, w, y + BAR + 46);
    for (uint32_t p = 0; p <= c->n_tiers; p++) {
        uint64_t bytes = 0;
        for (uint32_t g = 0; g < w->n_groups; g++)
            bytes += w->group[g].to[p];
        fprintf(out, "<rect x='%.0f' y='%.1f' width='11' height='11' fill='%s'/><text x='%.0f' y='%.1f'>", key, y + BAR + 12,
                place_colour(c, p), key + 16, y + BAR + 22);
        escape(out, place_name(c, p));
        fprintf(out, ": %s</text>\n", size_text(bytes, size, sizeof(size)));
        key += WIDTH / (c->n_tiers < 5 ? 5 : c->n_tiers + 1);
    }
}

/* Written in one pass; an error may leave a part of the file, and the message names it. */
int tb_plan_svg(const struct tb_config *c, const struct tb_layout *l, const struct plan_writes *w, const char *file)
{
    uint64_t largest = 1;
    FILE *out = fopen(file, "w");
    if (!out)
        return ctl_fail("--svg %s: cannot write: %s", file, strerror(errno));
    for (uint32_t t = 0; t < c->n_tiers; t++)
        largest = c->tiers[t].capacity > largest ? c->tiers[t].capacity : largest;
    double tiers_height = 70 + STEP * c->n_tiers + 40, height = tiers_height + (w ? 170 + LINE * w->n_groups : 0);
    fprintf(out,
            "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %.0f %.0f' font-family='sans-serif' font-size='13'>\n"
            "<rect width='100%%' height='100%%' fill='#fff'/>\n<text x='%.0f' y='30' font-size='17' font-weight='bold'>Buffers of ",
            LEFT + WIDTH + 60, height, LEFT);
    escape(out, strrchr(c->file, '/') ? strrchr(c->file, '/') + 1 : c->file);
    fprintf(out, ": %u in all (grey: not buffers)</text>\n", l->n_buffers);
    draw_axis(out, largest, tiers_height - 40);
    for (uint32_t t = 0; t < c->n_tiers; t++)
        draw_tier(out, c, l, t, 66 + STEP * t, WIDTH / (double)largest);
    if (w)
        draw_writes(out, c, w, tiers_height + 24);
    fputs("</svg>\n", out);
    return fclose(out) ? ctl_fail("--svg %s: cannot write: %s", file, strerror(errno)) : 0;
}
