// Attacks by many users, and attacks on connd's memory and on the turns of requests.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../Bench/common/socket.h"
#include "attacks.h"
#include "frames.h"

enum {
  // Uids that `newuidmap` gives to login users, and uids of people.
  first_subordinate = 100000, first_person = 30000,
  crowd = 1800, few = 40,
  // The streams of one user, and the outstanding requests of a stream.
  most_streams = 960, outstanding = 256, most_flows = 20160,
  // Polls of 50 ms without a request.
  patience = 40,
};

/// Connects as another user: connd gets the effective uid (SO_PEERCRED).
static int connect_as(uid_t user, const char *socket) {
  if (seteuid(user)) perror("seteuid"), exit(1);
  int connection = connect_to(socket);
  if (seteuid(0)) perror("seteuid"), exit(1);
  end_with_parent();
  return connection;
}

/// Reads from connections, and calls `again` for each one with input.
static void serve(const int *connections, int count, void again(int connection)) {
  static struct pollfd waits[2 * crowd];
  static uint8_t in[1 << 16];
  for (int i = 0; i < count; i++) waits[i] = (struct pollfd){connections[i], POLLIN, 0};
  while (poll(waits, (nfds_t)count, -1) > 0)
    for (int i = 0; i < count; i++) {
      if (!waits[i].revents) continue;
      if (recv(connections[i], in, sizeof(in), MSG_DONTWAIT) <= 0)
        waits[i].fd = -1;
      else if (again)
        again(connections[i]);
    }
  pause();
}

static int connections[2 * crowd];

/// A terminal server: idle subscribers that are different people.
static void watch_as_people(const char *socket, int people) {
  for (int i = 0; i < people; i++) {
    connections[i] = connect_as(first_person + (uid_t)i, socket);
    put_greeting();
    put_watch(1);
    send_out(connections[i]);
  }
  serve(connections, people, NULL);
}

void watch_as_some(const char *socket) { watch_as_people(socket, 200); }
void watch_as_many(const char *socket) { watch_as_people(socket, 1400); }

static uint32_t next_stream[1 << 16];

