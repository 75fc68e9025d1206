// sockets FLOWS LOSSES NETNS:SOCKET: when the client of FLOWS guarded TCP connections hears that
// their carrier is lost: if connd knows no ports and has only the lookup, if the connections are
// idle, and if they were active just before, so that connd hears their sockets first (E1).
// sockets FLOWS 0 NETNS:SOCKET: guards idle connections until it is killed; prints "guarded".
// NETNS is a machine, see machine.h, whose router has 10.0.0.1 on p0.
#define _GNU_SOURCE
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../common/flows.h"
#include "../common/machine.h"
#include "../common/netlink.h"
#include "../common/samples.h"
#include "connections.h"

enum kind { by_lookup, idle, active, kinds };
static const char *const names[] = {"by lookup alone", "idle", "active"};

struct guarding {
  struct machine machine;
  struct call call;
  struct connections connections;
  uint64_t last_id;
  int answered, told, destroyed;
  double first;
  struct samples registered, first_told, all_destroyed;
};

static void take(void *context, const uint8_t *message, size_t length) {
  struct guarding *guarding = context;
  struct answer answer = read_answer(message, length);
  if (answer.event == refused) fprintf(stderr, "connd has refused a flow\n"), exit(1);
  if (answer.event == path_told) guarding->answered++;
  if (answer.event != invalidated) return;
  if (guarding->told++ == 0) guarding->first = now();
  if (answer.severity == destroy) guarding->destroyed++;
}

static void await(struct guarding *guarding, const int *counter, int count) {
  while (*counter < count) {
    if (poll(&(struct pollfd){guarding->call.descriptor, POLLIN, 0}, 1, patience) <= 0)
      fprintf(stderr, "connd has reported only %d flows\n", *counter), exit(1);
    read_messages(&guarding->call);
  }
}

static double guard_all(struct guarding *guarding, enum kind kind) {
  double start = now();
  guarding->answered = 0;
  for (int i = 0; i < guarding->connections.count; i++) {
    struct connection connection = guarding->connections.all[i].is;
    if (kind == by_lookup) connection.local_port = connection.remote_port = 0;
    add_connection(&guarding->call, ++guarding->last_id, connection);
  }
  await(guarding, &guarding->answered, guarding->connections.count);
  return now() - start;
}

static void lose_carrier(struct guarding *guarding, enum kind kind) {
  double registered = guard_all(guarding, kind);
  pause_for(rest);
  if (kind == active) exchange(&guarding->connections);
  guarding->told = guarding->destroyed = 0;
  double start = now();
  set_carrier(&guarding->machine, 0, 0);
  await(guarding, &guarding->destroyed, guarding->connections.count);
  add_sample(&guarding->registered, registered);
  add_sample(&guarding->first_told, guarding->first - start);
  add_sample(&guarding->all_destroyed, now() - start);
  set_carrier(&guarding->machine, 0, 1);
  pause_for(rest);
}

int main(int argc, char **argv) {
  static struct guarding guarding;
  int flows = argc == 4 ? atoi(argv[1]) : 0, losses = argc == 4 ? atoi(argv[2]) : -1;
  if (flows < 1 || losses < 0) return fprintf(stderr, "usage: sockets FLOWS LOSSES NETNS:SOCKET\n"), 64;
  char *socket = argv[3], *namespace = strsep(&socket, ":");
  open_machine(&guarding.machine, namespace);
  open_connections(&guarding.connections, namespace, flows);
  guarding.call = (struct call){.take = take, .context = &guarding};
  open_call(&guarding.call, socket, "Guard");
  if (losses == 0) {
    guard_all(&guarding, idle);
    printf("guarded\n"), fflush(stdout);
    for (;;) pause();
  }
  printf("| %d TCP connections | losses of carrier | all guarded | first report, p50 | first report, slowest | all destroyed |\n", flows);
  printf("|---|---|---|---|---|---|\n");
  for (enum kind kind = by_lookup; kind < kinds; kind++) {
    guarding.registered.count = guarding.first_told.count = guarding.all_destroyed.count = 0;
    for (int loss = 0; loss < losses; loss++) lose_carrier(&guarding, kind);
    printf("| %s | %d × | %.0f ms | %.2f ms | %.2f ms | %.0f ms |\n", names[kind], losses,
           percentile(&guarding.registered, .5) / 1e3, percentile(&guarding.first_told, .5) / 1e3,
           percentile(&guarding.first_told, 1) / 1e3, percentile(&guarding.all_destroyed, .5) / 1e3);
    fflush(stdout);
  }
}
