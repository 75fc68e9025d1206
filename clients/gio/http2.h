// A client's end of an HTTP/2 connection with gRPC calls.
//
// It needs no library, because the headers of its requests are constant, and it skips the headers
// of responses: a call has a message, or it has failed.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "protobuf.h"

enum {
  /// A longer message of the server ends the connection. connd's are much shorter.
  http2_max_message = 256 << 10,
  /// The number of concurrent calls.
  http2_max_calls = 33,
};

struct http2_handler {
  /// A call has received a message, which is valid until the function returns.
  void (*take_message)(void *context, uint32_t call, struct proto message);
  /// A call has ended.
  void (*take_end)(void *context, uint32_t call);
  void *context;
};

struct http2;

/// Begins a connection on a non-blocking socket, which it closes at its end. Returns NULL if memory
/// is short.
struct http2 *http2_open(int descriptor, struct http2_handler handler);

void http2_close(struct http2 *connection);

int http2_descriptor(const struct http2 *connection);

/// Calls a method of connectivity.v1.Connectivity. Returns the call's number, or 0 if the
/// connection takes no further calls now.
uint32_t http2_call(struct http2 *connection, const char *method,
                    const struct proto_request *request);

/// Processes at most a buffer of what has arrived. Returns whether the connection still works. It
/// must not be closed, and no call begun, within the handler's functions.
int http2_receive(struct http2 *connection);
