// Changes of the kernel's network state, as rtnetlink messages.
#pragma once

#include <libmnl/libmnl.h>
#include <linux/rtnetlink.h>
#include <stdbool.h>
#include <stdint.h>

enum { longest_message = 512 };

// Link i of a testbed is `v<i>`; it has the address 198.18.i.1/24, and a router at 198.18.i.254 that is never
// asked anything. Its other end is `p<i>` in a namespace of its own.
enum { first_link = 100, first_peer = 1000 };

/// Each builds a request into `buffer`, with an acknowledgement wanted.
struct nlmsghdr *veth_pair(char *buffer, int link, int peer_namespace);
struct nlmsghdr *link_up(char *buffer, int index, bool up);
struct nlmsghdr *address(char *buffer, int link, bool there);
struct nlmsghdr *default_route(char *buffer, int link);

struct mnl_socket *open_netlink(void);
void send_request(struct mnl_socket *socket, struct nlmsghdr *message);
/// Ends the program where the kernel did not do as it was asked.
void await_acknowledgement(struct mnl_socket *socket);
void request(struct mnl_socket *socket, struct nlmsghdr *message);
