/*
 * A range of numbers as patterns of digits: 0-63 with two digits is [0-5][0-9] and 6[0-3].
 * Each pattern is for a block of numbers that differ in their last digits only.
 */
#include "requirements/ranks.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"

#define MOST 99999999 /* a rank */
#define MOST_DIGITS 8

/* The text around {rank}, and how many digits the number has; 0: as many as it needs. */
struct place {
    const char *before, *after;
    int n_before, digits;
    int (*add)(void *arg, const char *pattern);
    void *arg;
};

/* At most 10^8, which fits: a rank has at most MOST_DIGITS digits. */
static uint32_t power_of_ten(int n)
{
    uint32_t p = 1;
    while (n--)
        p *= 10;
    return p;
}

/* Ends at 10^8 for a rank, which has at most MOST_DIGITS digits. */
static int digits_of(uint32_t number)
{
    int n = 1;
    while (number >= power_of_ten(n))
        n++;
    return n;
}

/*
 * Numbers [from, to] of a block: digits in front, one of a range, `any` digits of any value. A pattern that does not fit is
 * an error and not cut: cut, it would match other files.
 */
static int add_block(const struct place *p, int digits, uint32_t from, uint32_t to, int any)
{
    char number[64] = "", pattern[TB_PATTERN_MAX];
    uint32_t block = power_of_ten(any), low = from / block % 10, high = to / block % 10;
    int in_front = digits - any - 1, n = in_front ? snprintf(number, sizeof(number), "%0*u", in_front, from / block / 10) : 0;
    n += snprintf(number + n, sizeof(number) - (size_t)n, low == high ? "%u" : "[%u-%u]", low, high);
    for (int i = 0; i < any; i++)
        n += snprintf(number + n, sizeof(number) - (size_t)n, "[0-9]");
    int length = snprintf(pattern, sizeof(pattern), "%.*s%s%s", p->n_before, p->before, number, p->after);
    return length < (int)sizeof(pattern) ? p->add(p->arg, pattern) : -1;
}

/* All of them have so many digits.  Each turn takes the largest block that begins here and ends in the range. */
static int add_numbers(const struct place *p, int digits, uint32_t from, uint32_t to)
{
    int rc = 0;
    for (uint32_t end; from <= to && !rc; from = end + 1) {
        int any = 0;
        while (any + 1 < digits && from % power_of_ten(any + 1) == 0 && to - from >= power_of_ten(any + 1) - 1)
            any++;
        uint32_t block = power_of_ten(any), last_of_ten = from / (block * 10) * (block * 10) + 9 * block;
        for (end = from + block - 1; end - block + 1 < last_of_ten && to - end >= block;)
            end += block;
        rc = add_block(p, digits, from, end, any);
    }
    return rc;
}

/* Without a number of digits the range is cut where numbers become longer, since a pattern has one length. */
static int add_range(const struct place *p, uint32_t from, uint32_t to)
{
    int rc = 0;
    if (p->digits)
        return add_numbers(p, p->digits, from, to);
    for (int digits = digits_of(from); digits <= digits_of(to) && !rc; digits++) {
        uint32_t least = digits == 1 ? 0 : power_of_ten(digits - 1), most = power_of_ten(digits) - 1;
        rc = add_numbers(p, digits, from > least ? from : least, to < most ? to : most);
    }
    return rc;
}

/* Digits only: strtoul takes signs and blanks, too. */
static const char *read_rank(const char *text, uint32_t *out)
{
    size_t n = strspn(text, "0123456789");
    if (n == 0 || n > MOST_DIGITS)
        return NULL;
    *out = (uint32_t)strtoul(text, NULL, 10);
    return text + n;
}

/* Both ends belong to the range; one number is a range of itself. */
static bool read_ranks(const char *text, uint32_t *from, uint32_t *to)
{
    const char *end = read_rank(text, from);
    *to = *from;
    if (end && *end == '-')
        end = read_rank(end + 1, to);
    return end && !*end && *from <= *to;
}

/*
 * {rank} or {rank:N}. Once in a pattern: two of them would ask which combinations are meant. With more than eight digits no
 * number would be a rank.
 */
static bool find_place(const char *pattern, struct place *p)
{
    const char *at = strstr(pattern, "{rank");
    if (!at)
        return false;
    p->before = pattern;
    p->n_before = (int)(at - pattern);
    at += strlen("{rank");
    if (at[0] == ':' && at[1] >= '1' && at[1] <= '8') {
        p->digits = at[1] - '0';
        at += 2;
    }
    p->after = at + 1;
    return *at == '}' && !strstr(p->after, "{rank");
}

/* A pattern without {rank} with a range, or the other way round, is refused: one of both was forgotten. */
const char *ctl_ranks_expand(const char *pattern, const char *ranks, int (*add)(void *arg, const char *pattern), void *arg)
{
    struct place p = {.add = add, .arg = arg};
    uint32_t from = 0, to = 0;
    if (!ranks && !strstr(pattern, "{rank"))
        return add(arg, pattern), NULL;
    if (!ranks || !find_place(pattern, &p))
        return "allowed: rank and one {rank}, or {rank:1} to {rank:8} for so many digits, or neither";
    if (!read_ranks(ranks, &from, &to))
        return "allowed: a rank of 0 to 99999999, or a range as 0-63";
    if (p.digits && digits_of(to) > p.digits)
        return "allowed: ranks that have as many digits as {rank:N} says";
    return add_range(&p, from, to) < 0 ? "allowed: a pattern of at most 255 characters with its ranks, and 16 rules in all" : NULL;
}
