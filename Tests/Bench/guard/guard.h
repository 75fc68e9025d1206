#pragma once
#include "../common/machine.h"
#include "process.h"

/// A measured daemon in its own machine.
struct daemon {
  struct machine machine;
  const char *socket;
  struct process process;
};

/// Measures 10,000 flows of one client: their cost, and the delay they cause. The idle daemon
/// guards none.
void measure_flows(struct daemon *guarding, struct daemon *idle, int evaluations, int losses);

/// Measures 1,000 clients that follow changes, and 1,000 with a flow each: when the last of them
/// knows of a loss.
void measure_clients(struct daemon *floor, struct daemon *watched, struct daemon *guarding,
                     int losses);
