// Honest clients beside hostile ones: a subscriber, a client with queries, and one that guards a
// flow.
#pragma once

/// Opens the machines of NAMESPACE and of NAMESPACE-other, and subscribes to the connd at the
/// socket, which runs in NAMESPACE.
void begin_honestly(const char *namespace, const char *socket);

/// Changes the default routes of both machines, and waits until the subscriber receives the change.
/// Returns microseconds; ends the program after half a minute.
double hear_of_change(void);

/// Connects, and then queries a path. Returns microseconds from the query to the answer; ends the
/// program without an answer.
double ask_for_path(void);

/// The same, with the time to connect.
double connect_and_ask(void);

/// Registers a flow in an open stream, waits for the answer, and removes the flow. Returns
/// microseconds.
double register_flow(void);
