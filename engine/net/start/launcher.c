/*
 * PMIx (launcher.h): put, fence, get, and away again. The thread may hang in the fence as long as one process does not come;
 * what it uses is its own, and is freed by the one of the two that lets go of it last.
 */
#include "net/start/launcher.h"

#include <stdlib.h>

#ifdef TB_HAVE_PMIX
#include <errno.h>
#include <pmix.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define KEY "tierbench.peer"

struct tb_launcher {
    _Atomic int users;
    char own[TB_RECORD_MAX];
    unsigned n_nodes;
    char (*texts)[TB_RECORD_MAX]; /* by rank */
    _Atomic bool has_all;
};

/* The last of the two frees it: the daemon may end while the thread still hangs in the launcher. */
static void let_go(struct tb_launcher *l)
{
    if (atomic_fetch_sub(&l->users, 1) > 1)
        return;
    free(l->texts);
    free(l);
}

/* A program that a rank started has its rank, too: so many processes as nodes, or the launcher started something else. */
static bool are_nodes(const pmix_proc_t *me, unsigned n_nodes)
{
    pmix_proc_t all;
    pmix_value_t *size = NULL;
    PMIX_LOAD_PROCID(&all, me->nspace, PMIX_RANK_WILDCARD);
    bool are = PMIx_Get(&all, PMIX_JOB_SIZE, NULL, 0, &size) == PMIX_SUCCESS && size->type == PMIX_UINT32 && size->data.uint32 == n_nodes;
    if (size)
        PMIX_VALUE_RELEASE(size);
    return are;
}

/* Global, so that processes on other nodes get it. */
static bool put(struct tb_launcher *l)
{
    pmix_value_t value;
    value.type = PMIX_STRING;
    value.data.string = l->own;
    return PMIx_Put(PMIX_GLOBAL, KEY, &value) == PMIX_SUCCESS && PMIx_Commit() == PMIX_SUCCESS;
}

/*
 * Returns when every process of the job has come here, and has collected what they put. A process that never comes holds
 * it for ever, which is why the thread is detached.
 */
static bool fence(const pmix_proc_t *me)
{
    pmix_proc_t all;
    pmix_info_t collect;
    bool yes = true;
    PMIX_LOAD_PROCID(&all, me->nspace, PMIX_RANK_WILDCARD);
    PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    return PMIx_Fence(&all, 1, &collect, 1) == PMIX_SUCCESS;
}

static bool get(struct tb_launcher *l, const pmix_proc_t *me, unsigned rank)
{
    pmix_proc_t other;
    pmix_value_t *value = NULL;
    PMIX_LOAD_PROCID(&other, me->nspace, rank);
    bool got = PMIx_Get(&other, KEY, NULL, 0, &value) == PMIX_SUCCESS && value->type == PMIX_STRING;
    if (got)
        snprintf(l->texts[rank], TB_RECORD_MAX, "%s", value->data.string);
    if (value)
        PMIX_VALUE_RELEASE(value);
    return got;
}

/* All or nothing: `has_all` is stored last, and until then no text is looked at by the other thread. */
static void *ask(void *arg)
{
    struct tb_launcher *l = arg;
    pmix_proc_t me;
    if (PMIx_Init(&me, NULL, 0) == PMIX_SUCCESS) {
        bool goes_well = are_nodes(&me, l->n_nodes) && put(l) && fence(&me);
        for (unsigned rank = 0; goes_well && rank < l->n_nodes; rank++)
            goes_well = get(l, &me, rank);
        PMIx_Finalize(NULL, 0);
        l->has_all = goes_well;
    }
    let_go(l);
    return NULL;
}

static bool start(struct tb_launcher *l)
{
    pthread_t thread;
    l->users = 2;
    if (pthread_create(&thread, NULL, ask, l))
        return false;
    pthread_detach(thread);
    return true;
}

/*
 * The two variables are what a PMIx launcher sets; without them this process was not started by one. All that fails here is
 * NULL, and the folder alone is looked at.
 */
struct tb_launcher *tb_launcher_ask(const char *text, unsigned n_nodes)
{
    if (!getenv("PMIX_RANK") || !getenv("PMIX_NAMESPACE"))
        return NULL;
    struct tb_launcher *l = calloc(1, sizeof(*l));
    if (l && (l->texts = calloc(n_nodes, sizeof(*l->texts)))) {
        snprintf(l->own, sizeof(l->own), "%s", text);
        l->n_nodes = n_nodes;
        if (start(l))
            return l;
    }
    if (l)
        free(l->texts);
    free(l);
    return NULL;
}

/* A text that the secret does not prove is passed over, as a record in the folder is. */
void tb_launcher_list(struct tb_launcher *l, const struct tb_proof_key *key, tb_members_seen *seen, void *arg)
{
    struct tb_record r;
    for (unsigned i = 0; l && l->has_all && i < l->n_nodes; i++)
        if (tb_record_get(key, l->texts[i], &r) == 0)
            seen(arg, r.node, &r);
}

void tb_launcher_forget(struct tb_launcher *l)
{
    if (l)
        let_go(l);
}

#else

struct tb_launcher *tb_launcher_ask(const char *text, unsigned n_nodes)
{
    (void)text, (void)n_nodes;
    return NULL;
}

void tb_launcher_list(struct tb_launcher *l, const struct tb_proof_key *key, tb_members_seen *seen, void *arg)
{
    (void)l, (void)key, (void)seen, (void)arg;
}

void tb_launcher_forget(struct tb_launcher *l)
{
    (void)l;
}
#endif
