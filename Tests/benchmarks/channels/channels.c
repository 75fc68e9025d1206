// channels LOSSES MANY-LOSSES NETNS:FLOOR'S-SOCKET NETNS:FAR-NETNS:COMMAND: when an application sees that the network of
// its calls is gone. v0 to v4 are in NETNS, their other ends in FAR-NETNS, or in the same one. COMMAND, followed by a number
// of channels, is the application in NETNS.
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

// How long, in milliseconds, something may take, and when all has come to rest.
enum { most_subscribers = 1000, patience = 30000, quiet = 50 };

/// A machine whose cables lead out of it.
struct site {
  int netlink, far_netlink;
  int link[links], peer[links];
};

static struct site open_site(const char *namespace, const char *far_namespace) {
  struct site site = {open_netlink(namespace), open_netlink(far_namespace), {0}, {0}};
  for (int i = 0; i < links; i++) {
    char name[8];
    snprintf(name, sizeof(name), "v%d", i);
    site.link[i] = link_index(site.netlink, name);
    snprintf(name, sizeof(name), "p%d", i);
    site.peer[i] = link_index(site.far_netlink, name);
  }
  return site;
}

static void prepare(struct site *site, int link) {
  replace_default_route(site->netlink, site->link[link], address_on(link, 1));
  pause_for(quiet);
}

static double lose(struct site *site, int link) {
  double start = now();
  set_link(site->far_netlink, site->peer[link], 0);
  return start;
}

static void regain(struct site *site, int link) {
  set_link(site->far_netlink, site->peer[link], 1);
  pause_for(quiet);
}

// The floor: what the last of its subscribers hears.

static int subscribers[most_subscribers], subscriber_count;

static void subscribe(const char *socket, int count) {
  while (subscriber_count < count) subscribers[subscriber_count++] = connect_to(socket);
  pause_for(quiet);
}

static void read_line(int subscriber, int flags) {
  char line[4096];
  ssize_t count = recv(subscriber, line, sizeof(line), flags);
  if (count == 0) fprintf(stderr, "the floor went away\n"), exit(1);
}

static void lose_of_floor(struct site *site, int link, struct samples *samples) {
  prepare(site, link);
  for (int i = 0; i < subscriber_count; i++) read_line(subscribers[i], MSG_DONTWAIT);
  double start = lose(site, link);
  for (int i = 0; i < subscriber_count; i++) read_line(subscribers[i], 0);
  add_sample(samples, now() - start);
  regain(site, link);
}

// The application: when the last of its calls has ended.

static void lose_of_application(struct site *site, int link, struct program *application,
                                struct samples *ended, struct samples *heard) {
  prepare(site, link);
  say(application, "open");
  if (strcmp(hear(application, patience), "open")) exit(1);
  pause_for(quiet);
  double start = lose(site, link), ended_at, heard_at;
  if (sscanf(hear(application, patience), "ended %lf %lf", &ended_at, &heard_at) != 2) exit(1);
  add_sample(ended, ended_at / 1e3 - start);
  if (heard_at > 0) add_sample(heard, heard_at / 1e3 - start);
  regain(site, link);
}

/// Both in turns, so that noise hits them alike.
static void measure(struct site *floor, const char *socket, struct site *site, const char *command,
                    int count, int rounds) {
  static struct samples told, ended, heard;
  told.count = ended.count = heard.count = 0;
  subscribe(socket, count);
  char line[1024];
  snprintf(line, sizeof(line), command, count);
  struct program application;
  start_program(&application, line);
  for (int round = 0; round < rounds; round++) {
    lose_of_floor(floor, round % links, &told);
    lose_of_application(site, round % links, &application, &ended, &heard);
    pause_for(rest);
  }
  finish_program(&application);
  print_times("carrier lost", count > 1 ? "floor's 1,000th" : "the floor, in C", &told, &told);
  if (heard.count) print_times("carrier lost", "library told", &heard, &told);
  print_times("carrier lost", count > 1 ? "1,000th call" : "UNAVAILABLE", &ended, &told);
}

int main(int argc, char **argv) {
  if (argc != 5) return fprintf(stderr, "usage: channels LOSSES MANY-LOSSES FLOOR APPLICATION\n"), 64;
  int losses = atoi(argv[1]), many_losses = atoi(argv[2]);
  if (losses < 1 || many_losses < 1) return 64;
  char *floor_namespace = strsep(&argv[3], ":"), *near = strsep(&argv[4], ":"),
       *far = strsep(&argv[4], ":");
  if (!argv[3] || !argv[4]) return 64;
  struct site floor = open_site(floor_namespace, floor_namespace), site = open_site(near, far);
  print_times_header("change", "floor");
  measure(&floor, argv[3], &site, argv[4], 1, losses);
  measure(&floor, argv[3], &site, argv[4], most_subscribers, many_losses);
}
