/*
 * How an instance copies: the ways that were chosen, and the rates of them and of all others.
 */
#include "common/copies.h"

#include <string.h>

#include "common/ctl.h"
#include "text/sizes.h"

static const char *way_name(const struct tb_copy_choice *c, uint32_t direction, bool is_long)
{
    return tb_copy_ways[tb_copy_chosen(c, direction, is_long)].name;
}

static bool is_asked_ahead(const struct tb_copy_choice *c, uint32_t direction)
{
    return direction == TB_COPY_IN && c->ahead;
}

/* Which of the measured kinds such a copy is. */
static uint32_t kind_of(const struct tb_copy_choice *c, uint32_t direction, uint32_t size)
{
    return is_asked_ahead(c, direction) && tb_copy_size(size) < TB_COPY_LONG ? TB_COPY_IN_AHEAD : direction;
}

/* Of one direction. */
static void say(const struct tb_copy_choice *c, uint32_t direction, FILE *out)
{
    const char *few = way_name(c, direction, false), *many = way_name(c, direction, true);
    char from[32];
    fprintf(out, "%s%s", few, is_asked_ahead(c, direction) ? " asked for ahead" : "");
    if (strcmp(few, many) != 0)
        fprintf(out, ", from %s %s", tb_format_size(TB_COPY_LONG, from, sizeof(from)), many);
}

static bool is_one_way(const struct tb_copy_choice *c)
{
    const char *name = way_name(c, TB_COPY_IN, false);
    bool same = !c->ahead;
    for (uint32_t i = 0; i < 2 * TB_COPY_DIRECTIONS; i++)
        same &= !strcmp(way_name(c, i / 2, i % 2), name);
    return same;
}

const char *ctl_copy_words(const struct tb_copy_choice *c, char text[CTL_COPY_WORDS])
{
    FILE *out = fmemopen(text, CTL_COPY_WORDS, "w");
    if (!out)
        return "";
    if (is_one_way(c)) {
        fputs(way_name(c, TB_COPY_IN, false), out);
    } else {
        fputs("in ", out);
        say(c, TB_COPY_IN, out);
        fputs("; out ", out);
        say(c, TB_COPY_OUT, out);
    }
    fclose(out);
    return text;
}

/* What was measured, a row for each kind, way, size and place that there is. */
static json_t *rates_json(const struct tb_copy_choice *c)
{
    json_t *rates = json_array();
    for (uint32_t i = 0; i < TB_COPY_KINDS * TB_COPY_WAYS * TB_COPY_SIZES * TB_COPY_PLACES; i++) {
        uint32_t place = i % TB_COPY_PLACES, size = i / TB_COPY_PLACES % TB_COPY_SIZES;
        uint32_t way = i / TB_COPY_PLACES / TB_COPY_SIZES % TB_COPY_WAYS, kind = i / TB_COPY_PLACES / TB_COPY_SIZES / TB_COPY_WAYS;
        uint64_t rate = tb_copy_rate(c, kind, way, size, place);
        if (rate)
            json_array_append_new(rates, json_pack("{s:s s:s s:I s:s s:I}", "copied", tb_copy_kind_name(kind), "way",
                                                   tb_copy_ways[way].name, "bytes", (json_int_t)tb_copy_size(size), "program",
                                                   tb_copy_place_name(place), "bytes_per_second", (json_int_t)rate));
    }
    return rates;
}

/* The ways of a direction, and whether its short copies are asked for ahead. */
static json_t *direction_json(const struct tb_copy_choice *c, uint32_t direction)
{
    return json_pack("{s:s s:s s:b}", "short", way_name(c, direction, false), "long", way_name(c, direction, true), "ahead",
                     is_asked_ahead(c, direction));
}

json_t *ctl_copy_json(const struct tb_copy_choice *c)
{
    char text[CTL_COPY_WORDS];
    return json_pack("{s:s s:o s:o s:o}", "way", ctl_copy_words(c, text), "in", direction_json(c, TB_COPY_IN), "out",
                     direction_json(c, TB_COPY_OUT), "rates", rates_json(c));
}

/* The sizes that were measured, as the rates come after them. */
static void print_sizes(const struct tb_copy_choice *c, uint32_t direction, FILE *out)
{
    char text[32];
    for (uint32_t size = 0; size < TB_COPY_SIZES && tb_copy_rate(c, direction, TB_COPY_LIBC, size, 0); size++)
        fprintf(out, "%s%s", size ? ", " : "  GB/s of ", tb_format_size(tb_copy_size(size), text, sizeof(text)));
}

/* Of the chosen ways, one of each size, at each place of the program's side. */
static void print_rates(const struct tb_copy_choice *c, uint32_t direction, FILE *out)
{
    for (uint32_t i = 0; i < TB_COPY_PLACES * TB_COPY_SIZES; i++) {
        uint32_t place = i / TB_COPY_SIZES, size = i % TB_COPY_SIZES;
        uint32_t way = tb_copy_chosen(c, direction, tb_copy_size(size) >= TB_COPY_LONG);
        uint64_t rate = tb_copy_rate(c, kind_of(c, direction, size), way, size, place);
        if (rate)
            fprintf(out, "%s%s %.1f", size ? "" : "  ", size ? "" : tb_copy_place_name(place), (double)rate / 1e9);
    }
}

void ctl_print_copy(const struct tb_copy_choice *c, FILE *out)
{
    for (uint32_t direction = 0; direction < TB_COPY_DIRECTIONS; direction++) {
        fprintf(out, "copy %s by ", tb_copy_kind_name(direction));
        say(c, direction, out);
        print_sizes(c, direction, out);
        print_rates(c, direction, out);
        putc('\n', out);
    }
}
