// A machine to be measured: a network namespace with links v0 to v4 (10.N.0.2/24). Their other
// ends, p0 to p4, are in the namespace NAMESPACE-far, whose events do not concern the machine.
#pragma once
#include <stdint.h>

// Several links take turns. Each rests between two changes, because the kernel's linkwatch delays
// frequent reports of one link. `patience` is the maximum wait for an expected event. In
// milliseconds.
enum { links = 5, rest = 2100, patience = 60000 };

struct machine {
  int netlink, far_netlink;
  int link[links], peer[links];
};

void open_machine(struct machine *machine, const char *namespace);

/// An address on the subnet of a link.
uint32_t address_on(int link, int host);

/// Makes the default route lead over a link.
void use_link(struct machine *machine, int link);
/// Takes a link's carrier, or restores it.
void set_carrier(struct machine *machine, int link, int is_there);
