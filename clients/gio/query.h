// A question about a path to an address, and its answer.
#pragma once
#include <gio/gio.h>

#include "client.h"

/// A question that a task waits for. It is answered once: by connd, or after a second.
struct query {
  struct proto_request request;
  GTask *task;
  GSource *timeout;
  gint holders, is_answered;
};

struct query *query_new(GInetSocketAddress *address, GTask *task);

/// Whether the time is over.
gboolean query_is_over(struct query *query);

/// Answers the query, unless the time is over, and releases it. Any thread may call it.
void query_answer(struct query *query, enum answer answer);

/// Reads a GetPathResponse.
enum answer query_read(struct proto response, guint64 namespace);
