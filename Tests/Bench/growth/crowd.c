// crowd KIND NUMBER SOCKET: follows connd in one of three ways. `subscribers` is NUMBER connections
// that follow the state; `destinations` is NUMBER calls that each follow the path to another
// address; `flows` is one call that guards NUMBER flows. Prints `ready` once connd has answered
// each, and reads until it is ended.
#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/flows.h"

enum { max_calls = 1000, patience = 600000 };

static struct call calls[max_calls];
static struct pollfd polled[max_calls];
static int answers;

static void count_message(void *context, const uint8_t *message, size_t length) {
  (void)context, (void)message, (void)length;
  answers++;
}

static int read_all(int count, int timeout) {
  if (poll(polled, (nfds_t)count, timeout) <= 0) return 0;
  for (int i = 0; i < count; i++)
    if (polled[i].revents) read_messages(&calls[i]);
  return 1;
}

static struct call *open_next(int number, const char *socket, const char *method) {
  struct call *call = &calls[number];
  *call = (struct call){.take = count_message};
  open_call(call, socket, method);
  polled[number] = (struct pollfd){call->descriptor, POLLIN, 0};
  return call;
}

/// A global address, which no one contacts.
static uint32_t destination(int number) { return 0x11000000u + 256u + (uint32_t)number; }

static void follow_destination(int number, const char *socket) {
  struct call *call = open_next(number, socket, "WatchPath");
  char request[32];
  struct in_addr address = {htonl(destination(number))};
  const char *text = inet_ntoa(address);
  request[0] = 1 << 3 | 2;
  request[1] = (char)strlen(text);
  memcpy(request + 2, text, strlen(text));
  send_message(call, request, 2 + strlen(text), 1);
}

int main(int argc, char **argv) {
  int number = argc == 4 ? atoi(argv[2]) : 0, connections = number;
  if (number < 1 || number > max_calls)
    return fprintf(stderr, "usage: crowd KIND NUMBER SOCKET\n"), 64;
  if (!strcmp(argv[1], "flows")) {
    connections = 1;
    struct call *call = open_next(0, argv[3], "Guard");
    for (int i = 0; i < number; i++) add_flow(call, (uint64_t)i + 1, destination(i));
  } else {
    for (int i = 0; i < number; i++) {
      if (!strcmp(argv[1], "destinations")) follow_destination(i, argv[3]);
      else send_message(open_next(i, argv[3], "Watch"), NULL, 0, 1);
      // The connections of a crowd do not overflow the listen backlog.
      while (answers <= i)
        if (!read_all(i + 1, patience)) return fprintf(stderr, "connd does not answer\n"), 1;
    }
  }
  while (answers < number)
    if (!read_all(connections, patience)) return fprintf(stderr, "connd does not answer\n"), 1;
  printf("ready\n");
  fflush(stdout);
  while (read_all(connections, -1)) {}
}
