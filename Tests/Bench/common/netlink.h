// The changes whose way to a subscriber is measured. They are IPv4 and made by netlink, without
// another process.
#pragma once
#include <stdint.h>

/// An rtnetlink socket in the network namespace NAME (of `ip netns`); it stays there whatever the
/// caller does.
int open_netlink(const char *name);

int link_index(int netlink, const char *name);

/// Addresses are host-order numbers: 0x0a000001 is 10.0.0.1.
void set_link(int netlink, int link, int up);
void set_mtu(int netlink, int link, int mtu);
void replace_default_route(int netlink, int link, uint32_t gateway);
void change_address(int netlink, int link, uint32_t address, int add);

/// Asks the kernel for the route to an address, and waits for its answer.
void look_up(int netlink, uint32_t destination);
