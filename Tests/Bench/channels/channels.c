// channels LOSSES MANY-LOSSES NETNS:FLOOR'S-SOCKET NETNS:COMMAND: measures when an application sees
// that the network of its calls is gone. Each NETNS is a machine, see machine.h. COMMAND, followed
// by a number of channels, is the application in it.
#define _GNU_SOURCE
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../common/machine.h"
#include "../common/netlink.h"
#include "../common/samples.h"
#include "../common/socket.h"
#include "program.h"

// In milliseconds: when everything has come to rest, and how long a connection must be silent to be
// idle, so that connd does not ask its socket before it ends the connection (E1). After a second,
// the library sends a PING (W4), and connd counts a connection as active for another second.
enum { most_subscribers = 1000, quiet = 50, silence = 2300 };

static void prepare(struct machine *machine, int link) {
  use_link(machine, link);
  pause_for(quiet);
}

static double lose(struct machine *machine, int link) {
  double start = now();
  set_carrier(machine, link, 0);
  return start;
}

static void regain(struct machine *machine, int link) {
  set_carrier(machine, link, 1);
  pause_for(quiet);
}

// The floor: when the last of its subscribers is notified.

static int subscribers[most_subscribers], subscriber_count;

static void subscribe(const char *socket, int count) {
  while (subscriber_count < count) subscribers[subscriber_count++] = connect_to(socket);
  pause_for(quiet);
}

static void read_line(int subscriber, int flags) {
  char line[4096];
  if (!flags && poll(&(struct pollfd){subscriber, POLLIN, 0}, 1, patience) <= 0)
    fprintf(stderr, "the floor has sent nothing\n"), exit(1);
  ssize_t count = recv(subscriber, line, sizeof(line), flags);
  if (count == 0) fprintf(stderr, "the floor has closed the connection\n"), exit(1);
}

static void lose_of_floor(struct machine *machine, int link, struct samples *samples) {
  prepare(machine, link);
  for (int i = 0; i < subscriber_count; i++) read_line(subscribers[i], MSG_DONTWAIT);
  double start = lose(machine, link);
  for (int i = 0; i < subscriber_count; i++) read_line(subscribers[i], 0);
  add_sample(samples, now() - start);
  regain(machine, link);
}

// The application: when the last of its calls has ended.

static void lose_of_application(struct machine *machine, int link, struct program *application,
                                int pause, struct samples *ended, struct samples *heard) {
  prepare(machine, link);
  say(application, "open");
  if (strcmp(hear(application, patience), "open")) exit(1);
  pause_for(pause);
  double start = lose(machine, link), ended_at, heard_at;
  if (sscanf(hear(application, patience), "ended %lf %lf", &ended_at, &heard_at) != 2) exit(1);
  add_sample(ended, ended_at / 1e3 - start);
  if (heard_at > 0) add_sample(heard, heard_at / 1e3 - start);
  regain(machine, link);
}

/// Measures both in turns, so that noise hits them alike.
static void measure(struct machine *floor, const char *socket, struct machine *machine,
                    const char *command, int count, int rounds) {
  static struct samples told, ended, heard, active, active_heard;
  told.count = ended.count = heard.count = active.count = active_heard.count = 0;
  subscribe(socket, count);
  char line[1024];
  snprintf(line, sizeof(line), command, count);
  struct program application;
  start_program(&application, line);
  for (int round = 0; round < rounds; round++) {
    lose_of_floor(floor, round % links, &told);
    lose_of_application(machine, round % links, &application, silence, &ended, &heard);
    pause_for(rest);
    lose_of_application(machine, round % links, &application, quiet, &active, &active_heard);
    pause_for(rest);
  }
  finish_program(&application);
  print_times("carrier lost", count > 1 ? "floor's 1,000th" : "the floor, in C", &told, &told);
  if (heard.count) print_times("carrier lost", "library told", &heard, &told);
  print_times("carrier lost", count > 1 ? "1,000th call" : "UNAVAILABLE", &ended, &told);
  if (active_heard.count) print_times("carrier lost", "lib, active", &active_heard, &told);
  print_times("carrier lost", count > 1 ? "1,000th, active" : "UNAV., active", &active, &told);
}

int main(int argc, char **argv) {
  if (argc != 5) return fprintf(stderr, "usage: channels LOSSES MANY-LOSSES FLOOR APPLICATION\n"), 64;
  int losses = atoi(argv[1]), many_losses = atoi(argv[2]);
  if (losses < 1 || many_losses < 1) return 64;
  struct machine floor, machine;
  open_machine(&floor, strsep(&argv[3], ":"));
  open_machine(&machine, strsep(&argv[4], ":"));
  if (!argv[3] || !argv[4]) return 64;
  print_times_header("change", "floor");
  measure(&floor, argv[3], &machine, argv[4], 1, losses);
  measure(&floor, argv[3], &machine, argv[4], most_subscribers, many_losses);
}
