// From the kernel's change to the subscriber's read.
#pragma once

#include "subject.h"

enum change { route_change, carrier_loss, address_removal };

struct result {
  int samples, missed;
  /// Events beyond the first that a change led to.
  int more;
  /// Nanoseconds, ascending.
  uint64_t *latency;
};

/// Measures a change with each of the subjects in turn, round by round, so that what disturbs the machine disturbs
/// all of them alike.
void measure(struct subject *subjects, int count, enum change change, int rounds, struct result *results);
uint64_t percentile(const struct result *result, int percent);
