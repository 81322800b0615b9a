/*
 * Names in one word, NAME1@NAME2, on which ranks take turns. Empty ones don't count. The word
 * is never copied: a name is a place in it and a length.
 */
#include "driver.h"

#include <string.h>

static const char *next_name(const char *list)
{
    return list + strspn(list, "@");
}

int tb_count_names(const char *list)
{
    int count = 0;
    for (list = next_name(list); *list; list = next_name(list + strcspn(list, "@")))
        count++;
    return count;
}

/* There is at least one name: the caller has counted them. */
int tb_name_of(const char *list, int number, const char **name)
{
    list = next_name(list);
    for (int skip = number % tb_count_names(list); skip; skip--)
        list = next_name(list + strcspn(list, "@"));
    *name = list;
    return (int)strcspn(list, "@");
}
