#include "http2.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { data = 0, headers = 1, settings = 4, ping = 6, window_update = 8 };
enum { end_stream = 1, ack = 1, end_headers = 4 };

static void send_frame(int connection, int type, int flags, uint32_t stream, const void *payload,
                       uint32_t length) {
  uint8_t frame[1024] = {(uint8_t)(length >> 16), (uint8_t)(length >> 8),   (uint8_t)length,
                         (uint8_t)type,           (uint8_t)flags,           (uint8_t)(stream >> 24),
                         (uint8_t)(stream >> 16), (uint8_t)(stream >> 8),   (uint8_t)stream};
  if (length) memcpy(frame + 9, payload, length);
  if (send(connection, frame, 9 + length, MSG_NOSIGNAL) < 0) perror("send"), exit(1);
}

/// A header as a literal without indexing and without Huffman code (RFC 7541, 6.2.2).
static uint32_t put_header(uint8_t *block, const char *name, const char *value) {
  uint32_t n = (uint32_t)strlen(name), v = (uint32_t)strlen(value);
  block[0] = 0, block[1] = (uint8_t)n;
  memcpy(block + 2, name, n);
  block[2 + n] = (uint8_t)v;
  memcpy(block + 3 + n, value, v);
  return 3 + n + v;
}

int watch_by_http2(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strncpy(address.sun_path, path, sizeof(address.sun_path) - 1);
  int connection = socket(AF_UNIX, SOCK_STREAM, 0);
  if (connect(connection, (struct sockaddr *)&address, sizeof(address))) perror(path), exit(1);

  static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  send(connection, preface, sizeof(preface) - 1, MSG_NOSIGNAL);
  send_frame(connection, settings, 0, 0, NULL, 0);

  uint8_t block[512];
  uint32_t length = 0;
  static const char *const all[][2] = {
      {":method", "POST"},           {":scheme", "http"},
      {":path", "/connectivity.v1.Connectivity/Watch"}, {":authority", "localhost"},
      {"te", "trailers"},            {"content-type", "application/grpc"}};
  for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
    length += put_header(block + length, all[i][0], all[i][1]);
  send_frame(connection, headers, end_headers, 1, block, length);
  send_frame(connection, data, end_stream, 1, "\0\0\0\0\0", 5);
  // The windows are never to run out.
  static const uint8_t much[] = {0x3f, 0, 0, 0};
  send_frame(connection, window_update, 0, 0, much, 4);
  send_frame(connection, window_update, 0, 1, much, 4);
  fcntl(connection, F_SETFL, O_NONBLOCK);
  return connection;
}

int read_messages(int connection) {
  static uint8_t buffer[1 << 16];
  static size_t held;
  int messages = 0;
  ssize_t count = recv(connection, buffer + held, sizeof(buffer) - held, 0);
  if (count == 0 || (count < 0 && errno != EAGAIN)) fprintf(stderr, "connd went away\n"), exit(1);
  if (count > 0) held += (size_t)count;
  size_t at = 0;
  while (held - at >= 9) {
    const uint8_t *frame = buffer + at;
    size_t length = (size_t)frame[0] << 16 | (size_t)frame[1] << 8 | frame[2];
    if (held - at < 9 + length) break;
    if (frame[3] == data && length > 5) messages++;
    if (frame[3] == settings && !(frame[4] & ack)) send_frame(connection, settings, ack, 0, NULL, 0);
    if (frame[3] == ping && !(frame[4] & ack)) send_frame(connection, ping, ack, 0, frame + 9, 8);
    at += 9 + length;
  }
  memmove(buffer, buffer + at, held -= at);
  return messages;
}
