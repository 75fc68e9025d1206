#include "frames.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum { frame_header = 9 };

uint8_t out[out_size];
size_t filled;

void put(const void *bytes, size_t count) {
  if (count) memcpy(out + filled, bytes, count);
  filled += count;
}

void put_frame(int type, int flags, uint32_t stream, const void *payload, size_t length) {
  const uint8_t header[frame_header] = {
      (uint8_t)(length >> 16), (uint8_t)(length >> 8),  (uint8_t)length,        (uint8_t)type,  (uint8_t)flags,
      (uint8_t)(stream >> 24), (uint8_t)(stream >> 16), (uint8_t)(stream >> 8), (uint8_t)stream};
  put(header, sizeof(header));
  put(payload, length);
}

void put_greeting(void) {
  // SETTINGS_INITIAL_WINDOW_SIZE, and a connection's window that never runs out.
  static const uint8_t wide[] = {0, 4, 0x7f, 0xff, 0xff, 0xff}, much[] = {0x7f, 0xff, 0, 0};
  put("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
  put_frame(settings, 0, 0, wide, sizeof(wide));
  put_frame(settings, ack, 0, NULL, 0);
  put_frame(window_update, 0, 0, much, sizeof(much));
}

/// Headers as literals without indexing and without Huffman code (RFC 7541, 6.2.2).
size_t write_headers(uint8_t *block, const char *method) {
  char path[64];
  snprintf(path, sizeof(path), "%s%s", *method == '/' ? "" : "/connectivity.v1.", method);
  const char *const all[][2] = {{":method", "POST"},           {":scheme", "http"}, {":path", path},
                                {":authority", "localhost"}, {"te", "trailers"},  {"content-type", "application/grpc"}};
  uint8_t *at = block;
  for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
    *at++ = 0;
    for (int j = 0; j < 2; j++) {
      size_t length = strlen(all[i][j]);
      *at++ = (uint8_t)length;
      memcpy(at, all[i][j], length);
      at += length;
    }
  }
  return (size_t)(at - block);
}

void put_call(uint32_t stream, const char *method) {
  uint8_t block[256];
  put_frame(headers, end_headers, stream, block, write_headers(block, method));
}

void put_request(uint32_t stream, const char *method, const void *request, uint8_t length) {
  uint8_t message[5 + UINT8_MAX] = {0, 0, 0, 0, length};
  if (length) memcpy(message + 5, request, length);
  put_call(stream, method);
  put_frame(data, end_stream, stream, message, 5 + (size_t)length);
}

void put_watch(uint32_t stream) { put_request(stream, "Connectivity/Watch", NULL, 0); }

/// Sends the queued frames. Returns whether connd takes them.
int send_out(int connection) {
  size_t sent = 0;
  ssize_t count = 0;
  for (; sent < filled && count >= 0; sent += (size_t)count) {
    count = send(connection, out + sent, filled - sent, MSG_NOSIGNAL);
    if (count < 0) break;
  }
  filled = 0;
  return count >= 0;
}

/// Sends the queued frames, and drops received ones. Returns whether connd takes them.
int exchange(int connection) {
  static uint8_t in[1 << 16];
  int is_open = 1;
  for (size_t sent = 0; sent < filled && is_open;) {
    struct pollfd wait = {connection, POLLIN | POLLOUT, 0};
    poll(&wait, 1, -1);
    if (wait.revents & (POLLIN | POLLHUP)) is_open = recv(connection, in, sizeof(in), MSG_DONTWAIT) > 0;
    if (!is_open || !(wait.revents & POLLOUT)) continue;
    ssize_t count = send(connection, out + sent, filled - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count > 0) sent += (size_t)count;
    if (count < 0 && errno != EAGAIN) is_open = 0;
  }
  filled = 0;
  return is_open;
}
