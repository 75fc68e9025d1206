#define _GNU_SOURCE
#include "netlink.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <libmnl/libmnl.h>
#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void fail(const char *what) {
  perror(what);
  exit(1);
}

int open_netlink(const char *name) {
  char path[128];
  snprintf(path, sizeof(path), "/run/netns/%s", name);
  int here = open("/proc/self/ns/net", O_RDONLY), there = open(path, O_RDONLY);
  if (there < 0 || setns(there, CLONE_NEWNET)) fail(path);
  int netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  if (netlink < 0 || setns(here, CLONE_NEWNET)) fail("netlink");
  close(here), close(there);
  return netlink;
}

/// Sends a request and waits for its answer, whose first message stays in the buffer.
static void request(int netlink, struct nlmsghdr *message, char *answer, size_t size) {
  static unsigned sequence;
  message->nlmsg_seq = ++sequence;
  if (send(netlink, message, message->nlmsg_len, 0) < 0) fail("netlink request");
  if (recv(netlink, answer, size, 0) < 0) fail("netlink answer");
  struct nlmsghdr *reply = (struct nlmsghdr *)answer;
  if (reply->nlmsg_type != NLMSG_ERROR) return;
  int error = ((struct nlmsgerr *)mnl_nlmsg_get_payload(reply))->error;
  if (error) fprintf(stderr, "netlink request %d: %s\n", message->nlmsg_type, strerror(-error)), exit(1);
}

static struct nlmsghdr *begin(char *buffer, int type, int flags) {
  struct nlmsghdr *message = mnl_nlmsg_put_header(buffer);
  message->nlmsg_type = (uint16_t)type;
  message->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags);
  return message;
}

int link_index(int netlink, const char *name) {
  char buffer[512], answer[16384];
  struct nlmsghdr *message = begin(buffer, RTM_GETLINK, 0);
  mnl_nlmsg_put_extra_header(message, sizeof(struct ifinfomsg));
  mnl_attr_put_strz(message, IFLA_IFNAME, name);
  request(netlink, message, answer, sizeof(answer));
  return ((struct ifinfomsg *)mnl_nlmsg_get_payload((struct nlmsghdr *)answer))->ifi_index;
}

void set_link(int netlink, int link, int up) {
  char buffer[512], answer[16384];
  struct nlmsghdr *message = begin(buffer, RTM_NEWLINK, NLM_F_ACK);
  struct ifinfomsg *info = mnl_nlmsg_put_extra_header(message, sizeof(*info));
  info->ifi_index = link;
  info->ifi_change = IFF_UP;
  info->ifi_flags = up ? IFF_UP : 0;
  request(netlink, message, answer, sizeof(answer));
}

void set_mtu(int netlink, int link, int mtu) {
  char buffer[512], answer[16384];
  struct nlmsghdr *message = begin(buffer, RTM_NEWLINK, NLM_F_ACK);
  struct ifinfomsg *info = mnl_nlmsg_put_extra_header(message, sizeof(*info));
  info->ifi_index = link;
  mnl_attr_put_u32(message, IFLA_MTU, (uint32_t)mtu);
  request(netlink, message, answer, sizeof(answer));
}

void look_up(int netlink, uint32_t destination) {
  char buffer[512], answer[16384];
  struct nlmsghdr *message = begin(buffer, RTM_GETROUTE, 0);
  struct rtmsg *route = mnl_nlmsg_put_extra_header(message, sizeof(*route));
  *route = (struct rtmsg){.rtm_family = AF_INET, .rtm_dst_len = 32};
  mnl_attr_put_u32(message, RTA_DST, htonl(destination));
  request(netlink, message, answer, sizeof(answer));
}

void replace_default_route(int netlink, int link, uint32_t gateway) {
  char buffer[512], answer[16384];
  struct nlmsghdr *message =
      begin(buffer, RTM_NEWROUTE, NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE);
  struct rtmsg *route = mnl_nlmsg_put_extra_header(message, sizeof(*route));
  *route = (struct rtmsg){.rtm_family = AF_INET,
                          .rtm_table = RT_TABLE_MAIN,
                          .rtm_protocol = RTPROT_BOOT,
                          .rtm_scope = RT_SCOPE_UNIVERSE,
                          .rtm_type = RTN_UNICAST};
  mnl_attr_put_u32(message, RTA_OIF, (uint32_t)link);
  mnl_attr_put_u32(message, RTA_GATEWAY, htonl(gateway));
  request(netlink, message, answer, sizeof(answer));
}

void change_address(int netlink, int link, uint32_t address, int add) {
  char buffer[512], answer[16384];
  struct nlmsghdr *message = begin(
      buffer, add ? RTM_NEWADDR : RTM_DELADDR, NLM_F_ACK | (add ? NLM_F_CREATE | NLM_F_REPLACE : 0));
  struct ifaddrmsg *info = mnl_nlmsg_put_extra_header(message, sizeof(*info));
  *info = (struct ifaddrmsg){
      .ifa_family = AF_INET, .ifa_prefixlen = 24, .ifa_index = (uint32_t)link};
  mnl_attr_put_u32(message, IFA_LOCAL, htonl(address));
  mnl_attr_put_u32(message, IFA_ADDRESS, htonl(address));
  request(netlink, message, answer, sizeof(answer));
}
