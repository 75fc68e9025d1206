// Honest clients beside hostile ones: a subscriber, a client with queries, and one that guards a
// flow.
#pragma once

/// Opens the machine of the namespace, and subscribes to the connd at the socket, which runs there.
void begin_honestly(const char *namespace, const char *socket);

/// Changes the default route, and waits until the subscriber receives it. Returns microseconds;
/// ends the program after half a minute.
double hear_of_change(void);

/// Opens this many calls, one for each `ask_for_path`.
void connect_for_questions(int count);

/// Queries a path in an open call. Returns microseconds; ends the program without an answer.
double ask_for_path(void);

/// The same, and connects before.
double connect_and_ask(void);

/// Registers a flow in an open stream, waits for the answer, and removes the flow. Returns
/// microseconds.
double register_flow(void);
