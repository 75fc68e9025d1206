// weigh KIND COUNT SOCKET: takes COUNT things of the connd at SOCKET, prints "held", and waits to
// be killed. The script `weigh` prints the cost of one of them.
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../Bench/common/flows.h"
#include "../../Bench/common/http2.h"
#include "../../Bench/common/socket.h"
#include "frames.h"

enum { user = 1000, streams_of_connection = 64, patience = 300 };

static int connect_and_greet(const char *socket) {
  int connection = connect_to(socket);
  put_greeting();
  return connection;
}

static void hold_connection(const char *socket) { send_out(connect_and_greet(socket)); }

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

/// WatchPathRequest.destination, a different one each time.
static void put_path(uint32_t stream) {
  static int host;
  char request[20] = {012};
  request[1] = (char)snprintf(request + 2, sizeof(request) - 2, "11.1.%d.%d", host / 250, host % 250 + 1);
  host++;
  put_request(stream, "Connectivity/WatchPath", request, (uint8_t)(request[1] + 2));
}

static void count_answer(void *context, const uint8_t *message, size_t length) {
  (void)message, (void)length;
  ++*(int *)context;
}

static void hold_flows(const char *socket, int count) {
  enum { of_call = 10240 };
  static struct call calls[8];
  for (int i = 0, answers = 0; i < count; i++) {
    struct call *call = &calls[i / of_call];
    if (i % of_call == 0) {
      *call = (struct call){.take = count_answer, .context = &answers};
      open_call(call, socket, "Guard");
    }
    add_flow(call, (uint64_t)i + 1, 0x0b000000u + (uint32_t)i);
    while (answers + 200 < i || (i + 1 == count && answers < count)) {
      poll(&(struct pollfd){call->descriptor, POLLIN, 0}, 1, -1);
      read_messages(call);
    }
  }
}

int main(int argc, char **argv) {
  if (argc != 4) return fprintf(stderr, "usage: weigh KIND COUNT SOCKET\n"), 64;
  int count = atoi(argv[2]);
  const char *kind = argv[1], *socket = argv[3];
  if (setgid(user) || setuid(user)) return perror("setuid"), 1;
  if (!strcmp(kind, "connections")) for (int i = 0; i < count; i++) hold_connection(socket);
  else if (!strcmp(kind, "full-connections")) for (int i = 0; i < count; i++) fill_connection(socket);
  else if (!strcmp(kind, "watches")) hold_streams(socket, count, put_watch);
  else if (!strcmp(kind, "guards")) hold_streams(socket, count, put_half_request);
  else if (!strcmp(kind, "paths")) hold_streams(socket, count, put_path);
  else if (!strcmp(kind, "flows")) hold_flows(socket, count);
  else return 64;
  printf("held\n");
  fflush(stdout);
  pause();
}
