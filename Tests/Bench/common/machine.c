#include "machine.h"

#include <stdio.h>

#include "netlink.h"

void open_machine(struct machine *machine, const char *namespace) {
  char far[128];
  snprintf(far, sizeof(far), "%s-far", namespace);
  machine->netlink = open_netlink(namespace);
  machine->far_netlink = open_netlink(far);
  for (int i = 0; i < links; i++) {
    char name[8];
    snprintf(name, sizeof(name), "v%d", i);
    machine->link[i] = link_index(machine->netlink, name);
    snprintf(name, sizeof(name), "p%d", i);
    machine->peer[i] = link_index(machine->far_netlink, name);
  }
}

uint32_t address_on(int link, int host) {
  return 0x0a000000u | (uint32_t)link << 16 | (uint32_t)host;
}

void use_link(struct machine *machine, int link) {
  replace_default_route(machine->netlink, machine->link[link], address_on(link, 1));
}

void set_carrier(struct machine *machine, int link, int is_there) {
  set_link(machine->far_netlink, machine->peer[link], is_there);
}
