// The subscribers of one subject: connections of this process, or processes that print a line for
// each event.
#pragma once
#include <systemd/sd-bus.h>
#include <sys/types.h>

#include "../../common/http2.h"

struct subscriber {
  int descriptor;
  /// The number of events since `await_all` began.
  int arrived;
  struct call call;
  sd_bus *bus;
};

struct subscribers {
  int count, epoll;
  struct subscriber *all;
  /// Reads what a subscriber has, and counts its events.
  void (*read)(struct subscriber *);
};

/// Opens COUNT subscribers: `socket PATH`, `http2 PATH`, `bus SENDER ADDRESS`, `printer COMMAND`
/// (prints a first line when it is ready) or `command COMMAND`. Returns when all are ready.
void open_subscribers(struct subscribers *subscribers, int count, const char *kind, char *argument);

/// Waits until each subscriber has received an event. Returns 0 if one has received none in time.
int await_all(struct subscribers *subscribers, int timeout);

/// Reads until no subscriber receives anything for some milliseconds.
void drain(struct subscribers *subscribers, int quiet);
