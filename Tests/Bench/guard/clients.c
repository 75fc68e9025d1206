#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "../common/flows.h"
#include "../common/samples.h"
#include "../common/socket.h"
#include "guard.h"

enum { clients = 1000 };

/// A thousand connections to a daemon, and how many of them have received the awaited message.
struct crowd {
  struct daemon *daemon;
  /// The clients' method; unused for the floor.
  const char *method;
  int epoll, answered, told;
  uint64_t flow;
  struct client {
    struct crowd *crowd;
    /// For the floor's subscribers only its descriptor is used.
    struct call call;
    int is_told;
  } clients[clients];
  struct samples samples;
};

static struct crowd floor_crowd, watching_crowd = {.method = "Watch"},
                                 guarding_crowd = {.method = "Guard"};

static void tell(struct client *client) {
  client->crowd->told += !client->is_told;
  client->is_told = 1;
}

static void take_answer(void *context, const uint8_t *message, size_t length) {
  struct client *client = context;
  struct answer answer = read_answer(message, length);
  if (answer.event == refused) fprintf(stderr, "connd has refused a flow\n"), exit(1);
  if (answer.event == path_told) client->crowd->answered++;
  if (answer.event == invalidated && answer.severity == destroy) tell(client);
}

/// The first message is a snapshot, which does not count.
static void take_event(void *context, const uint8_t *message, size_t length) {
  (void)message, (void)length;
  tell(context);
}

static int is_floor(struct crowd *crowd) { return !crowd->method; }
static int is_watching(struct crowd *crowd) { return crowd == &watching_crowd; }

static void open_crowd(struct crowd *crowd, struct daemon *daemon) {
  crowd->daemon = daemon;
  crowd->epoll = epoll_create1(EPOLL_CLOEXEC);
  for (int i = 0; i < clients; i++) {
    struct client *client = &crowd->clients[i];
    client->crowd = crowd;
    client->call =
        (struct call){.take = is_watching(crowd) ? take_event : take_answer, .context = client};
    if (is_floor(crowd)) client->call.descriptor = connect_to(daemon->socket);
    else open_call(&client->call, daemon->socket, crowd->method);
    if (is_watching(crowd)) send_message(&client->call, NULL, 0, 1);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = client};
    if (epoll_ctl(crowd->epoll, EPOLL_CTL_ADD, client->call.descriptor, &event))
      perror("epoll_ctl"), exit(1);
  }
}

/// Reads until the counter has reached the count, or until nothing arrives any more.
static int await(struct crowd *crowd, const int *counter, int count, int timeout) {
  while (!counter || *counter < count) {
    struct epoll_event events[clients];
    int ready = epoll_wait(crowd->epoll, events, clients, timeout);
    if (ready <= 0) return 0;
    for (int i = 0; i < ready; i++) {
      struct client *client = events[i].data.ptr;
      char line[256];
      if (!is_floor(crowd)) read_messages(&client->call);
      else if (read(client->call.descriptor, line, sizeof(line)) > 0) tell(client);
      else fprintf(stderr, "the floor has closed the connection\n"), exit(1);
    }
  }
  return 1;
}

static void settle(struct crowd *crowd) { await(crowd, NULL, 0, 50); }

static void guard_again(struct crowd *crowd) {
  crowd->answered = 0;
  crowd->flow++;
  for (int i = 0; i < clients; i++)
    add_flow(&crowd->clients[i].call, crowd->flow, 0x11000000 + (uint32_t)i);
  if (!await(crowd, &crowd->answered, clients, patience))
    fprintf(stderr, "only %d clients have received an answer\n", crowd->answered), exit(1);
}

static void lose_carrier(struct crowd *crowd, int link) {
  struct machine *machine = &crowd->daemon->machine;
  use_link(machine, link);
  settle(crowd);
  if (crowd == &guarding_crowd) guard_again(crowd);
  settle(crowd);
  crowd->told = 0;
  for (int i = 0; i < clients; i++) crowd->clients[i].is_told = 0;
  double start = now();
  set_carrier(machine, link, 0);
  if (!await(crowd, &crowd->told, clients, patience))
    fprintf(stderr, "only %d clients have received the change\n", crowd->told), exit(1);
  add_sample(&crowd->samples, now() - start);
  set_carrier(machine, link, 1);
  settle(crowd);
}

void measure_clients(struct daemon *floor, struct daemon *watched, struct daemon *guarding,
                     int losses) {
  open_crowd(&floor_crowd, floor);
  open_crowd(&guarding_crowd, guarding);
  long before = anonymous_memory(watched->process);
  open_crowd(&watching_crowd, watched);
  if (!await(&watching_crowd, &watching_crowd.told, clients, patience))
    fprintf(stderr, "only %d clients have received a snapshot\n", watching_crowd.told), exit(1);
  double memory = (double)(anonymous_memory(watched->process) - before) / clients;
  struct crowd *crowds[] = {&floor_crowd, &watching_crowd, &guarding_crowd};
  for (int round = 0; round < losses; round++) {
    for (int i = 0; i < 3; i++) lose_carrier(crowds[i], round % links);
    pause_for(rest);
  }
  print_times("carrier lost", "floor's 1,000th", &floor_crowd.samples, &floor_crowd.samples);
  print_times("carrier lost", "Watch's 1,000th", &watching_crowd.samples, &floor_crowd.samples);
  print_times("carrier lost", "Guard's 1,000th", &guarding_crowd.samples, &floor_crowd.samples);
  printf("\n| memory for each of 1,000 clients of Watch | %.1f kB |\n|---|---|\n", memory);
}
