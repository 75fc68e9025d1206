// Attacks with the calls that have one request: all of them, read or not.
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../Bench/common/socket.h"
#include "attacks.h"
#include "frames.h"

enum { most_streams = 960, calls_at_once = 250 };

/// GetPathRequest or ReportAttemptRequest for a host that was not named before.
static void put_destination(uint32_t stream, const char *method, const char *rest, uint8_t rest_length) {
  static unsigned host;
  char request[40] = {012};
  host = (host + 1) % 60000;
  request[1] = (char)snprintf(request + 2, sizeof(request) - 2, "11.2.%u.%u", host / 250, host % 250 + 1);
  uint8_t length = (uint8_t)(request[1] + 2);
  memcpy(request + length, rest, rest_length);
  put_request(stream, method, request, length + rest_length);
}

/// One call of each method with one request, in turn.
static void put_any(uint32_t stream) {
  static const struct {
    const char *method, *request;
    uint8_t length;
  } calls[] = {
      {"Connectivity/GetStatus", "", 0},
      {"Costs/ListNetworks", "", 0},
      {"Costs/ForgetNetwork", "\012\002v1", 4},
      {"Costs/SetAssist", "\010\1", 2},
      {"Diagnostics/Explain", "", 0},
      {"Diagnostics/ListLinks", "", 0},
      {"Diagnostics/ListTransitions", "", 0},
      {"Diagnostics/GetStatistics", "", 0},
      {"Diagnostics/ListClients", "", 0},
      {"Diagnostics/ListConnections", "", 0},
      {"Diagnostics/Diagnose", "", 0},
      {"Diagnostics/GetConfiguration", "", 0},
      {"/grpc.health.v1.Health/Check", "", 0},
      // file_containing_symbol
      {"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "\042\031connectivity.v1.GuardRequest", 28},
  };
  enum { count = sizeof(calls) / sizeof(*calls) };
  uint32_t place = stream / 2 % (count + 2);
  // with_other_way; ATTEMPT_OUTCOME_CONTRAST
  if (place == count) put_destination(stream, "Connectivity/GetPath", "\050\1", 2);
  else if (place == count + 1) put_destination(stream, "Connectivity/ReportAttempt", "\030\1", 2);
  else put_request(stream, calls[place].method, calls[place].request, calls[place].length);
}

/// As many calls as a user may have at a time, whose answers are read.
void call_everything(const char *socket) {
  for (;;) {
    int connection = connect_to(socket);
    put_greeting();
    uint32_t stream = 1;
    do
      for (int i = 0; i < calls_at_once; i++, stream += 2) put_any(stream);
    while (exchange(connection));
    close(connection);
  }
}

/// As many calls as a connection may have, whose answers are not read.
static void leave_unread(const char *socket, void put_one(uint32_t stream)) {
  static uint8_t in[1 << 16];
  for (;;) {
    int connection = connect_to(socket);
    put("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
    put_frame(settings, 0, 0, "\0\4\0\0\0\0", 6);
    for (uint32_t i = 0; i < most_streams; i++) put_one(2 * i + 1);
    exchange(connection);
    // Refused calls are repeated later.
    for (int i = 0; i < 100; i++) {
      poll(&(struct pollfd){connection, POLLIN, 0}, 1, 50);
      if (recv(connection, in, sizeof(in), MSG_DONTWAIT) == 0) break;
    }
    close(connection);
  }
}

static void put_list(uint32_t stream) {
  put_request(stream, stream % 4 == 1 ? "Diagnostics/ListLinks" : "Diagnostics/ListTransitions", NULL, 0);
}

void leave_history_unread(const char *socket) { leave_unread(socket, put_list); }
void leave_everything_unread(const char *socket) { leave_unread(socket, put_any); }
