/*
 * Addresses and sockets (address.h). The listener is bound to one address, never to all of them; calls go out from the same
 * one.
 */
#include "net/start/address.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static socklen_t size_of(const struct sockaddr *a)
{
    return a->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

static bool is_loopback(const struct sockaddr *a)
{
    return a->sa_family == AF_INET ? ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127
                                   : IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a)->sin6_addr);
}

/* IPv4 first. Addresses that hold on one link only (fe80::) are left out: their text does not say which link. */
static int find_interface(const char *name, struct sockaddr_storage *out)
{
    struct ifaddrs *all, *best = NULL;
    if (getifaddrs(&all))
        return -errno;
    for (struct ifaddrs *i = all; i; i = i->ifa_next) {
        int family = i->ifa_addr ? i->ifa_addr->sa_family : AF_UNSPEC;
        bool fits =
            family == AF_INET || (family == AF_INET6 && !best && !IN6_IS_ADDR_LINKLOCAL(&((struct sockaddr_in6 *)i->ifa_addr)->sin6_addr));
        if (strcmp(i->ifa_name, name) == 0 && fits && !(best && best->ifa_addr->sa_family == AF_INET))
            best = i;
    }
    if (best)
        memcpy(out, best->ifa_addr, size_of(best->ifa_addr));
    freeifaddrs(all);
    return best ? 0 : -ENODEV;
}

/* An address of loopback is passed over: on many machines the host name means 127.0.1.1, which no other node can call. */
static int find_host(struct sockaddr_storage *out, char *host, size_t size)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *all;
    int found = -EADDRNOTAVAIL;
    if (gethostname(host, size) || getaddrinfo(host, NULL, &hints, &all))
        return -EADDRNOTAVAIL;
    for (struct addrinfo *a = all; a && found; a = a->ai_next)
        if ((a->ai_family == AF_INET || a->ai_family == AF_INET6) && !is_loopback(a->ai_addr)) {
            memcpy(out, a->ai_addr, a->ai_addrlen);
            found = 0;
        }
    freeaddrinfo(all);
    return found;
}

/* Without an interface the host name decides, as it does for most programs; on a node with several networks a user names one. */
static int find(const char *interface, struct sockaddr_storage *out, struct tb_error *err)
{
    char host[256] = "";
    memset(out, 0, sizeof(*out));
    int rc = interface ? find_interface(interface, out) : find_host(out, host, sizeof(host));
    if (rc && interface)
        snprintf(err->text, sizeof(err->text), "interface %.64s: it has no address here", interface);
    else if (rc)
        snprintf(err->text, sizeof(err->text),
                 "the host name %s has no address that other nodes could reach: name the interface to listen on", host);
    return rc;
}

/* As numbers: another node must not need a name service to call back. */
static int tell(const struct sockaddr_storage *a, struct tb_net_address *out)
{
    return getnameinfo((const struct sockaddr *)a, size_of((const struct sockaddr *)a), out->host, sizeof(out->host), out->port,
                       sizeof(out->port), NI_NUMERICHOST | NI_NUMERICSERV)
             ? -EADDRNOTAVAIL
             : 0;
}

/*
 * The port is the kernel's choice. A fixed one could be taken by another job on the node, and the record tells the others
 * which it is.
 */
int tb_net_listen(const char *interface, struct tb_net_address *own, struct tb_error *err)
{
    struct sockaddr_storage a;
    socklen_t size = sizeof(a);
    int rc = find(interface, &a, err);
    if (rc)
        return rc;
    int fd = socket(a.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, size_of((struct sockaddr *)&a)) || listen(fd, 256) ||
        getsockname(fd, (struct sockaddr *)&a, &size))
        rc = -errno;
    if (!rc)
        rc = tell(&a, own);
    if (rc && fd >= 0)
        close(fd);
    if (rc)
        snprintf(err->text, sizeof(err->text), "no port to listen on: %s", strerror(-rc));
    return rc ? rc : fd;
}

/* Numbers alone are taken, so a record that holds a name starts no search in a name service. */
static int resolve(const struct tb_net_address *from, bool with_port, struct sockaddr_storage *out)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM}, *found;
    if (getaddrinfo(from->host, with_port ? from->port : "0", &hints, &found))
        return -EADDRNOTAVAIL;
    memcpy(out, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return 0;
}

/* A socket that can be written has been connected or refused; SO_ERROR says which. */
static int wait_for_connection(int fd, int ms)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    int n = poll(&p, 1, ms), error = 0;
    socklen_t size = sizeof(error);
    if (n <= 0)
        return n ? -errno : -ETIMEDOUT;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) ? -errno : -error;
}

/* Bound first, so that the call goes out from the address that this node listens on. */
static int connect_from(int fd, const struct sockaddr_storage *from, const struct sockaddr_storage *to, int ms)
{
    if (bind(fd, (const struct sockaddr *)from, size_of((const struct sockaddr *)from)))
        return -errno;
    if (connect(fd, (const struct sockaddr *)to, size_of((const struct sockaddr *)to)) == 0)
        return 0;
    return errno == EINPROGRESS ? wait_for_connection(fd, ms) : -errno;
}

/*
 * Two nodes of which one listens by IPv4 and one by IPv6 cannot call each other: both have to name an interface that has
 * the same.
 */
int tb_net_connect(const struct tb_net_address *to, const struct tb_net_address *own, int ms)
{
    struct sockaddr_storage there, here;
    int rc = resolve(to, true, &there);
    if (!rc)
        rc = resolve(own, false, &here);
    if (rc)
        return rc;
    int fd = socket(there.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    rc = here.ss_family == there.ss_family ? connect_from(fd, &here, &there, ms) : -EAFNOSUPPORT;
    if (rc)
        close(fd);
    return rc ? rc : fd;
}

/* For messages: the other end may be gone already, which is no reason to say nothing. */
void tb_net_describe_other(int fd, char *out, int size)
{
    struct sockaddr_storage a;
    struct tb_net_address text;
    socklen_t length = sizeof(a);
    if (getpeername(fd, (struct sockaddr *)&a, &length) || tell(&a, &text))
        snprintf(out, (size_t)size, "an address that is gone");
    else
        snprintf(out, (size_t)size, "%s port %s", text.host, text.port);
}
