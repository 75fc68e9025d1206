#include "http2.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

// RFC 9113, sections 4 to 6.
enum type { data, headers, priority, reset, settings, push, ping, go_away, window_update };
enum flag { end_stream = 1, ack = 1, end_headers = 4, padded = 8 };
enum { frame_header = 9, max_frame = 16384, initial_window = 65535, max_window = 0x7fffffff };
enum { enable_push = 2, initial_window_size = 4, setting_size = 6 };
/// The length of the prefix of a gRPC message: whether it is compressed, and its length.
enum { prefix = 5 };

struct call {
  /// The number of the stream, or 0 if the place is free.
  uint32_t stream;
  /// The received bytes that are not a complete message yet.
  uint8_t *bytes;
  size_t length;
  /// The bytes received since the server was last allowed to send more.
  uint32_t received;
};

struct http2 {
  int descriptor, is_broken;
  struct http2_handler handler;
  struct call calls[http2_max_calls];
  uint32_t next_stream, received;
  /// The bytes that the server still accepts, on the connection and on a new stream.
  int64_t window, stream_window;
  size_t length;
  uint8_t input[frame_header + max_frame];
};

static uint32_t read_number(const uint8_t *bytes) {
  return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static void write_number(uint8_t *bytes, uint32_t number) {
  bytes[0] = (uint8_t)(number >> 24), bytes[1] = (uint8_t)(number >> 16);
  bytes[2] = (uint8_t)(number >> 8), bytes[3] = (uint8_t)number;
}

/// Sends the bytes. A server that does not read them is given up.
static void send_bytes(struct http2 *connection, const void *bytes, size_t length) {
  if (connection->is_broken) return;
  ssize_t sent = send(connection->descriptor, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0 || (size_t)sent != length) connection->is_broken = 1;
}

static void send_frame(struct http2 *connection, enum type type, int flags, uint32_t stream,
                       const void *payload, size_t length) {
  uint8_t frame[frame_header + 256];
  if (length > sizeof(frame) - frame_header) {
    connection->is_broken = 1;
    return;
  }
  write_number(frame, (uint32_t)length << 8 | type);
  frame[4] = (uint8_t)flags;
  write_number(frame + 5, stream);
  if (length) memcpy(frame + frame_header, payload, length);
  send_bytes(connection, frame, frame_header + length);
}

struct http2 *http2_open(int descriptor, struct http2_handler handler) {
  static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  static const uint8_t no_push[] = {0, enable_push, 0, 0, 0, 0};
  struct http2 *connection = calloc(1, sizeof(*connection));
  if (!connection) {
    close(descriptor);
    return NULL;
  }
  connection->descriptor = descriptor;
  connection->handler = handler;
  connection->next_stream = 1;
  connection->window = connection->stream_window = initial_window;
  send_bytes(connection, preface, sizeof(preface) - 1);
  send_frame(connection, settings, 0, 0, no_push, sizeof(no_push));
  return connection;
}

void http2_close(struct http2 *connection) {
  for (size_t i = 0; i < http2_max_calls; i++) free(connection->calls[i].bytes);
  close(connection->descriptor);
  free(connection);
}

int http2_descriptor(const struct http2 *connection) { return connection->descriptor; }

// MARK: Calls

static struct call *find_call(struct http2 *connection, uint32_t stream) {
  for (size_t i = 0; i < http2_max_calls; i++)
    if (connection->calls[i].stream == stream) return &connection->calls[i];
  return NULL;
}

/// Writes a header as a literal without indexing and without Huffman code (RFC 7541, 6.2.2).
static size_t put_header(uint8_t *block, const char *name, const char *value) {
  size_t n = strlen(name), v = strlen(value);
  block[0] = 0, block[1] = (uint8_t)n, block[2 + n] = (uint8_t)v;
  memcpy(block + 2, name, n);
  memcpy(block + 3 + n, value, v);
  return 3 + n + v;
}

uint32_t http2_call(struct http2 *connection, const char *method,
                    const struct proto_request *request) {
  uint8_t block[256], message[prefix + sizeof(request->bytes)] = {0};
  char path[64];
  size_t size = prefix + request->length, length = 0;
  struct call *call = find_call(connection, 0);
  if (!call || connection->next_stream > max_window) return 0;
  if (connection->window < (int64_t)size || connection->stream_window < (int64_t)size) return 0;

  snprintf(path, sizeof(path), "/connectivity.v1.Connectivity/%s", method);
  const char *const fields[][2] = {{":method", "POST"}, {":scheme", "http"},
                                   {":path", path},     {":authority", "localhost"},
                                   {"te", "trailers"},  {"content-type", "application/grpc"}};
  for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++)
    length += put_header(block + length, fields[i][0], fields[i][1]);
  write_number(message + 1, (uint32_t)request->length);
  memcpy(message + prefix, request->bytes, request->length);

  call->stream = connection->next_stream;
  connection->next_stream += 2;
  connection->window -= (int64_t)size;
  send_frame(connection, headers, end_headers, call->stream, block, length);
  send_frame(connection, data, end_stream, call->stream, message, size);
  return call->stream;
}

