// Real TCP connections from a machine (see machine.h) to its router, which echoes.
#pragma once
#include "../common/flows.h"

struct connections {
  int count;
  struct end {
    int socket;
    struct connection is;
  } *all;
};

/// Opens connections over v0. Their other ends are in a process that ends with this one.
void open_connections(struct connections *connections, const char *namespace, int count);

/// Sends a keepalive probe on a connection, or ends that.
void probe(const struct end *end, int is_on);

/// Has each connection carry a byte to the router and back.
void exchange(struct connections *connections);
