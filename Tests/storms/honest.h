// Honest clients beside hostile ones: a subscriber, a client that asks, and one that guards a flow.
#pragma once

/// Opens the machine of the namespace, and subscribes to the connd at the socket, which runs there.
void begin_honestly(const char *namespace, const char *socket);

/// Changes the default route, and waits until the subscriber hears of it. Microseconds; ends the program where that takes half
/// a minute.
double hear_of_change(void);

/// Opens so many calls, for as many of `ask_for_path`.
void connect_for_questions(int count);

/// Asks for a path in a call that is open. Microseconds; ends the program where there is no answer.
double ask_for_path(void);

/// The same, and connects before.
double connect_and_ask(void);

/// Registers a flow in a stream that is open, waits for the answer, and removes the flow. Microseconds.
double register_flow(void);
