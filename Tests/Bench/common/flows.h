// The messages of the call `Guard`, and as much of protobuf as they need.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "http2.h"

/// A TCP connection, in which 0 stands for unknown. Addresses are host-order numbers.
struct connection {
  uint32_t local, remote;
  uint16_t local_port, remote_port;
  /// Whether its peer is asked by a keepalive probe when connd wants that.
  int asks;
};

/// Asks connd to guard a connection.
void add_connection(struct call *call, uint64_t id, struct connection connection);

/// Asks connd to guard a flow to an address, which is a host-order number.
void add_flow(struct call *call, uint64_t id, uint32_t remote);

void remove_flow(struct call *call, uint64_t id);

/// Reports to connd how an attempt to connect to an address ended (`ReportAttempt`). Ends the
/// requests of the call.
void report_attempt(struct call *call, uint32_t remote, int outcome);
enum { stalled = 4 };

/// connd's report about a flow.
struct answer {
  uint64_t id;
  enum { path_told = 3, invalidated = 4, refused = 5 } event;
  /// The severity of an invalidation; 1 is `destroy`.
  uint64_t severity;
  /// Whether the peer is to be asked.
  int asks;
};
enum { destroy = 1 };

struct answer read_answer(const uint8_t *message, size_t length);
