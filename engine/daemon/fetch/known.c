/*
 * The lists (known.h) are in a table by a hash of the file. Of two files with one place the later one has it. The moment belongs to the
 * place and is never set back, so that a late answer is known as late whatever the place was used for in between.
 */
#include "fetch/known.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "region/mix.h"

#define PLACES 1024u /* files that are being read at the same time, about; a list has 8 KiB at most */

static struct place {
    uint64_t moment;
    struct tb_wire_file file;
    uint64_t lo, hi, version; /* nothing is known where lo == hi */
    uint32_t n;
    struct tb_wire_extent *extent;
} place[PLACES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all of them */

static struct place *place_of(const struct tb_wire_file *file)
{
    return &place[tb_mix64(file->inode ^ tb_mix64((uint64_t)file->birth_ns)) % PLACES];
}

uint64_t known_moment(const struct tb_wire_file *file)
{
    pthread_mutex_lock(&lock);
    uint64_t moment = place_of(file)->moment;
    pthread_mutex_unlock(&lock);
    return moment;
}

static void empty(struct place *p)
{
    free(p->extent);
    *p = (struct place){.moment = p->moment};
}

static bool has_all(const struct place *p, const struct tb_wire *w)
{
    return tb_wire_is(&p->file, &w->file) && p->lo <= w->lo && w->lo < w->hi && w->hi <= p->hi;
}

/* One that has more extents than an answer to a fetch is left to the keeper, who says up to where it is whole. */
static bool copy_out(const struct place *p, const struct tb_wire *w, struct relay_answer *answer)
{
    answer->told = (struct tb_told){.version = p->version, .before = w->hi};
    for (uint32_t i = 0; i < p->n; i++) {
        if (p->extent[i].hi <= w->lo || p->extent[i].lo >= w->hi)
            continue;
        if (answer->told.n == TB_WIRE_MOST_FETCHED)
            return false;
        answer->extent[answer->told.n++] = p->extent[i];
    }
    return true;
}

int known_find(const struct tb_wire *w, struct relay_answer *answer)
{
    pthread_mutex_lock(&lock);
    const struct place *p = place_of(&w->file);
    int found = has_all(p, w) && copy_out(p, w, answer);
    pthread_mutex_unlock(&lock);
    return found;
}

/* Locked. Without memory it is not kept. */
static void put(struct place *p, const struct tb_wire_file *file, uint64_t lo, const struct relay_answer *a)
{
    size_t bytes = a->told.n * sizeof(*p->extent);
    struct tb_wire_extent *extent = malloc(bytes + 1);
    empty(p);
    if (!extent)
        return;
    memcpy(extent, a->extent, bytes);
    p->file = *file;
    p->lo = lo;
    p->hi = a->told.before;
    p->version = a->told.version;
    p->n = a->told.n;
    p->extent = extent;
}

/* Of two that were asked after the same look the one with the later commits stays: what was read by it is not undone. */
static bool is_older(const struct place *p, const struct tb_wire_file *file, const struct relay_answer *a)
{
    return tb_wire_is(&p->file, file) && p->lo < p->hi && a->told.version < p->version;
}

void known_keep(const struct tb_wire_file *file, uint64_t moment, uint64_t lo, const struct relay_answer *answer)
{
    pthread_mutex_lock(&lock);
    struct place *p = place_of(file);
    if (p->moment == moment && !is_older(p, file, answer))
        put(p, file, lo, answer);
    pthread_mutex_unlock(&lock);
}

void known_look(const struct tb_wire_file *file, uint64_t moment, const struct relay_answer *answer)
{
    pthread_mutex_lock(&lock);
    struct place *p = place_of(file);
    bool alone = p->moment == moment;
    p->moment++;
    if (alone)
        put(p, file, 0, answer);
    else
        empty(p);
    pthread_mutex_unlock(&lock);
}

void known_forget(const struct tb_wire_file *file)
{
    pthread_mutex_lock(&lock);
    struct place *p = place_of(file);
    p->moment++;
    empty(p);
    pthread_mutex_unlock(&lock);
}
