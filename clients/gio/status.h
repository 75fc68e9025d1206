// The status of the network, in the terms of GNetworkMonitor.
#pragma once
#include <gio/gio.h>

#include "protobuf.h"

struct status {
  gboolean is_available, is_metered;
  GNetworkConnectivity connectivity;
  /// The generation of the last message, to resume after it.
  guint64 generation;
  /// The network namespace that connd speaks for, or 0 if unknown.
  guint64 namespace;
};

/// Reads a WatchResponse. Returns 1, 0 if it has no status because it is of a kind that this
/// version does not know, or -1 if it is malformed. Leaves the status as it is unless the message
/// has one.
int status_read(struct status *status, struct proto response);

/// Writes a WatchRequest, which resumes after a generation unless that is 0.
void status_request(struct proto_request *request, guint64 generation);
