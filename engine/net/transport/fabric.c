/*
 * libfabric's endpoints (fabric.h). The library is loaded when a provider of it is asked for, and not with the program: its own
 * libraries (psm2) would take the program's signals for their backtraces, and look through the machine at each start.
 *
 * Each lane has one of its own, with its queue; the two sides tell each other their addresses
 * over the lane's proved connection, so no other process is ever addressed, and the end of that connection ends the lane.
 */
#include "net/transport/fabric.h"

#include <dlfcn.h>
#include <errno.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/transport/fabric_lane.h"
#include "net/transport/tcp.h"

#define VERSION FI_VERSION(1, 9)
#define ADDRESS_MAX 512

/* All that is not inline in its headers. */
struct library {
    int (*getinfo)(uint32_t, const char *, const char *, uint64_t, const struct fi_info *, struct fi_info **);
    void (*freeinfo)(struct fi_info *);
    struct fi_info *(*dupinfo)(const struct fi_info *);
    int (*fabric)(struct fi_fabric_attr *, struct fid_fabric **, void *);
    const char *(*strerror)(int);
};

static struct library lib;

static bool find(void *handle, const char *name, void *function)
{
    *(void **)function = dlsym(handle, name);
    return *(void **)function != NULL;
}

/* It stays loaded: threads and handlers of providers may still run. */
static bool load_library(struct tb_error *err)
{
    setenv("HFI_NO_BACKTRACE", "1", 0); /* psm2's handlers write files into the working directory */
    void *handle = dlopen("libfabric.so.1", RTLD_NOW | RTLD_NODELETE);
    bool loaded = handle && find(handle, "fi_getinfo", &lib.getinfo) && find(handle, "fi_freeinfo", &lib.freeinfo) &&
                  find(handle, "fi_dupinfo", &lib.dupinfo) && find(handle, "fi_fabric", &lib.fabric) &&
                  find(handle, "fi_strerror", &lib.strerror);
    if (!loaded)
        snprintf(err->text, sizeof(err->text), "libfabric cannot be loaded, so only the provider tcp is allowed: %.600s", dlerror());
    return loaded;
}

/* The provider within one node, which tests use. It differs from the others in two places below. */
static bool is_shm(const struct tb_transport *t)
{
    return strcmp(t->provider, "shm") == 0;
}

/*
 * Asks for messages and remote reads between endpoints without connections, safe for threads. The modes of memory list all
 * that this code can serve; a provider asks for those that it needs.
 */
static int find_info(struct tb_transport *t, struct fi_info **info)
{
    struct fi_info *hints = lib.dupinfo(NULL);
    bool by_host = !is_shm(t); /* its addresses are names, not of an interface */
    if (!hints)
        return -FI_ENOMEM;
    hints->caps = FI_MSG | FI_RMA;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = FI_THREAD_SAFE;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
    hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_SAS;
    hints->fabric_attr->prov_name = strdup(t->provider);
    int rc = lib.getinfo(VERSION, by_host ? t->own.host : NULL, NULL, by_host ? FI_SOURCE : 0, hints, info);
    if (rc == -FI_ENODATA && by_host) /* its addresses are no host's: its own devices are the one interface */
        rc = lib.getinfo(VERSION, NULL, NULL, 0, hints, info);
    lib.freeinfo(hints);
    if (!rc) { /* providers make room for thousands of operations, which a lane never has under way */
        (*info)->tx_attr->size = (*info)->rx_attr->size = 4 * TB_FABRIC_POSTED;
        (*info)->ep_attr->tx_ctx_cnt = (*info)->ep_attr->rx_ctx_cnt = 1;
    }
    return rc;
}

/* In the reverse order of their making, as libfabric asks. */
static void end_fabric(struct tb_transport *t)
{
    struct tb_fabric *f = t->state;
    if (f->domain)
        fi_close(&f->domain->fid);
    if (f->fabric)
        fi_close(&f->fabric->fid);
    if (f->info)
        lib.freeinfo(f->info);
    free(f);
}

/* Once a transport: all lanes open their endpoints in this one domain. */
static int open_fabric(struct tb_transport *t, struct tb_error *err)
{
    if (!load_library(err))
        return -EINVAL;
    struct tb_fabric *f = t->state = calloc(1, sizeof(*f));
    int rc = f ? find_info(t, &f->info) : -FI_ENOMEM;
    if (!rc)
        rc = lib.fabric(f->info->fabric_attr, &f->fabric, NULL);
    if (!rc)
        rc = fi_domain(f->fabric, f->info, &f->domain, NULL);
    if (rc)
        snprintf(err->text, sizeof(err->text), "provider '%.64s': libfabric cannot open it here: %s (fi_info -l lists those that it has)",
                 t->provider, lib.strerror(-rc));
    if (rc && f)
        end_fabric(t);
    return rc ? -EINVAL : 0;
}

