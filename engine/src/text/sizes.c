/*
 * Numbers with units, read and written: sizes, rates and times as configuration files
 * spell them. A unit is always required, and decimal units are refused (text/sizes.h).
 *
 * A number is read as a double, which holds every whole number up to 2^53 and every size of
 * so many KiB, MiB, ... exactly. Digits beyond that are lost, far above any real size.
 */
#include "text/sizes.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ended by a NULL. The first is the unit that the value is kept in. */
struct unit {
    const char *name;
    double factor;
};

static const struct unit sizes[] = {
    {"B", 1.0}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}, {NULL, 0},
};
static const struct unit times[] = {{"s", 1.0}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}, {NULL, 0}};

/* What is returned to be shown; each says all that is allowed, so that one message is enough to mend the file. */
static const char *const size_allowed = "allowed: a size such as 512MiB, with unit B, KiB, MiB, GiB or TiB";
static const char *const rate_allowed = "allowed: a rate above 0 such as 335.24MiB/s, with unit B/s, KiB/s, MiB/s, GiB/s "
                                        "or TiB/s";
static const char *const time_allowed = "allowed: a time such as 66us, with unit s, ms, us or ns";
static const char *const decimal_unit = "decimal units are not read: use KiB, MiB, GiB or TiB";

/*
 * The digits; `rest` is the unit after them and after at most one space. The digits are looked
 * at before strtod, which would also take signs, exponents, hexadecimal, "inf" and "nan".
 */
static bool split(const char *text, double *number, const char **rest)
{
    size_t digits = strspn(text, "0123456789");
    size_t length = digits;
    if (text[length] == '.')
        length += 1 + strspn(text + length + 1, "0123456789");
    if (digits == 0 || text[length - 1] == '.')
        return false;
    *number = strtod(text, NULL);
    *rest = text + length + (text[length] == ' ');
    assert(*number >= 0);
    return true;
}

static const struct unit *find_unit(const struct unit *units, const char *name, size_t length)
{
    for (; units->name; units++)
        if (strlen(units->name) == length && memcmp(units->name, name, length) == 0)
            return units;
    return NULL;
}

/* Told apart from an unknown unit, because it is the most common mistake. */
static bool is_decimal_unit(const char *name, size_t length)
{
    return length == 2 && strchr("kKMGT", name[0]) && name[1] == 'B';
}

/*
 * A fraction is allowed if it makes whole bytes, as 1.5KiB does: rounding would give another
 * layout than the one that was written. Below 2^62, so that two sizes can be added.
 */
const char *tb_parse_size(const char *text, uint64_t *bytes)
{
    double number;
    const char *name;
    if (!split(text, &number, &name))
        return size_allowed;
    const struct unit *unit = find_unit(sizes, name, strlen(name));
    if (!unit)
        return is_decimal_unit(name, strlen(name)) ? decimal_unit : size_allowed;
    double value = number * unit->factor;
    if (value != floor(value))
        return "not a whole number of bytes";
    if (value >= 0x1p62)
        return "too large: allowed below 4194304TiB";
    *bytes = (uint64_t)value;
    return NULL;
}

/* 0 is refused: a device without bandwidth would never finish. */
const char *tb_parse_rate(const char *text, double *bytes_per_second)
{
    double number;
    const char *name;
    if (!split(text, &number, &name))
        return rate_allowed;
    size_t length = strlen(name);
    if (length < 3 || strcmp(name + length - 2, "/s") != 0)
        return rate_allowed;
    const struct unit *unit = find_unit(sizes, name, length - 2);
    if (!unit)
        return is_decimal_unit(name, length - 2) ? decimal_unit : rate_allowed;
    *bytes_per_second = number * unit->factor;
    return *bytes_per_second > 0 ? NULL : rate_allowed;
}

/* 0 is allowed: a device that takes no time for something. */
const char *tb_parse_time(const char *text, double *seconds)
{
    double number;
    const char *name;
    if (!split(text, &number, &name))
        return time_allowed;
    const struct unit *unit = find_unit(times, name, strlen(name));
    if (!unit)
        return time_allowed;
    *seconds = number * unit->factor;
    return NULL;
}

/* A space after the digits is taken by split as the one before a unit: it is refused here, as any other rest. */
const char *tb_parse_number(const char *text, double *number)
{
    const char *rest;
    return split(text, number, &rest) && *rest == '\0' && text[strlen(text) - 1] != ' ' ? NULL : "allowed: a plain number";
}

/* The largest unit that divides the number, so that reading it gives the same number. */
char *tb_format_size(uint64_t bytes, char *out, unsigned size)
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    unsigned unit = 0;
    while (unit < 4 && bytes && bytes % 1024 == 0) {
        bytes /= 1024;
        unit++;
    }
    snprintf(out, size, "%llu%s", (unsigned long long)bytes, names[unit]);
    return out;
}
