/*
 * Which transports there are, and what all lanes share (transport.h). A transport is one row of a table. A build without
 * libfabric has the row of tcp alone, and refuses every other provider by name.
 */
#include "net/transport/transport.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/transport/tcp.h"
#ifdef TB_HAVE_FABRIC
#include "net/transport/fabric.h"
#endif

#ifndef TB_HAVE_FABRIC
static int refuse(const char *provider, struct tb_error *err)
{
    snprintf(err->text, sizeof(err->text),
             "provider '%.64s': this program was built without libfabric (package libfabric-dev), so only tcp is allowed", provider);
    return -EINVAL;
}
#endif

/*
 * There is no default and no second try by TCP: a job that asked for its fast network and silently got the slow one would
 * measure the wrong thing.
 */
int tb_transport_open(struct tb_transport *t, const char *provider, const struct tb_net_address *own, struct tb_error *err)
{
    *t = (struct tb_transport){.ops = &tb_transport_tcp, .provider = provider, .own = *own};
    if (strcmp(provider, "tcp") != 0) {
#ifdef TB_HAVE_FABRIC
        t->ops = &tb_transport_fabric;
#else
        t->ops = NULL;
        return refuse(provider, err);
#endif
    }
    int rc = t->ops->open(t, err);
    if (rc)
        t->ops = NULL;
    return rc;
}

void tb_transport_end(struct tb_transport *t)
{
    if (t->ops)
        t->ops->end(t);
    t->ops = NULL;
}

/* The lane owns the connection from here on: it is closed in any case, also where there is no memory. */
struct tb_lane *tb_lane_make(struct tb_transport *t, int fd, bool calls, const uint8_t session[TB_NET_PROOF_BYTES])
{
    struct tb_lane *lane = calloc(1, sizeof(*lane));
    if (!lane)
        return close(fd), NULL;
    *lane = (struct tb_lane){.transport = t, .fd = fd, .calls = calls};
    memcpy(lane->session, session, sizeof(lane->session));
    return lane;
}

/* The connection is shut down and not closed, as the thread that waits on it still uses its number. */
void tb_lane_break(struct tb_lane *lane)
{
    lane->is_over = true;
    shutdown(lane->fd, SHUT_RDWR);
}

/* The transport's part first, because it may still use the connection. */
void tb_lane_free(struct tb_lane *lane)
{
    lane->transport->ops->close(lane);
    close(lane->fd);
    free(lane);
}
