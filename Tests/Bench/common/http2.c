#include "http2.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "socket.h"

enum { data = 0, headers = 1, reset = 3, settings = 4, ping = 6, go_away = 7, window_update = 8 };
enum { end_stream = 1, ack = 1, end_headers = 4 };
enum { initial_window_size = 4 };
// A frame is at most 16 KiB long by default, and connd's messages are much shorter.
enum { frame_header = 9, prefix = 5, buffer_size = 1 << 16 };

static void fail(const char *what) {
  perror(what);
  exit(1);
}

static uint32_t number(const uint8_t *bytes) {
  return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static void send_all(struct call *call, const uint8_t *bytes, size_t length) {
  int has_begun = 0;
  while (length) {
    ssize_t count = send(call->descriptor, bytes, length, MSG_NOSIGNAL);
    if (count < 0 && errno != EAGAIN) fail("send");
    if (count < 0) {
      // Reads from connd before writing, because a peer that is not read has no room. Received
      // frames may need an answer, but not within a frame.
      int may_read = !has_begun && !call->is_reading;
      struct pollfd wait = {call->descriptor, may_read ? POLLIN | POLLOUT : POLLOUT, 0};
      poll(&wait, 1, -1);
      if (wait.revents & POLLIN) read_messages(call);
    }
    if (count > 0) has_begun = 1, bytes += count, length -= (size_t)count;
  }
}

static void send_frame(struct call *call, int type, int flags, uint32_t stream, const void *payload,
                       size_t length) {
  uint8_t frame[1024] = {(uint8_t)(length >> 16), (uint8_t)(length >> 8),   (uint8_t)length,
                         (uint8_t)type,           (uint8_t)flags,           (uint8_t)(stream >> 24),
                         (uint8_t)(stream >> 16), (uint8_t)(stream >> 8),   (uint8_t)stream};
  if (length) memcpy(frame + frame_header, payload, length);
  send_all(call, frame, frame_header + length);
}

/// A header as a literal without indexing and without Huffman code (RFC 7541, 6.2.2).
static size_t put_header(uint8_t *block, const char *name, const char *value) {
  size_t n = strlen(name), v = strlen(value);
  block[0] = 0, block[1] = (uint8_t)n;
  memcpy(block + 2, name, n);
  block[2 + n] = (uint8_t)v;
  memcpy(block + 3 + n, value, v);
  return 3 + n + v;
}

void open_call(struct call *call, const char *socket, const char *method) {
  call->descriptor = connect_to(socket);
  fcntl(call->descriptor, F_SETFL, O_NONBLOCK);
  call->connection_window = call->stream_window = call->initial_window = 65535;
  call->frames = malloc(buffer_size), call->messages = malloc(buffer_size);
  call->framed = call->gathered = 0;
  call->method = method;
  if (!call->frames || !call->messages) fail("malloc");

  static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  send_all(call, (const uint8_t *)preface, sizeof(preface) - 1);
  send_frame(call, settings, 0, 0, NULL, 0);

  char path[128];
  snprintf(path, sizeof(path), "/connectivity.v1.Connectivity/%s", method);
  const char *const all[][2] = {{":method", "POST"},    {":scheme", "http"},
                                {":path", path},        {":authority", "localhost"},
                                {"te", "trailers"},     {"content-type", "application/grpc"}};
  uint8_t block[512];
  size_t length = 0;
  for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
    length += put_header(block + length, all[i][0], all[i][1]);
  send_frame(call, headers, end_headers, 1, block, length);
  // Windows that never run out.
  static const uint8_t much[] = {0x3f, 0, 0, 0};
  send_frame(call, window_update, 0, 0, much, sizeof(much));
  send_frame(call, window_update, 0, 1, much, sizeof(much));
}

void await_greeting(struct call *call) {
  while (!call->is_greeted) {
    poll(&(struct pollfd){call->descriptor, POLLIN, 0}, 1, -1);
    read_messages(call);
  }
}

void send_message(struct call *call, const void *message, size_t length, int is_last) {
  uint8_t framed[512] = {0, 0, 0, (uint8_t)(length >> 8), (uint8_t)length};
  if (length) memcpy(framed + prefix, message, length);
  int64_t size = (int64_t)(prefix + length);
  while (call->connection_window < size || call->stream_window < size) {
    poll(&(struct pollfd){call->descriptor, POLLIN, 0}, 1, -1);
    read_messages(call);
  }
  call->connection_window -= size, call->stream_window -= size;
  send_frame(call, data, is_last ? end_stream : 0, 1, framed, (size_t)size);
}

/// Assembles messages, which are split differently than frames.
static void gather(struct call *call, const uint8_t *bytes, size_t length) {
  if (call->gathered + length > buffer_size) fprintf(stderr, "a message is too long\n"), exit(1);
  memcpy(call->messages + call->gathered, bytes, length);
  call->gathered += length;
  size_t at = 0;
  while (call->gathered - at >= prefix) {
    size_t size = number(call->messages + at + 1);
    if (call->gathered - at - prefix < size) break;
    call->take(call->context, call->messages + at + prefix, size);
    call->taken++;
    at += prefix + size;
  }
  memmove(call->messages, call->messages + at, call->gathered -= at);
}

static void take_settings(struct call *call, const uint8_t *payload, size_t length) {
  for (size_t i = 0; i + 6 <= length; i += 6)
    if (payload[i] == 0 && payload[i + 1] == initial_window_size) {
      call->stream_window += (int64_t)number(payload + i + 2) - call->initial_window;
      call->initial_window = number(payload + i + 2);
    }
  send_frame(call, settings, ack, 0, NULL, 0);
}

/// Exits because connd has ended a call. Prints the frame with escapes, because it may contain the
/// reason as text.
static void end_program(const struct call *call, const uint8_t *frame, size_t length) {
  static const char *const types[] = {"DATA", "HEADERS", "", "RST_STREAM", "", "", "", "GOAWAY"};
  fprintf(stderr, "connd has ended the call of %s with a frame of type %s: ", call->method, types[frame[3] & 7]);
  for (size_t i = 0; i < length; i++) {
    uint8_t byte = frame[frame_header + i];
    fprintf(stderr, byte >= ' ' && byte < 0x7f ? "%c" : "\\x%02x", byte);
  }
  fprintf(stderr, "\n");
  exit(1);
}

static void take_frame(struct call *call, const uint8_t *frame, size_t length) {
  int type = frame[3], flags = frame[4];
  uint32_t stream = number(frame + 5);
  const uint8_t *payload = frame + frame_header;
  int is_end = type == reset || type == go_away || (stream && type <= headers && flags & end_stream);
  if (is_end && !(call->is_unary && call->taken)) end_program(call, frame, length);
  if (type == data) gather(call, payload, length);
  if (type == settings) call->is_greeted = 1;
  if (type == settings && !(flags & ack)) take_settings(call, payload, length);
  if (type == ping && !(flags & ack)) send_frame(call, ping, ack, 0, payload, 8);
  if (type == window_update)
    *(stream ? &call->stream_window : &call->connection_window) += number(payload);
}

void read_messages(struct call *call) {
  ssize_t count =
      recv(call->descriptor, call->frames + call->framed, buffer_size - call->framed, 0);
  if (count == 0 || (count < 0 && errno != EAGAIN)) fprintf(stderr, "connd has closed the connection\n"), exit(1);
  if (count > 0) call->framed += (size_t)count;
  size_t at = 0;
  call->is_reading = 1;
  while (call->framed - at >= frame_header) {
    const uint8_t *frame = call->frames + at;
    size_t length = (size_t)frame[0] << 16 | (size_t)frame[1] << 8 | frame[2];
    if (call->framed - at - frame_header < length) break;
    take_frame(call, frame, length);
    at += frame_header + length;
  }
  call->is_reading = 0;
  memmove(call->frames, call->frames + at, call->framed -= at);
}

void close_call(struct call *call) {
  close(call->descriptor);
  free(call->frames), free(call->messages);
}