static void end_call(struct http2 *connection, struct call *call) {
  uint32_t stream = call->stream;
  free(call->bytes);
  *call = (struct call){0};
  connection->handler.take_end(connection->handler.context, stream);
}

// MARK: Frames

/// Lets the server send as many bytes again, when half of the window is used.
static void extend_window(struct http2 *connection, uint32_t stream, uint32_t *received,
                          size_t length) {
  uint8_t payload[4];
  *received += (uint32_t)length;
  if (*received < initial_window / 2) return;
  write_number(payload, *received);
  send_frame(connection, window_update, 0, stream, payload, sizeof(payload));
  *received = 0;
}

/// Assembles messages, which are split differently than frames. Returns whether they are valid.
static int gather(struct http2 *connection, struct call *call, const uint8_t *bytes,
                  size_t length) {
  uint8_t *gathered = length ? realloc(call->bytes, call->length + length) : call->bytes;
  if (length && !gathered) return 0;
  if (length) memcpy(gathered + call->length, bytes, length);
  call->bytes = gathered;
  call->length += length;

  size_t at = 0;
  while (call->length - at >= prefix) {
    uint32_t size = read_number(gathered + at + 1);
    if (gathered[at] || size > http2_max_message) return 0;
    if (call->length - at - prefix < size) break;
    struct proto message = {gathered + at + prefix, size};
    connection->handler.take_message(connection->handler.context, call->stream, message);
    at += prefix + size;
  }
  if (at) memmove(gathered, gathered + at, call->length -= at);
  return 1;
}

static int take_data(struct http2 *connection, struct call *call, int flags, const uint8_t *payload,
                     size_t length) {
  size_t padding = 0;
  extend_window(connection, 0, &connection->received, length);
  if (call) extend_window(connection, call->stream, &call->received, length);
  if (flags & padded) {
    if (!length || payload[0] >= length) return 0;
    padding = payload[0];
    payload++, length -= 1 + padding;
  }
  return !call || gather(connection, call, payload, length);
}

static int take_settings(struct http2 *connection, int flags, const uint8_t *payload,
                         size_t length) {
  if (length % setting_size) return 0;
  if (flags & ack) return 1;
  for (size_t i = 0; i < length; i += setting_size)
    if (payload[i] == 0 && payload[i + 1] == initial_window_size)
      connection->stream_window = read_number(payload + i + 2);
  send_frame(connection, settings, ack, 0, NULL, 0);
  return 1;
}

/// Processes a frame. Returns whether it is valid and the connection continues.
static int take_frame(struct http2 *connection, const uint8_t *frame, size_t length) {
  int type = frame[3], flags = frame[4];
  uint32_t stream = read_number(frame + 5) & max_window;
  const uint8_t *payload = frame + frame_header;
  struct call *call = stream ? find_call(connection, stream) : NULL;
  switch (type) {
    case data:
    case headers:
      if (!stream) return 0;
      if (type == data && !take_data(connection, call, flags, payload, length)) return 0;
      if (call && flags & end_stream) end_call(connection, call);
      return 1;
    case reset:
      if (call) end_call(connection, call);
      return length == 4;
    case settings:
      return take_settings(connection, flags, payload, length);
    case ping:
      if (length != 8) return 0;
      if (!(flags & ack)) send_frame(connection, ping, ack, 0, payload, length);
      return 1;
    case window_update:
      if (length != 4) return 0;
      if (!stream) connection->window += read_number(payload) & max_window;
      return connection->window <= max_window;
    case push:
    case go_away:
      return 0;
    default:
      return 1;
  }
}

int http2_receive(struct http2 *connection) {
  ssize_t count = recv(connection->descriptor, connection->input + connection->length,
                       sizeof(connection->input) - connection->length, MSG_DONTWAIT);
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  if (count == 0) return 0;
  connection->length += (size_t)count;

  size_t at = 0;
  while (!connection->is_broken && connection->length - at >= frame_header) {
    const uint8_t *frame = connection->input + at;
    size_t length = read_number(frame) >> 8;
    if (length > max_frame) return 0;
    if (connection->length - at - frame_header < length) break;
    if (!take_frame(connection, frame, length)) return 0;
    at += frame_header + length;
  }
  memmove(connection->input, connection->input + at, connection->length -= at);
  return !connection->is_broken;
}
