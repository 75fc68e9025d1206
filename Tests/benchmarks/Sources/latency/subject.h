// What is measured: a daemon in a testbed of its own, and a subscriber that hears from it.
#pragma once

#include "http2.h"
#include "testbed.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct subject {
  const char *name;
  struct testbed bed;
  pid_t daemon;
  /// The subscriber's process, where it is one; else 0.
  pid_t client;
  /// Where the subscriber hears from the daemon.
  int events;
  /// The events are gRPC messages, not lines.
  bool speaks_http2;
  struct http2 http2;
};

struct programs {
  const char *floor, *connd, *connctl, *directory;
};

void start_floor(struct subject *subject, const struct programs *programs);
void start_connd_with_http2(struct subject *subject, const struct programs *programs);
void start_connd_with_connctl(struct subject *subject, const struct programs *programs);
void stop(struct subject *subject);

/// CLOCK_MONOTONIC in nanoseconds.
uint64_t now(void);
/// Waits until at least one event has come.
///
/// \param arrival when the last part of it was read.
/// \returns the number of events; 0 where none came in time.
int await_event(struct subject *subject, int milliseconds, uint64_t *arrival);
/// Waits until nothing has come for a while.
void settle(struct subject *subject, int milliseconds);
