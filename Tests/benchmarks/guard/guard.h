#pragma once
#include "../common/machine.h"
#include "process.h"

/// A daemon that is measured, in a machine of its own.
struct daemon {
  struct machine machine;
  const char *socket;
  struct process process;
};

/// 10,000 flows of one client: what they cost, and whom they delay. The idle daemon guards none.
void measure_flows(struct daemon *guarding, struct daemon *idle, int evaluations, int losses);

/// 1,000 clients that follow what is published, and 1,000 with a flow each: when the last of them knows of a loss.
void measure_clients(struct daemon *floor, struct daemon *watched, struct daemon *guarding,
                     int losses);