static void close_one(struct fid *fid)
{
    if (fid)
        fi_close(fid);
}

/* The endpoint first: then nothing reads or writes what was registered. */
static void close_fabric(struct tb_lane *lane)
{
    struct tb_fabric_lane *l = lane->state;
    if (!l)
        return;
    close_one(l->ep ? &l->ep->fid : NULL);
    close_one(l->broken_mr ? &l->broken_mr->fid : NULL);
    close_one(l->offered_mr ? &l->offered_mr->fid : NULL);
    close_one(l->slots_mr ? &l->slots_mr->fid : NULL);
    close_one(l->cq ? &l->cq->fid : NULL);
    close_one(l->av ? &l->av->fid : NULL);
    free(l);
    lane->state = NULL;
}

/* shm says that its queue can wait, but then wakes no thread. */
static int open_queue(struct tb_fabric_lane *l)
{
    struct fi_cq_attr attr = {.size = 4 * TB_FABRIC_POSTED, .format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_UNSPEC};
    l->waits = !is_shm(l->lane->transport) && fi_cq_open(l->fabric->domain, &attr, &l->cq, NULL) == 0;
    attr.wait_obj = FI_WAIT_NONE;
    return l->waits ? 0 : fi_cq_open(l->fabric->domain, &attr, &l->cq, NULL);
}

/* Its receives are posted before the other side learns its address: a message cannot come before there is a slot for it. */
static int open_endpoint(struct tb_fabric_lane *l)
{
    struct fi_av_attr attr = {.type = FI_AV_UNSPEC, .count = 1};
    int rc = open_queue(l);
    if (!rc)
        rc = fi_av_open(l->fabric->domain, &attr, &l->av, NULL);
    if (!rc)
        rc = fi_endpoint(l->fabric->domain, l->fabric->info, &l->ep, NULL);
    if (!rc)
        rc = fi_ep_bind(l->ep, &l->cq->fid, FI_TRANSMIT | FI_RECV);
    if (!rc)
        rc = fi_ep_bind(l->ep, &l->av->fid, 0);
    if (!rc)
        rc = fi_enable(l->ep);
    if (!rc)
        rc = tb_fabric_register(l, l->slots, sizeof(l->slots), FI_SEND | FI_RECV, false, &l->slots_mr);
    return rc ? rc : tb_fabric_post_all(l);
}

struct address {
    uint32_t n;
    uint8_t bytes[ADDRESS_MAX];
};

/* Both sides tell theirs first, then hear. */
static int swap_addresses(struct tb_fabric_lane *l, uint64_t until_ns)
{
    struct address own = {.n = 0}, other;
    size_t n = sizeof(own.bytes);
    int rc = fi_getname(&l->ep->fid, own.bytes, &n);
    own.n = (uint32_t)n;
    if (!rc)
        rc = tb_tcp_send(l->lane, &own, sizeof(own), until_ns);
    if (!rc)
        rc = tb_tcp_recv(l->lane, &other, sizeof(other), until_ns);
    if (!rc && (other.n < 1 || other.n > sizeof(other.bytes)))
        rc = -EPROTO;
    if (!rc && fi_av_insert(l->av, other.bytes, 1, &l->other, 0, NULL) != 1)
        rc = -EADDRNOTAVAIL;
    return rc;
}

static int connect_fabric(struct tb_lane *lane, uint64_t until_ns)
{
    struct tb_fabric_lane *l = lane->state = calloc(1, sizeof(*l));
    int rc = l ? tb_transport_tcp.connect(lane, until_ns) : -ENOMEM;
    if (rc)
        return rc;
    l->fabric = lane->transport->state;
    l->lane = lane;
    rc = open_endpoint(l);
    return rc ? rc : swap_addresses(l, until_ns);
}

const struct tb_transport_ops tb_transport_fabric = {.name = "libfabric",
                                                     .open = open_fabric,
                                                     .connect = connect_fabric,
                                                     .send = tb_fabric_send,
                                                     .recv = tb_fabric_recv,
                                                     .read_remote = tb_fabric_read_remote,
                                                     .close = close_fabric,
                                                     .end = end_fabric};
