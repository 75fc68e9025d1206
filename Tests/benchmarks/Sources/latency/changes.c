#define _GNU_SOURCE
#include "changes.h"

#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <linux/if.h>
#include <linux/if_link.h>
#include <linux/veth.h>
#include <stdio.h>
#include <string.h>

static struct nlmsghdr *begin(char *buffer, uint16_t type, uint16_t flags) {
  struct nlmsghdr *message = mnl_nlmsg_put_header(buffer);
  message->nlmsg_type = type;
  message->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | flags;
  return message;
}

static void *extra(struct nlmsghdr *message, size_t size) {
  return mnl_nlmsg_put_extra_header(message, size);
}

static in_addr_t host(int link, uint32_t number) {
  return htonl(198u << 24 | 18u << 16 | (uint32_t)link << 8 | number);
}

// The two ends have indexes of their own: the kernel delays the carrier messages of a veth whose ends have the same
// (net/core/link_watch.c takes such a link for a plain one, whose messages come once a second at most).
struct nlmsghdr *veth_pair(char *buffer, int link, int peer_namespace) {
  char name[IFNAMSIZ];
  struct nlmsghdr *message = begin(buffer, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL);
  struct ifinfomsg *near = extra(message, sizeof *near);
  near->ifi_index = first_link + link;
  snprintf(name, sizeof name, "v%d", link);
  mnl_attr_put_strz(message, IFLA_IFNAME, name);
  struct nlattr *info = mnl_attr_nest_start(message, IFLA_LINKINFO);
  mnl_attr_put_strz(message, IFLA_INFO_KIND, "veth");
  struct nlattr *data = mnl_attr_nest_start(message, IFLA_INFO_DATA);
  struct nlattr *peer = mnl_attr_nest_start(message, VETH_INFO_PEER);
  struct ifinfomsg *far = extra(message, sizeof *far);
  far->ifi_index = first_peer + link;
  snprintf(name, sizeof name, "p%d", link);
  mnl_attr_put_strz(message, IFLA_IFNAME, name);
  mnl_attr_put_u32(message, IFLA_NET_NS_FD, (uint32_t)peer_namespace);
  mnl_attr_nest_end(message, peer);
  mnl_attr_nest_end(message, data);
  mnl_attr_nest_end(message, info);
  return message;
}

struct nlmsghdr *link_up(char *buffer, int index, bool up) {
  struct nlmsghdr *message = begin(buffer, RTM_NEWLINK, 0);
  struct ifinfomsg *link = extra(message, sizeof *link);
  link->ifi_index = index;
  link->ifi_flags = up ? IFF_UP : 0;
  link->ifi_change = IFF_UP;
  return message;
}

struct nlmsghdr *address(char *buffer, int link, bool there) {
  struct nlmsghdr *message =
      begin(buffer, there ? RTM_NEWADDR : RTM_DELADDR, there ? NLM_F_CREATE | NLM_F_EXCL : 0);
  struct ifaddrmsg *address = extra(message, sizeof *address);
  address->ifa_family = AF_INET;
  address->ifa_prefixlen = 24;
  address->ifa_index = (uint32_t)(first_link + link);
  mnl_attr_put_u32(message, IFA_LOCAL, host(link, 1));
  mnl_attr_put_u32(message, IFA_ADDRESS, host(link, 1));
  return message;
}

struct nlmsghdr *default_route(char *buffer, int link) {
  struct nlmsghdr *message = begin(buffer, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE);
  struct rtmsg *route = extra(message, sizeof *route);
  route->rtm_family = AF_INET;
  route->rtm_table = RT_TABLE_MAIN;
  route->rtm_protocol = RTPROT_STATIC;
  route->rtm_scope = RT_SCOPE_UNIVERSE;
  route->rtm_type = RTN_UNICAST;
  mnl_attr_put_u32(message, RTA_GATEWAY, host(link, 254));
  mnl_attr_put_u32(message, RTA_OIF, (uint32_t)(first_link + link));
  return message;
}

struct mnl_socket *open_netlink(void) {
  struct mnl_socket *socket = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
  if (!socket || mnl_socket_bind(socket, 0, MNL_SOCKET_AUTOPID)) err(1, "netlink");
  return socket;
}

void send_request(struct mnl_socket *socket, struct nlmsghdr *message) {
  if (mnl_socket_sendto(socket, message, message->nlmsg_len) < 0) err(1, "send to the kernel");
}

void await_acknowledgement(struct mnl_socket *socket) {
  char buffer[8192];
  ssize_t size = mnl_socket_recvfrom(socket, buffer, sizeof buffer);
  if (size < 0 || mnl_cb_run(buffer, (size_t)size, 0, 0, NULL, NULL) < 0) err(1, "the kernel refused a change");
}

void request(struct mnl_socket *socket, struct nlmsghdr *message) {
  send_request(socket, message);
  await_acknowledgement(socket);
}
