// The least of an HTTP/2 client that can follow connd's Watch, so that what is measured is connd and not a library.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct http2 {
  int socket;
  /// What has come of the frame that is not whole yet.
  uint8_t frame[1 << 16];
  size_t frame_length;
  /// What is still to come of a gRPC message, and of the prefix that tells its length.
  uint8_t prefix[5];
  size_t prefix_length;
  size_t message_left;
};

/// Sends the call.
void http2_watch(struct http2 *client, int socket);
/// Takes bytes that were read.
///
/// \returns the number of gRPC messages that they complete.
int http2_receive(struct http2 *client, const uint8_t *bytes, size_t count);
