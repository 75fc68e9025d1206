// As little of a gRPC client as can follow connd: no library whose time would be measured with it.
#pragma once
#include <stddef.h>
#include <stdint.h>

/// A call on a connection of its own. Its descriptor does not block: it is there to be polled.
struct call {
  int descriptor;
  /// Gets each message that comes, whenever the call is read or written.
  void (*take)(void *context, const uint8_t *message, size_t length);
  void *context;
  /// It ends with its first message; the end of others ends the program.
  int is_unary;

  /// How much may be sent before the other end asks for more.
  int64_t connection_window, stream_window, initial_window;
  /// What has come of a frame, and of a message, that is not complete.
  uint8_t *frames, *messages;
  size_t framed, gathered;
  int taken, is_reading;
};

/// Calls a method of connectivity.v1.Connectivity.
void open_call(struct call *call, const char *socket, const char *method);

/// Sends a request, the last one or not; waits for as long as the other end takes no more.
void send_message(struct call *call, const void *message, size_t length, int is_last);

/// Reads what is there.
void read_messages(struct call *call);

void close_call(struct call *call);
