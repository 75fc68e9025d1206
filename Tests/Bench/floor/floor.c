// floor SOCKET [QUESTIONS]: the minimum that any such daemon must do, as the reference for all
// others. It receives rtnetlink messages, asks the kernel for the route, and sends the answer as a
// line to each subscriber of a Unix socket. With QUESTIONS, it does this as connd does: a thread of
// its own sends that number of requests, one after the other, and hands the line to the thread of
// the subscribers. The first request waits until the kernel has finished its changes, which connd
// requests in one datagram with its first question. The others ask for the route.
#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <limits.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { most_subscribers = 2048, line_size = 64 };

static struct mnl_socket *events, *questions;
static int question_count = 1;

static void fail(const char *what) {
  perror(what);
  exit(1);
}

static struct mnl_socket *open_netlink(void) {
  struct mnl_socket *netlink = mnl_socket_open(NETLINK_ROUTE);
  if (!netlink || mnl_socket_bind(netlink, 0, MNL_SOCKET_AUTOPID) < 0) fail("netlink");
  return netlink;
}

static int read_way_out(const struct nlmsghdr *message, void *line) {
  const struct nlattr *attribute;
  int link = 0;
  char gateway[INET_ADDRSTRLEN] = "-";
  mnl_attr_for_each(attribute, message, sizeof(struct rtmsg)) {
    if (mnl_attr_get_type(attribute) == RTA_OIF) link = (int)mnl_attr_get_u32(attribute);
    if (mnl_attr_get_type(attribute) == RTA_GATEWAY && mnl_attr_get_payload_len(attribute) == 4)
      inet_ntop(AF_INET, mnl_attr_get_payload(attribute), gateway, sizeof(gateway));
  }
  sprintf(line, "%d %s\n", link, gateway);
  return MNL_CB_OK;
}

static void ask(struct mnl_socket *netlink, char *line) {
  static unsigned sequence;
  char buffer[8192];
  struct nlmsghdr *message = mnl_nlmsg_put_header(buffer);
  message->nlmsg_type = RTM_GETROUTE;
  message->nlmsg_flags = NLM_F_REQUEST;
  message->nlmsg_seq = ++sequence;
  struct rtmsg *route = mnl_nlmsg_put_extra_header(message, sizeof(*route));
  route->rtm_family = AF_INET;
  route->rtm_dst_len = 32;
  mnl_attr_put_u32(message, RTA_DST, inet_addr("17.0.0.1"));
  strcpy(line, "none\n");
  if (mnl_socket_sendto(netlink, message, message->nlmsg_len) < 0) fail("RTM_GETROUTE");
  ssize_t count = mnl_socket_recvfrom(netlink, buffer, sizeof(buffer));
  if (count < 0) fail("answer");
  mnl_cb_run(buffer, (size_t)count, sequence, mnl_socket_get_portid(netlink), read_way_out, line);
}

/// Returns when the kernel has finished the changes that it has announced. It holds the RTNL mutex
/// during a change, and a request for a link, even for none that exists, waits for that mutex.
static void await_changes(struct mnl_socket *netlink) {
  char buffer[8192];
  struct nlmsghdr *message = mnl_nlmsg_put_header(buffer);
  message->nlmsg_type = RTM_GETLINK;
  message->nlmsg_flags = NLM_F_REQUEST;
  struct ifinfomsg *link = mnl_nlmsg_put_extra_header(message, sizeof(*link));
  link->ifi_index = INT_MAX;
  if (mnl_socket_sendto(netlink, message, message->nlmsg_len) < 0) fail("RTM_GETLINK");
  if (mnl_socket_recvfrom(netlink, buffer, sizeof(buffer)) < 0) fail("answer");
}

/// Reads the waiting messages, and asks.
static void learn(char *line) {
  char buffer[32768];
  while (recv(mnl_socket_get_fd(events), buffer, sizeof(buffer), MSG_DONTWAIT) > 0) continue;
  if (question_count > 1) await_changes(questions);
  for (int i = 2; i < question_count; i++) ask(questions, line);
  ask(questions, line);
}

/// The thread that only asks, and writes lines into a pipe.
static void *follow(void *pipe) {
  struct pollfd wait = {mnl_socket_get_fd(events), POLLIN, 0};
  for (;;) {
    char line[line_size];
    if (poll(&wait, 1, -1) < 0) fail("poll");
    learn(line);
    if (write(*(int *)pipe, line, sizeof(line)) < 0) fail("pipe");
  }
  return NULL;
}

int main(int argc, char **argv) {
  if (argc != 2 && argc != 3) return fprintf(stderr, "usage: floor SOCKET [QUESTIONS]\n"), 64;
  if (argc == 3) question_count = atoi(argv[2]);

  struct sockaddr_un address = {.sun_family = AF_UNIX};
  // Once the socket is visible, clients can connect.
  snprintf(address.sun_path, sizeof(address.sun_path), "%s.new", argv[1]);
  int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
  if (bind(listener, (struct sockaddr *)&address, sizeof(address)) ||
      listen(listener, most_subscribers) || rename(address.sun_path, argv[1]))
    fail(argv[1]);

  events = open_netlink(), questions = open_netlink();
  static const int groups[] = {RTNLGRP_LINK,        RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR,
                               RTNLGRP_IPV4_ROUTE,  RTNLGRP_IPV6_ROUTE,  RTNLGRP_IPV4_RULE,
                               RTNLGRP_IPV6_RULE,   RTNLGRP_NEXTHOP};
  for (size_t i = 0; i < sizeof(groups) / sizeof(*groups); i++)
    mnl_socket_setsockopt(events, NETLINK_ADD_MEMBERSHIP, (void *)&groups[i], sizeof(int));

  struct pollfd waits[2] = {{mnl_socket_get_fd(events), POLLIN, 0}, {listener, POLLIN, 0}};
  int lines[2];
  pthread_t thread;
  if (question_count > 1) {
    if (pipe(lines) || pthread_create(&thread, NULL, follow, &lines[1])) fail("thread");
    waits[0].fd = lines[0];
  }
  int subscribers[most_subscribers], count = 0;
  for (;;) {
    if (poll(waits, 2, -1) < 0) fail("poll");
    // All of them, because clients that connected before a change must receive it.
    while (waits[1].revents && count < most_subscribers) {
      int subscriber = accept(listener, NULL, NULL);
      if (subscriber < 0) break;
      subscribers[count++] = subscriber;
    }
    if (!waits[0].revents) continue;
    char line[line_size];
    if (question_count == 1) learn(line);
    else if (read(lines[0], line, sizeof(line)) < 0) fail("pipe");
    for (int i = 0; i < count; i++)
      if (send(subscribers[i], line, strlen(line), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        close(subscribers[i]), subscribers[i--] = subscribers[--count];
  }
}
