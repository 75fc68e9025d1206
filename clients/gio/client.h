// The process's connection to connd, which a thread keeps.
#pragma once
#include <gio/gio.h>

#include "protobuf.h"
#include "status.h"

/// How connd answers a question about a path.
enum answer {
  answer_reachable,
  answer_unreachable,
  /// connd does not answer, or cannot know.
  answer_none,
};

struct client;

/// Connects, and waits at most 200 ms for the status. Then follows it on a thread. If connd stops,
/// the last status holds, and the thread reconnects.
///
/// Each change makes the source ready.
struct client *client_new(GSource *changed, GError **error);

void client_free(struct client *client);

/// Returns the last status, and the number of changes so far.
struct status client_status(struct client *client, guint *changes);

/// Asks for the path to an address. The task, which must have no source object, returns the answer
/// as an int, within a second.
void client_ask(struct client *client, GInetSocketAddress *address, GTask *task);
