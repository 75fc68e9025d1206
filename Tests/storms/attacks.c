#include "attacks.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../benchmarks/common/socket.h"
#include "frames.h"

enum { frame_header = 9, longest = 16384, window = 65535, many = 50 };

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
static size_t write_headers(uint8_t *block, const char *method) {
  char path[64];
  snprintf(path, sizeof(path), "/connectivity.v1.Connectivity/%s", method);
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

void put_watch(uint32_t stream) {
  put_call(stream, "Watch");
  put_frame(data, end_stream, stream, "\0\0\0\0", 5);
}

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

/// Fifty subscribers with a connection each.
static void subscribe(const char *socket, int connections[many]) {
  for (int i = 0; i < many; i++) {
    connections[i] = connect_to(socket);
    put_greeting();
    put_watch(1);
    send_out(connections[i]);
  }
}

// These two are not attacks: they show the part of the delay that the number of clients and the
// processor cause.

static void read_all(const char *socket) {
  static uint8_t in[1 << 16];
  int connections[many];
  subscribe(socket, connections);
  struct pollfd wait[many];
  for (int i = 0; i < many; i++) wait[i] = (struct pollfd){connections[i], POLLIN, 0};
  while (poll(wait, many, -1) > 0)
    for (int i = 0; i < many; i++)
      if (wait[i].revents && recv(connections[i], in, sizeof(in), 0) <= 0) exit(1);
}

static void spin(const char *socket) {
  (void)socket;
  for (;;) __asm__ volatile("");
}

// Subscribers that do not read

/// Fifty subscribers on one connection, whose socket is soon full.
static int subscribe_by_one(const char *socket) {
  int connection = connect_to(socket);
  put_greeting();
  for (uint32_t i = 0; i < many; i++) put_watch(2 * i + 1);
  send_out(connection);
  return connection;
}

static void never_read(const char *socket) {
  subscribe_by_one(socket);
  pause();
}

static void read_slowly(const char *socket) {
  for (;;) {
    uint8_t byte;
    for (int connection = subscribe_by_one(socket); recv(connection, &byte, 1, 0) > 0;) sleep(1);
  }
}

static void stop(const char *socket) {
  int connections[many];
  subscribe(socket, connections);
  raise(SIGSTOP);
}

// Clients that come and go

static void open_and_close(const char *socket) {
  for (int i = 0;; i++) {
    int connection = connect_to(socket);
    if (i % 2) put_greeting();
    if (i % 4 == 3) put_watch(1);
    send_out(connection);
    close(connection);
  }
}

/// Makes calls without end, on one connection after the other.
static void call(const char *socket, void put_one(uint32_t stream)) {
  for (;;) {
    int connection = connect_to(socket);
    put_greeting();
    uint32_t stream = 1;
    do
      for (int i = 0; i < 100; i++, stream += 2) put_one(stream);
    while (exchange(connection));
    close(connection);
  }
}

static void put_cancelled(uint32_t stream) {
  put_watch(stream);
  put_frame(reset, 0, stream, "\0\0\0\10", 4);
}

void put_question(uint32_t stream) {
  put_call(stream, "ListLinks");
  put_frame(data, end_stream, stream, "\0\0\0\0", 5);
}

static void cancel(const char *socket) { call(socket, put_cancelled); }
/// Queries the kernel's links, as fast as connd answers or refuses.
static void ask(const char *socket) { call(socket, put_question); }

// Clients that do not speak the protocol

/// Before the preface, and after it.
static void send_garbage(const char *socket) {
  static uint8_t garbage[1 << 16];
  for (size_t i = 0; i < sizeof(garbage); i++) garbage[i] = (uint8_t)rand();
  for (int i = 0;; i++) {
    int connection = connect_to(socket);
    if (i % 2) put_greeting();
    put(garbage, sizeof(garbage));
    exchange(connection);
    close(connection);
  }
}

static void leave_half(const char *socket) {
  static uint8_t block[longest];
  write_headers(block, "Watch");
  for (int i = 0; i < many; i++) {
    put_greeting();
    put_frame(headers, end_headers, 1, block, sizeof(block));
    filled--;
    send_out(connect_to(socket));
  }
  pause();
}

/// One long header, and thousands of references of a byte each to it (CVE-2016-6581).
static void bomb(const char *socket) {
  static uint8_t block[longest];
  enum { long_header = 3000, references = 12000 };
  for (;;) {
    int connection = connect_to(socket);
    put_greeting();
    uint32_t stream = 1;
    do {
      uint8_t *at = block + write_headers(block, "Watch");
      const uint8_t name[] = {0x40, 1, 'x', 0x7f, 0x80 | ((long_header - 127) & 0x7f), (long_header - 127) >> 7};
      memcpy(at, name, sizeof(name));
      memset(at + sizeof(name), 'y', long_header);
      memset(at + sizeof(name) + long_header, 0xbe, references);
      put_frame(headers, end_headers, stream, block, (size_t)(at - block) + sizeof(name) + long_header + references);
      stream += 2;
    } while (exchange(connection));
    close(connection);
  }
}

// Beyond the limits

static void put_pings(void) {
  for (int i = 0; i < 1000; i++) put_frame(ping, 0, 0, "\0\0\0\0\0\0\0", 8);
}

/// Sends them as fast as connd takes them, and reads or not, as `pass` does.
static void flood(const char *socket, int pass(int connection)) {
  for (;;) {
    int connection = connect_to(socket);
    put_greeting();
    put_watch(1);
    do put_pings();
    while (pass(connection));
    close(connection);
  }
}

static void ping_and_read(const char *socket) { flood(socket, exchange); }
static void ping_only(const char *socket) { flood(socket, send_out); }

/// Reads up to the end of a stream, and adds window updates to the connection's window. Returns
/// whether the connection lasts.
static int await_stream(int connection, uint32_t stream, int64_t *left) {
  static uint8_t in[longest];
  uint8_t head[frame_header];
  for (;;) {
    if (recv(connection, head, sizeof(head), MSG_WAITALL) != sizeof(head)) return 0;
    size_t length = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
    uint32_t on = (uint32_t)head[5] << 24 | (uint32_t)head[6] << 16 | (uint32_t)head[7] << 8 | head[8];
    if (length > sizeof(in) || (length && recv(connection, in, length, MSG_WAITALL) != (ssize_t)length)) return 0;
    if (head[3] == window_update && on == 0)
      *left += (uint32_t)in[0] << 24 | (uint32_t)in[1] << 16 | (uint32_t)in[2] << 8 | in[3];
    if (on == stream && head[3] == reset) return 1;
  }
}

/// As much of a message of 100 MB as may be sent before connd allows more, call by call.
static void send_much(const char *socket) {
  static const uint8_t message[longest] = {0, 100 << 20 >> 24, (100 << 20 >> 16) & 0xff, 0, 0}, rest[longest];
  for (;;) {
    int connection = connect_to(socket);
    put_greeting();
    int64_t left = window;
    uint32_t stream = 1;
    int lasts = 1;
    for (; lasts && left >= longest; stream += 2) {
      put_call(stream, "Explain");
      const uint8_t *part = message;
      for (int64_t all = left < window ? left : window; all >= longest; all -= longest, left -= longest, part = rest)
        put_frame(data, 0, stream, part, longest);
      lasts = send_out(connection) && await_stream(connection, stream, &left);
    }
    close(connection);
  }
}

/// Begins calls without end, and reads nothing.
static void begin_streams(const char *socket) {
  for (;;) {
    int connection = connect_to(socket);
    put("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
    put_frame(settings, 0, 0, NULL, 0);
    for (uint32_t stream = 1; stream < 1 << 20; stream += 2) {
      put_call(stream, "Guard");
      if (!send_out(connection)) break;
    }
    close(connection);
  }
}

/// As many queries as connd takes, and disconnects before the first answer.
static void ask_and_leave(const char *socket) {
  for (;;) {
    int connection = connect_to(socket);
    put_greeting();
    for (uint32_t stream = 1; stream < 1000; stream += 2) put_question(stream);
    send(connection, out, filled, MSG_DONTWAIT | MSG_NOSIGNAL);
    filled = 0;
    close(connection);
  }
}

/// WatchRequest.since_generation = 1.
static void put_old_watch(uint32_t stream) {
  put_call(stream, "Watch");
  put_frame(data, end_stream, stream, "\0\0\0\0\2\10\1", 7);
}

/// Subscribers from long ago, without end.
static void read_history(const char *socket) { call(socket, put_old_watch); }

/// As many connections as it gets.
static void hold_connections(const char *socket) {
  for (int i = 0; i < 2000; i++) {
    int connection = connect_to(socket);
    if (i % 2) put_greeting();
    send_out(connection);
  }
  pause();
}

const struct attack attacks[] = {
    {"(50 that read)", read_all, 0},
    {"(a busy processor)", spin, 0},
    {"50 never read", never_read, 0},
    {"50 read a byte a second", read_slowly, 0},
    {"50 are stopped", stop, 0},
    {"opens and closes", open_and_close, 0},
    {"cancels", cancel, 0},
    {"asks for links", ask, 0},
    {"garbage", send_garbage, 0},
    {"50 halves of frames", leave_half, 0},
    {"header bombs", bomb, 0},
    {"PINGs", ping_and_read, 0},
    {"PINGs, and never reads", ping_only, 0},
    {"messages of 100 MB", send_much, 0},
    {"streams without end", begin_streams, 0},
    {"asks and leaves", ask_and_leave, 0},
    {"reads all history", read_history, 0},
    {"holds connections", hold_connections, 0},
    {"unread registrations", guard_unread, 0},
    {"the same, another user", guard_unread, 0},
    {"registers and removes", guard_and_remove, 0},
    {"unread histories", leave_history_unread, 0},
    {"1,800 watching people", watch_as_people, 1},
    {"1,800 uids that ask", ask_as_subordinates, 1},
    {"40 uids that hold", hold_as_subordinates, 1},
    {"two services that hold", hold_as_services, 1},
};
const int attack_count = sizeof(attacks) / sizeof(*attacks);

pid_t start_attack(const struct attack *attack, const char *socket, uid_t user) {
  pid_t child = fork();
  if (child < 0) perror("fork"), exit(1);
  if (child) return child;
  if (user && !attack->is_many && (setgid(user) || setuid(user))) perror("setuid"), _exit(1);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  attack->run(socket);
  _exit(1);
}

void end_attack(pid_t attacker) {
  if (waitpid(attacker, NULL, WNOHANG)) fprintf(stderr, "a hostile client has ended\n"), exit(1);
  kill(attacker, SIGKILL);
  waitpid(attacker, NULL, 0);
}
