#define _GNU_SOURCE
#include "http2.h"

#include <err.h>
#include <string.h>
#include <sys/socket.h>

// RFC 9113, 6.
enum { DATA = 0, HEADERS = 1, RST_STREAM = 3, SETTINGS = 4, PING = 6, GOAWAY = 7, WINDOW_UPDATE = 8 };
enum { ACK = 1, END_STREAM = 1, END_HEADERS = 4, header_size = 9 };

static void put(struct http2 *client, uint8_t type, uint8_t flags, uint32_t stream, const void *payload, size_t size) {
  uint8_t frame[header_size + 256] = {
      (uint8_t)(size >> 16),   (uint8_t)(size >> 8),   (uint8_t)size,          type, flags,
      (uint8_t)(stream >> 24), (uint8_t)(stream >> 16), (uint8_t)(stream >> 8), (uint8_t)stream};
  if (size > sizeof frame - header_size) errx(1, "frame too long");
  memcpy(frame + header_size, payload, size);
  ssize_t sent = send(client->socket, frame, header_size + size, MSG_NOSIGNAL);
  if (sent != (ssize_t)(header_size + size)) err(1, "send to connd");
}

// A literal field never indexed, with a new name (RFC 7541, 6.2.3); lengths below 127 are one octet.
static size_t field(uint8_t *block, const char *name, const char *value) {
  size_t name_length = strlen(name), value_length = strlen(value);
  block[0] = 0x10;
  block[1] = (uint8_t)name_length;
  memcpy(block + 2, name, name_length);
  block[2 + name_length] = (uint8_t)value_length;
  memcpy(block + 3 + name_length, value, value_length);
  return 3 + name_length + value_length;
}

void http2_watch(struct http2 *client, int socket) {
  memset(client, 0, sizeof *client);
  client->socket = socket;
  static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  if (send(socket, preface, sizeof preface - 1, MSG_NOSIGNAL) < 0) err(1, "send to connd");
  // Windows that never close: SETTINGS_INITIAL_WINDOW_SIZE for the stream, WINDOW_UPDATE for the connection.
  put(client, SETTINGS, 0, 0, (uint8_t[]){0, 4, 0x7f, 0xff, 0xff, 0xff}, 6);
  put(client, WINDOW_UPDATE, 0, 0, (uint8_t[]){0x7f, 0xff, 0, 0}, 4);
  uint8_t block[256], *end = block;
  end += field(end, ":method", "POST");
  end += field(end, ":scheme", "http");
  end += field(end, ":path", "/connectivity.v1.Connectivity/Watch");
  end += field(end, ":authority", "localhost");
  end += field(end, "content-type", "application/grpc");
  end += field(end, "te", "trailers");
  put(client, HEADERS, END_HEADERS, 1, block, (size_t)(end - block));
  // The request is the empty message: everything, from a snapshot on.
  put(client, DATA, END_STREAM, 1, (uint8_t[5]){0}, 5);
}

// gRPC's messages, each behind a flag and its length in four octets, know nothing of frames.
static int receive_data(struct http2 *client, const uint8_t *bytes, size_t count) {
  int messages = 0;
  while (count > 0) {
    if (client->prefix_length < sizeof client->prefix) {
      client->prefix[client->prefix_length++] = *bytes++;
      count--;
      const uint8_t *p = client->prefix;
      client->message_left = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
    } else {
      size_t part = count < client->message_left ? count : client->message_left;
      client->message_left -= part;
      bytes += part;
      count -= part;
    }
    if (client->prefix_length == sizeof client->prefix && client->message_left == 0) {
      client->prefix_length = 0;
      messages++;
    }
  }
  return messages;
}

static int receive_frame(struct http2 *client, const uint8_t *frame, size_t size) {
  const uint8_t *payload = frame + header_size;
  uint8_t type = frame[3], flags = frame[4];
  switch (type) {
  case DATA: return receive_data(client, payload, size);
  case SETTINGS:
    if (!(flags & ACK)) put(client, SETTINGS, ACK, 0, "", 0);
    return 0;
  case PING:
    if (!(flags & ACK)) put(client, PING, ACK, 0, payload, size);
    return 0;
  case RST_STREAM:
  case GOAWAY: errx(1, "connd ended the stream");
  default: return 0;
  }
}

int http2_receive(struct http2 *client, const uint8_t *bytes, size_t count) {
  int messages = 0;
  if (count > sizeof client->frame - client->frame_length) errx(1, "connd's frame is too long");
  memcpy(client->frame + client->frame_length, bytes, count);
  client->frame_length += count;
  for (;;) {
    const uint8_t *frame = client->frame;
    if (client->frame_length < header_size) return messages;
    size_t size = (size_t)frame[0] << 16 | (size_t)frame[1] << 8 | frame[2];
    if (client->frame_length < header_size + size) return messages;
    messages += receive_frame(client, frame, size);
    client->frame_length -= header_size + size;
    memmove(client->frame, client->frame + header_size + size, client->frame_length);
  }
}
