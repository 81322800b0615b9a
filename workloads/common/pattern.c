/*
 * The bytes that the drivers write, equal to those of IOR's and mdtest's packets, so that files of the programs check
 * each other. A time-stamp packet (the default) says nothing of its place: transfers of one rank that trade places go
 * unnoticed, in IOR too. Packets of type offset and incompressible hold it in the first word of each page. Those of
 * type random are made of it alone; their words are not IOR's.
 */
#include "driver.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { PAGE_WORDS = 512 };

bool tb_take_packet(enum tb_packet *packet, const char *option, const char *value, struct tb_complaint *c)
{
    static const char *const names[] = {"timestamp", "offset", "incompressible", "random"};
    for (int i = 0; i < 4; i++)
        if (!strcasecmp(value, names[i]) || (value[0] == names[i][0] && !value[1])) {
            *packet = (enum tb_packet)i;
            return true;
        }
    return tb_wrong(c, option, value, "timestamp, offset, incompressible or random");
}

/* What the words of one transfer are made of. */
struct source {
    uint32_t signature;
    uint64_t owner, repeated, seed;
    int64_t place;
};

/* rand_r of the C library, as in IOR's packets: another generator would make other bytes. */
static uint64_t repeated_word(const struct tb_pattern *p, int owner)
{
    unsigned seed = p->signature + (unsigned)owner;
    uint64_t high = (uint64_t)rand_r(&seed) << 32;
    return high | (uint64_t)rand_r(&seed);
}

static struct source source_of(const struct tb_pattern *p, int owner, int64_t place)
{
    struct source s = {.signature = p->signature, .owner = (uint64_t)(uint32_t)owner << 32, .place = place};
    if (p->packet == TB_INCOMPRESSIBLE)
        s.repeated = repeated_word(p, owner);
    if (p->packet == TB_RANDOM)
        s.seed = tb_scramble(tb_scramble(s.owner | p->signature) + (uint64_t)place);
    return s;
}

/* `packet` is a constant wherever a loop calls this, so that the loop holds one case of it. */
static inline uint64_t word(const struct source *s, enum tb_packet packet, size_t i)
{
    if (packet == TB_RANDOM)
        return tb_scramble(s->seed + i);
    if (packet != TB_TIMESTAMP && i % PAGE_WORDS == 0)
        return s->owner | (uint64_t)s->place * (i / PAGE_WORDS + 1);
    return packet == TB_INCOMPRESSIBLE ? s->repeated : s->owner | (uint64_t)(int64_t)(int32_t)(s->signature + (uint32_t)i);
}

static inline void put(const struct source *s, enum tb_packet packet, uint64_t *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        words[i] = word(s, packet, i);
}

static inline size_t compare(const struct source *s, enum tb_packet packet, const uint64_t *words, size_t count)
{
    size_t i = 0;
    while (i < count && words[i] == word(s, packet, i))
        i++;
    return i;
}

/* Once for a rank, before anything is timed; tb_mark then changes what differs between transfers. */
void tb_fill(const struct tb_pattern *p, void *data, size_t bytes, int owner)
{
    const struct source s = source_of(p, owner, 0);
    switch (p->packet) {
    case TB_TIMESTAMP: put(&s, TB_TIMESTAMP, data, bytes / 8); break;
    case TB_OFFSET: put(&s, TB_OFFSET, data, bytes / 8); break;
    case TB_INCOMPRESSIBLE: put(&s, TB_INCOMPRESSIBLE, data, bytes / 8); break;
    case TB_RANDOM: break; /* each transfer has its own */
    }
    for (size_t i = bytes / 8 * 8; i < bytes; i++)
        ((unsigned char *)data)[i] = (unsigned char)i;
}

/*
 * Inside the timed loop, so it writes only the words that hold the place: one a page, except
 * for random packets.
 */
void tb_mark(const struct tb_pattern *p, void *data, size_t bytes, int owner, int64_t place)
{
    const struct source s = source_of(p, owner, place);
    uint64_t *words = data;
    if (p->packet == TB_RANDOM)
        put(&s, TB_RANDOM, words, bytes / 8);
    else if (p->packet != TB_TIMESTAMP)
        for (size_t i = 0; i < bytes / 8; i += PAGE_WORDS)
            words[i] = word(&s, p->packet, i);
}

/*
 * A byte in each 512 is enough: a read that left a part of the buffer alone leaves a wrong one
 * in it.
 */
void tb_spoil(void *data, size_t bytes)
{
    unsigned char *b = data;
    for (size_t i = 0; i < bytes; i += 512)
        b[i] = (unsigned char)~b[i];
}

/*
 * In bytes from the start of the transfer; -1: all is right. The last bytes, less than a word,
 * are compared too.
 */
int64_t tb_first_difference(const struct tb_pattern *p, const void *data, size_t bytes, int owner, int64_t place)
{
    const struct source s = source_of(p, owner, place);
    size_t count = bytes / 8, at = count;
    switch (p->packet) {
    case TB_TIMESTAMP: at = compare(&s, TB_TIMESTAMP, data, count); break;
    case TB_OFFSET: at = compare(&s, TB_OFFSET, data, count); break;
    case TB_INCOMPRESSIBLE: at = compare(&s, TB_INCOMPRESSIBLE, data, count); break;
    case TB_RANDOM: at = compare(&s, TB_RANDOM, data, count); break;
    }
    if (at < count)
        return (int64_t)at * 8;
    for (size_t i = count * 8; i < bytes; i++)
        if (((const unsigned char *)data)[i] != (unsigned char)i)
            return (int64_t)i;
    return -1;
}
