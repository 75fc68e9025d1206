#include "holdings.h"

#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../Bench/common/flows.h"
#include "../../Bench/common/http2.h"
#include "../../Bench/common/socket.h"
#include "frames.h"

enum { streams_of_connection = 64, patience = 300 };

static int connect_and_greet(const char *socket) {
  int connection = connect_to(socket);
  put_greeting();
  return connection;
}

static void hold_connections(const char *socket, int count) {
  for (int i = 0; i < count; i++) send_out(connect_and_greet(socket));
}

/// Makes connd send more than this client reads, until connd reads no more either.
static void fill_connection(const char *socket) {
  int connection = connect_and_greet(socket);
  put_watch(1);
  send_out(connection);
  struct pollfd wait = {connection, POLLOUT, 0};
  for (int i = 0; i < 190 && poll(&wait, 1, patience) > 0; i++) {
    // An answer of some hundred bytes each.
    for (int j = 0; j < 4; j++) put_request((uint32_t)(8 * i + 2 * j + 3), "Diagnostics/ListTransitions", NULL, 0);
    if (send(connection, out, filled, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) break;
    filled = 0;
  }
  filled = 0;
}

static void fill_connections(const char *socket, int count) {
  for (int i = 0; i < count; i++) fill_connection(socket);
}

/// The longest header that connd decodes, without its end: nghttp2 keeps it until it is complete.
/// Its Huffman code has five bits for each byte (RFC 7541, appendix B).
static void hold_headers(const char *socket, int count) {
  enum { frame = 8192, length = 2 * frame };
  static const uint8_t letters[] = {0x18, 0xc6, 0x31, 0x8c, 0x63};
  static uint8_t block[length];
  const uint8_t name[] = {0, 1, 'x', 0xff, 0x80 | ((length - 7 - 127) & 0x7f), 0x80 | ((length - 7 - 127) >> 7 & 0x7f), (length - 7 - 127) >> 14};
  for (size_t i = 0; i < length; i++) block[i] = i < sizeof(name) ? name[i] : letters[(i - sizeof(name)) % sizeof(letters)];
  for (int i = 0; i < count; i++) {
    int connection = connect_and_greet(socket);
    put_frame(headers, 0, 1, block, frame);
    put_frame(continuation, 0, 1, block + frame, frame - 5);
    send_out(connection);
  }
}

/// Begins streams, some on each connection.
static void hold_streams(const char *socket, int count, void put_one(uint32_t stream)) {
  for (int connection = 0, i = 0; i < count; i++) {
    if (i % streams_of_connection == 0) connection = connect_and_greet(socket);
    put_one((uint32_t)(i % streams_of_connection) * 2 + 1);
    send_out(connection);
  }
}

/// As much of a request as connd keeps without counting it.
static void put_half_request(uint32_t stream) {
  static const uint8_t part[4000] = {0, 0, 0, 0x3f, 0xff};
  put_call(stream, "Connectivity/Guard");
  put_frame(data, 0, stream, part, sizeof(part));
}

/// HealthCheckRequest.service, as long as a request may be. The call runs until connd stops.
static void put_long_request(uint32_t stream) {
  enum { longest = 16384, text = longest - 4 };
  static uint8_t message[5 + longest] = {0, 0, 0, longest >> 8, longest & 0xff, 012, 0x80 | (text & 0x7f), 0x80 | (text >> 7 & 0x7f), text >> 14};
  memset(message + 9, 'x', text);
  put_call(stream, "/grpc.health.v1.Health/Watch");
  put_frame(data, 0, stream, message, longest);
  put_frame(data, end_stream, stream, message + longest, 5);
}

/// WatchPathRequest.destination, a different one each time.
static void put_path(uint32_t stream) {
  static int host;
  char request[20] = {012};
  request[1] = (char)snprintf(request + 2, sizeof(request) - 2, "11.1.%d.%d", host / 250, host % 250 + 1);
  host++;
  put_request(stream, "Connectivity/WatchPath", request, (uint8_t)(request[1] + 2));
}

static void count_answer(void *context, const uint8_t *message, size_t length) {
  ++*(int *)context;
}

/// Adds a flow with everything that connd keeps: its ports, a question to its peer, and a known
/// path of 16 links. No route leads to its remote address, so connd keeps that path.
static void add_large_flow(struct call *call, int number) {
  enum { links = 16 };
  uint8_t request[512] = {012}, *flow = request + 3, *at = flow;
  const uint8_t id[] = {010, 0x80 | (number & 0x7f), 0x80 | (number >> 7 & 0x7f), (uint8_t)(number >> 14)};
  const uint8_t ports[] = {0120, 0xff, 0xff, 3, 0130, 0xbb, 3, 0150, 1};
  memcpy(at, id, sizeof(id)), at += sizeof(id);
  *at = 022;
  at[1] = (uint8_t)snprintf((char *)at + 2, 20, "fd00::%x:%x", number >> 16, number & 0xffff);
  at += 2 + at[1];
  memcpy(at, ports, sizeof(ports)), at += sizeof(ports);
  enum { link = 2 + 17 + 2, path = links * link + 4 };
  *at = 072, at[1] = 0x80 | (path & 0x7f), at[2] = path >> 7, at += 3;
  for (int i = 0; i < links; i++, at += link) memcpy(at, "\042\023\012\017interface123456\020\002", link);
  memcpy(at, "\010\3\050\1", 4), at += 4;
  request[1] = 0x80 | ((at - flow) & 0x7f), request[2] = (uint8_t)((at - flow) >> 7);
  send_message(call, request, (size_t)(at - request), 0);
}

static void hold_flows_of(const char *socket, int count, void add(struct call *call, int number)) {
  enum { of_call = 10240 };
  static struct call calls[8];
  for (int i = 0, answers = 0; i < count; i++) {
    struct call *call = &calls[i / of_call];
    if (i % of_call == 0) {
      *call = (struct call){.take = count_answer, .context = &answers};
      open_call(call, socket, "Guard");
    }
    add(call, i + 1);
    while (answers + 200 < i || (i + 1 == count && answers < count)) {
      poll(&(struct pollfd){call->descriptor, POLLIN, 0}, 1, -1);
      read_messages(call);
    }
  }
}

static void add_small_flow(struct call *call, int number) { add_flow(call, (uint64_t)number, 0x0b000000u + (uint32_t)number); }
static void hold_flows(const char *socket, int count) { hold_flows_of(socket, count, add_small_flow); }
static void hold_large_flows(const char *socket, int count) { hold_flows_of(socket, count, add_large_flow); }

/// An answer that its client does not read.
static void put_unread_call(uint32_t stream) { put_request(stream, "Diagnostics/GetStatistics", NULL, 0); }

/// Streams of which the client reads nothing, some on each connection.
static void hold_unread(const char *socket, int count) {
  for (int connection = 0, i = 0; i < count; i++) {
    if (i % streams_of_connection == 0) {
      connection = connect_to(socket);
      put("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
      put_frame(settings, 0, 0, "\0\4\0\0\0\0", 6);
    }
    put_unread_call((uint32_t)(i % streams_of_connection) * 2 + 1);
    send_out(connection);
  }
}

static void hold_watches(const char *socket, int count) { hold_streams(socket, count, put_watch); }
static void hold_half_requests(const char *socket, int count) { hold_streams(socket, count, put_half_request); }
/// One on each connection, because connd reads no more from a client that does not read.
static void hold_long_requests(const char *socket, int count) {
  for (int i = 0; i < count; i++) {
    int connection = connect_and_greet(socket);
    put_long_request(1);
    send_out(connection);
  }
}
static void hold_paths(const char *socket, int count) { hold_streams(socket, count, put_path); }

const struct holding holdings[] = {
    {"connections", hold_connections},
    {"full-connections", fill_connections},
    {"headers", hold_headers},
    {"watches", hold_watches},
    {"guards", hold_half_requests},
    {"long-requests", hold_long_requests},
    {"paths", hold_paths},
    {"unread-answers", hold_unread},
    {"flows", hold_flows},
    {"large-flows", hold_large_flows},
};
static const int holding_count = sizeof(holdings) / sizeof(*holdings);

const struct holding *find_holding(const char *name) {
  for (int i = 0; i < holding_count; i++)
    if (!strcmp(holdings[i].name, name)) return &holdings[i];
  return NULL;
}
