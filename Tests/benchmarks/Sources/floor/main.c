// floor SOCKET: the least that a daemon of connd's kind can do. One thread hears of links, addresses and routes,
// asks the kernel for the way to one address, and writes the answer as a line to whoever is connected to SOCKET.
// It compares nothing and remembers nothing. What connd takes longer than this is what connd adds.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { buffer_size = 1 << 16, most_subscribers = 16 };

static struct mnl_socket *netlink(int flags) {
  struct mnl_socket *socket = mnl_socket_open2(NETLINK_ROUTE, flags | SOCK_CLOEXEC);
  if (!socket || mnl_socket_bind(socket, 0, MNL_SOCKET_AUTOPID)) err(1, "netlink");
  return socket;
}

// The groups that connd joins for these matters.
static struct mnl_socket *listener(void) {
  static const int groups[] = {
      RTNLGRP_LINK,       RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR, RTNLGRP_IPV4_ROUTE,
      RTNLGRP_IPV6_ROUTE, RTNLGRP_IPV4_RULE,   RTNLGRP_IPV6_RULE,
  };
  struct mnl_socket *socket = netlink(SOCK_NONBLOCK);
  for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
    if (mnl_socket_setsockopt(socket, NETLINK_ADD_MEMBERSHIP, (void *)&groups[i], sizeof groups[i]))
      err(1, "join group %d", groups[i]);
  return socket;
}

static int remember_link(const struct nlattr *attribute, void *link) {
  if (mnl_attr_get_type(attribute) == RTA_OIF) *(uint32_t *)link = mnl_attr_get_u32(attribute);
  return MNL_CB_OK;
}

// The link by which the kernel sends to an address; 0 where it does not.
static uint32_t out_link(struct mnl_socket *requester, in_addr_t destination) {
  char buffer[8192];
  struct nlmsghdr *message = mnl_nlmsg_put_header(buffer);
  message->nlmsg_type = RTM_GETROUTE;
  message->nlmsg_flags = NLM_F_REQUEST;
  struct rtmsg *route = mnl_nlmsg_put_extra_header(message, sizeof *route);
  route->rtm_family = AF_INET;
  route->rtm_dst_len = 32;
  mnl_attr_put_u32(message, RTA_DST, destination);
  if (mnl_socket_sendto(requester, message, message->nlmsg_len) < 0) err(1, "send");
  if (mnl_socket_recvfrom(requester, buffer, sizeof buffer) < 0) err(1, "receive");
  uint32_t link = 0;
  if (message->nlmsg_type == RTM_NEWROUTE)
    mnl_attr_parse(message, sizeof *route, remember_link, &link);
  return link;
}

static int listen_on(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof address.sun_path) errx(1, "%s is too long", path);
  strcpy(address.sun_path, path);
  int socket_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket_ < 0 || bind(socket_, (struct sockaddr *)&address, sizeof address) || listen(socket_, 16))
    err(1, "%s", path);
  return socket_;
}

int main(int count, char **arguments) {
  if (count != 2) errx(64, "usage: floor SOCKET");
  struct mnl_socket *hears = listener(), *asks = netlink(0);
  in_addr_t destination = inet_addr("17.0.0.1");
  int subscribers[most_subscribers], subscribed = 0;
  struct pollfd waits[] = {
      {.fd = mnl_socket_get_fd(hears), .events = POLLIN},
      {.fd = listen_on(arguments[1]), .events = POLLIN},
  };
  static char buffer[buffer_size];
  for (;;) {
    if (poll(waits, 2, -1) < 0) err(1, "poll");
    if (waits[1].revents && subscribed < most_subscribers)
      subscribers[subscribed++] = accept4(waits[1].fd, NULL, NULL, SOCK_CLOEXEC);
    if (!waits[0].revents) continue;
    // Many messages of one moment are one piece of news.
    while (mnl_socket_recvfrom(hears, buffer, sizeof buffer) > 0) continue;
    if (errno != EAGAIN && errno != ENOBUFS) err(1, "hear");
    char line[32];
    int length = snprintf(line, sizeof line, "%u\n", out_link(asks, destination));
    for (int i = 0; i < subscribed; i++) send(subscribers[i], line, (size_t)length, MSG_NOSIGNAL);
  }
}
