/*
 * Which requests a pattern makes. Its total size is cut into requests, the last of which is the remainder, and these are
 * distributed to the clients: in blocks of neighbours (contiguous, and files of one's own) or in turn (1D-strided). Where
 * all sizes divide, these are the offsets of FORGE, which drops what is left over.
 */
#include "tb_forge.h"

#include <assert.h>
#include <stdlib.h>

int64_t tb_requests_of(const struct tb_access *p)
{
    return p->total / p->request + (p->total % p->request != 0);
}

/* The first clients have one more where the requests do not divide. */
int64_t tb_requests_at(const struct tb_access *p, int clients, int client)
{
    int64_t all = tb_requests_of(p);
    return all / clients + (client < all % clients);
}

/* In the order of a shared file. */
static int64_t place_of(const struct tb_access *p, int clients, int client, int64_t number)
{
    int64_t all = tb_requests_of(p), more = all % clients;
    if (p->strided)
        return number * clients + client;
    return all / clients * client + (client < more ? client : more) + number;
}

struct tb_extent tb_extent_of(const struct tb_access *p, int clients, int client, int64_t number)
{
    assert(number >= 0 && number < tb_requests_at(p, clients, client));
    int64_t place = place_of(p, clients, client, number), start = place * p->request;
    int64_t left = p->total - start;
    return (struct tb_extent){
        .offset = p->shared ? start : number * p->request,
        .size = (size_t)(left < p->request ? left : p->request),
    };
}

/* As FORGE names them: three digits, or more where a rank needs them. */
char *tb_file_name(const struct tb_access *p, int client)
{
    char *name = NULL;
    int done = p->shared ? asprintf(&name, "%s", p->path) : asprintf(&name, "%s-%03d", p->path, client);
    return done < 0 ? NULL : name;
}
