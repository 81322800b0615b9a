/*
 * Lists of paths, and how they are distributed: path i of rank r goes to rank (r + i) mod ranks, in one exchange of all ranks. A
 * path is a text that ends with a zero byte, so a list is one piece of memory that MPI sends as it is.
 */
#include "tb_find.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* One rank without memory ends all of them: the exchange needs every rank. */
static void *need(void *memory)
{
    if (!memory)
        tb_fail("memory", "allocate", -1, "too many paths");
    return memory;
}

/* Doubled, so that a million paths are copied about once. */
static void make_room(struct tb_list *list, size_t bytes)
{
    if (list->used + bytes <= list->room)
        return;
    list->room = 2 * (list->used + bytes);
    list->text = need(realloc(list->text, list->room));
}

/* The path is copied: the caller writes the next one into the same room. */
void tb_list_add(struct tb_list *list, const char *path)
{
    size_t bytes = strlen(path) + 1;
    make_room(list, bytes);
    memcpy(list->text + list->used, path, bytes);
    list->used += bytes;
    list->count++;
}

void tb_list_free(struct tb_list *list)
{
    free(list->text);
    *list = (struct tb_list){0};
}

/* MPI counts bytes in an int. */
static int offset_of(int64_t bytes)
{
    if (bytes > INT_MAX)
        tb_fail("memory", "deal", -1, "more than 2 GiB of paths on a rank: start more ranks");
    return (int)bytes;
}

/* Where each rank's part begins; the sum of all. */
static int places(const int *counts, int *offsets, int tasks)
{
    int64_t sum = 0;
    for (int i = 0; i < tasks; i++) {
        offsets[i] = offset_of(sum);
        sum += counts[i];
    }
    return offset_of(sum);
}

/* The list in the order of the ranks that its paths go to, of which rank i gets bytes[i] from at[i] on. */
static char *sorted(const struct tb_list *list, const struct tb_world *w, int *bytes, int *at)
{
    char *made = need(malloc(list->used + 1));
    int64_t turn = w->rank;
    for (const char *path = list->text; path < list->text + list->used; path += strlen(path) + 1) {
        int *sum = &bytes[turn++ % w->tasks];
        *sum = offset_of((int64_t)*sum + (int64_t)strlen(path) + 1);
    }
    places(bytes, at, w->tasks);
    turn = w->rank;
    for (const char *path = list->text; path < list->text + list->used; path += strlen(path) + 1) {
        int *next = &at[turn++ % w->tasks];
        *next += (int)(stpcpy(made + *next, path) - made) + 1 - *next;
    }
    places(bytes, at, w->tasks);
    return made;
}

/* Dealt paths come as bytes; each ends with a NUL. */
static int64_t paths_in(const struct tb_list *list)
{
    int64_t count = 0;
    for (size_t i = 0; i < list->used; i++)
        count += !list->text[i];
    return count;
}

/*
 * Lengths first, then the bytes, each in one exchange of all ranks. The turn begins at another
 * rank on each, so that short lists spread too.
 */
void tb_list_deal(struct tb_list *list, const struct tb_world *w)
{
    size_t n = (size_t)w->tasks;
    int *sent = need(calloc(4 * n, sizeof(*sent))), *received = sent + n, *from = received + n, *to = from + n;
    char *out = sorted(list, w, sent, from);
    struct tb_list in = {0};
    MPI_Alltoall(sent, 1, MPI_INT, received, 1, MPI_INT, w->comm);
    in.used = (size_t)places(received, to, w->tasks);
    in.room = in.used + 1;
    in.text = need(malloc(in.room));
    MPI_Alltoallv(out, sent, from, MPI_CHAR, in.text, received, to, MPI_CHAR, w->comm);
    in.count = paths_in(&in);
    tb_list_free(list);
    *list = in;
    free(out);
    free(sent);
}
