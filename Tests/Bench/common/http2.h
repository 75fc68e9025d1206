// The smallest gRPC client that can follow connd, without a library whose time would be measured
// with it.
#pragma once
#include <stddef.h>
#include <stdint.h>

/// A call on its own connection. Its descriptor does not block, and can be polled.
struct call {
  int descriptor;
  /// Receives each message when the call is read or written.
  void (*take)(void *context, const uint8_t *message, size_t length);
  void *context;
  /// The call ends with its first message; the end of any other call ends the program.
  int is_unary;
  const char *method;

  /// The bytes that may be sent before the peer allows more.
  int64_t connection_window, stream_window, initial_window;
  /// Incomplete frames and messages.
  uint8_t *frames, *messages;
  size_t framed, gathered;
  int taken, is_reading, is_greeted;
};

/// Calls a method of connectivity.v1.Connectivity.
void open_call(struct call *call, const char *socket, const char *method);

/// Waits until connd serves the connection.
void await_greeting(struct call *call);

/// Sends a request, the last one or not; waits while the peer takes no more.
void send_message(struct call *call, const void *message, size_t length, int is_last);

/// Reads the available messages.
void read_messages(struct call *call);

void close_call(struct call *call);