static void ask_again(int connection) {
  put_question(next_stream[connection] += 2);
  if (send(connection, out, filled, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {}
  filled = 0;
}

/// One user with all its subordinate uids, each with four concurrent calls.
void ask_as_subordinates(const char *socket) {
  for (int i = 0; i < crowd; i++) {
    connections[i] = connect_as(first_subordinate + (uid_t)i, socket);
    put_greeting();
    for (uint32_t call = 0; call < 4; call++) put_question(2 * call + 1);
    next_stream[connections[i]] = 7;
    send(connections[i], out, filled, MSG_DONTWAIT | MSG_NOSIGNAL);
    filled = 0;
  }
  serve(connections, crowd, ask_again);
}

/// A few subordinate uids, each with as many connections as it gets.
void hold_as_subordinates(const char *socket) {
  for (int i = 0; i < 2 * crowd; i++) {
    int connection = connect_as(first_subordinate + (uid_t)(i % few), socket);
    put_greeting();
    send_out(connection);
  }
  pause();
}

/// Two services with as many connections as they get.
void hold_as_services(const char *socket) {
  for (int i = 0; i < 2 * crowd; i++) {
    int connection = connect_as(33 + (uid_t)(i % 2), socket);
    put_greeting();
    send_out(connection);
  }
  pause();
}

// Guard

/// Appends a field of bytes.
static uint8_t *put_bytes(uint8_t *at, int field, const void *bytes, size_t length) {
  *at++ = (uint8_t)(field << 3 | 2);
  if (length > 0x7f) *at++ = (uint8_t)(length | 0x80), *at++ = (uint8_t)(length >> 7);
  else *at++ = (uint8_t)length;
  memcpy(at, bytes, length);
  return at + length;
}

/// Writes GuardRequest.add for a flow, with the longest possible known path if it is long, or
/// GuardRequest.remove.
///
/// Returns the length of the message with gRPC's prefix.
static size_t write_request(uint8_t *message, uint16_t id, int is_removal, int is_long) {
  static const char remote[] = "11.0.0.9", source[] = "10.0.0.2", name[] = "interface123456";
  uint8_t path[1024], flow[1024 + 128], *at = path;
  for (int i = 0; i < 16; i++) at = put_bytes(at, 4, name, sizeof(name) - 1);
  at = put_bytes(at, 7, source, sizeof(source) - 1);
  size_t path_length = (size_t)(at - path);
  at = flow;
  const uint8_t number[] = {1 << 3, (uint8_t)(id | 0x80), (uint8_t)((id >> 7) | 0x80), (uint8_t)(id >> 14)};
  memcpy(at, number, sizeof(number)), at += sizeof(number);
  if (!is_removal) {
    at = put_bytes(at, 2, remote, sizeof(remote) - 1);
    if (is_long) at = put_bytes(at, 7, path, path_length);
  }
  uint8_t *end = put_bytes(message + 5, is_removal ? 2 : 1, flow, (size_t)(at - flow));
  size_t length = (size_t)(end - message) - 5;
  const uint8_t prefix[] = {0, 0, 0, (uint8_t)(length >> 8), (uint8_t)length};
  memcpy(message, prefix, sizeof(prefix));
  return length + sizeof(prefix);
}

struct guard_stream {
  int64_t window;
  uint16_t sent;
};

static struct guard_stream guards[most_streams];

/// Queues as many of a stream's requests as fit. Without `removes` it stops at `count`.
static void put_requests(uint32_t stream, int removes, int count, int64_t *left) {
  struct guard_stream *guard = &guards[stream / 2];
  uint8_t message[2048];
  for (int i = 0; i < 8 && (removes || guard->sent < count); i++) {
    int is_removal = removes && guard->sent % 2;
    size_t length = write_request(message, guard->sent / (removes ? 2 : 1), is_removal, !removes);
    if (guard->window < (int64_t)length || *left < (int64_t)length || filled + length + 16 > out_size) return;
    put_frame(data, 0, stream, message, length);
    guard->sent++;
    guard->window -= (int64_t)length, *left -= (int64_t)length;
  }
}

static uint32_t number(const uint8_t *at) {
  return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/// Reads the available frames, and applies window updates. Returns whether the connection lasts.
static int take_frames(int connection, int64_t *left) {
  static uint8_t in[1 << 16];
  static size_t gathered;
  static int last;
  if (last != connection) last = connection, gathered = 0;
  ssize_t count = recv(connection, in + gathered, sizeof(in) - gathered, MSG_DONTWAIT);
  if (count == 0) return last = 0;
  if (count > 0) gathered += (size_t)count;
  size_t at = 0;
  while (gathered - at >= 9) {
    const uint8_t *head = in + at;
    size_t length = number(head) >> 8;
    if (gathered - at - 9 < length) break;
    uint32_t stream = number(head + 5);
    if (head[3] == window_update) *(stream ? &guards[stream / 2].window : left) += number(head + 9);
    if (head[3] == reset) guards[stream / 2].window = INT64_MIN / 2;
    at += 9 + length;
  }
  memmove(in, in + at, gathered -= at);
  return 1;
}

/// As many streams of `Guard` as a user may have, each with as many requests as connd takes.
/// `window` is the part of a stream's answers that is read, and `count` the number of its flows,
/// which are held without reading more.
static void guard(const char *socket, int removes, uint32_t window, int count) {
  for (;;) {
    int connection = connect_to(socket);
    const uint8_t setting[] = {0, 4, (uint8_t)(window >> 24), (uint8_t)(window >> 16), (uint8_t)(window >> 8), (uint8_t)window};
    static const uint8_t much[] = {0x7f, 0xff, 0, 0};
    put("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
    put_frame(settings, 0, 0, setting, sizeof(setting));
    put_frame(settings, ack, 0, NULL, 0);
    put_frame(window_update, 0, 0, much, sizeof(much));
    for (uint32_t i = 0; i < most_streams; i++) {
      put_call(2 * i + 1, "Connectivity/Guard");
      guards[i] = (struct guard_stream){65535, 0};
    }
    exchange(connection);
    int64_t left = 65535;
    size_t sent = 0;
    int idle = 0;
    for (uint32_t turn = 0; removes || !window || idle < patience;) {
      if (!filled)
        for (uint32_t i = 0; i < most_streams && filled < out_size / 2; i++)
          put_requests(2 * (turn++ % most_streams) + 1, removes, count, &left);
      poll(&(struct pollfd){connection, (short)(POLLIN | (filled ? POLLOUT : 0)), 0}, 1, 50);
      if (!take_frames(connection, &left)) break;
      idle = filled ? 0 : idle + 1;
      if (!filled) continue;
      ssize_t written = send(connection, out + sent, filled - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (written > 0) sent += (size_t)written;
      if (sent == filled) sent = filled = 0;
    }
    if (idle == patience) pause();
    filled = 0;
    close(connection);
  }
}

/// Registers flows, and reads no answer.
void guard_unread(const char *socket) { guard(socket, 0, 0, 2 * outstanding); }
/// Registers and removes flows, and reads everything.
void guard_and_remove(const char *socket) { guard(socket, 1, 0x7fffffff, 0); }
/// Holds as many flows as it gets, and reads no notification.
void guard_many(const char *socket) { guard(socket, 0, 0x7fffffff, most_flows / most_streams); }

/// Enters the network namespace of the process that listens on the socket.
static void join_namespace(const char *socket) {
  struct ucred peer;
  socklen_t size = sizeof(peer);
  char path[64];
  int connection = connect_to(socket);
  if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size)) perror("SO_PEERCRED"), exit(1);
  close(connection);
  snprintf(path, sizeof(path), "/proc/%d/ns/net", peer.pid);
  int namespace = open(path, O_RDONLY | O_CLOEXEC);
  if (namespace < 0 || setns(namespace, CLONE_NEWNET)) perror(path), exit(1);
  close(namespace);
}

/// Becomes a user with 2,048 TCP connections on connd's machine.
static void hold_tcp_connections(const char *path) {
  join_namespace(path);
  uid_t user = first_person + crowd;
  if (setgid(user) || setuid(user)) perror("setuid"), exit(1);
  end_with_parent();
  // The machine's own address, because connd omits connections of loopback addresses.
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = inet_addr("10.0.0.2")};
  socklen_t size = sizeof(address);
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  if (bind(listener, (struct sockaddr *)&address, size) || listen(listener, 128) ||
      getsockname(listener, (struct sockaddr *)&address, &size))
    perror("listen"), exit(1);
  for (int i = 0; i < 2048; i++)
    if (connect(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&address, size) || accept(listener, NULL, NULL) < 0)
      perror("connect"), exit(1);
}

static void put_listing(int connection) {
  static uint32_t stream = 1;
  put_request(stream, "Diagnostics/ListConnections", NULL, 0);
  stream += 2;
  if (connection >= 0) send_out(connection);
}

/// Lists its connections with as many calls at a time as one connection may have.
void list_connections(const char *socket) {
  hold_tcp_connections(socket);
  connections[0] = connect_to(socket);
  put_greeting();
  for (int i = 0; i < most_streams; i++) put_listing(-1);
  send_out(connections[0]);
  serve(connections, 1, put_listing);
}
