// A network namespace with links of its own, so that what is done to one subject wakes no other.
#pragma once

#include <libmnl/libmnl.h>

enum { links = 64 };

struct testbed {
  int namespace;
  struct mnl_socket *near, *far;
};

/// Lets this process make namespaces, also where it is not root's.
void allow_namespaces(void);
/// Makes the namespace with its links: all up, all with a carrier and an address, the default route by link 0.
struct testbed make_testbed(void);
/// Moves this process into the namespace, with a sysfs that shows its links.
void enter(const struct testbed *bed);
