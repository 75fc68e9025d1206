// sockets FLOWS LOSSES NETNS:SOCKET: when the client of FLOWS guarded TCP connections hears that
// their carrier is lost: if connd knows no ports and has only the lookup, if the connections are
// idle, if they were active just before, so that connd hears their sockets first (E1), and if
// netfilter tracks connections, so that their peers are asked (E4).
// Then, how long connd needs for another user's report of a stall, for which it examines the
// connections' sockets (Q4).
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

enum {
  reports = 10,
  /// In milliseconds. connd examines sockets at most once a second.
  report_interval = 1100,
  other_user = 65534,
};

enum kind { by_lookup, idle, active, disputed, kinds };
static const char *const names[] = {"by lookup alone", "idle", "active", "idle, and asked"};

struct guarding {
  struct machine machine;
  struct call call;
  struct connections connections;
  uint64_t last_id;
  /// The number before those of the present connections.
  uint64_t first_id;
  int answered, told, destroyed;
  double first;
  struct samples registered, first_told, all_destroyed, reported;
};

static void take(void *context, const uint8_t *message, size_t length) {
  struct guarding *guarding = context;
  struct answer answer = read_answer(message, length);
  if (answer.event == refused) fprintf(stderr, "connd has refused a flow\n"), exit(1);
  if (answer.event == path_told) guarding->answered++;
  if (answer.asks) probe(&guarding->connections.all[answer.id - guarding->first_id - 1], 1);
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
  guarding->first_id = guarding->last_id;
  for (int i = 0; i < guarding->connections.count; i++) {
    struct connection connection = guarding->connections.all[i].is;
    connection.asks = kind == disputed;
    if (kind == by_lookup) connection.local_port = connection.remote_port = 0;
    add_connection(&guarding->call, ++guarding->last_id, connection);
  }
  await(guarding, &guarding->answered, guarding->connections.count);
  return now() - start;
}

static void lose_carrier(struct guarding *guarding, enum kind kind) {
  double registered = guard_all(guarding, kind);
  if (kind == disputed) exchange(&guarding->connections);
  pause_for(rest);
  if (kind == active) exchange(&guarding->connections);
  guarding->told = guarding->destroyed = 0;
  double start = now();
  set_carrier(&guarding->machine, 0, 0);
  await(guarding, &guarding->destroyed, guarding->connections.count);
  add_sample(&guarding->registered, registered);
  add_sample(&guarding->first_told, guarding->first - start);
  add_sample(&guarding->all_destroyed, now() - start);
  for (int i = 0; kind == disputed && i < guarding->connections.count; i++)
    probe(&guarding->connections.all[i], 0);
  set_carrier(&guarding->machine, 0, 1);
  pause_for(rest);
}

/// Has netfilter track the connections of this network namespace from now on.
static void track(void) {
  if (system("nft 'table ip track { chain out { type filter hook output priority 0; ct state new accept; }; }'"))
    fprintf(stderr, "nft has failed\n"), exit(1);
}

static void take_answer(void *context, const uint8_t *message, size_t length) {
  (void)message, (void)length;
  ++*(int *)context;
}

/// A user's report is a reason to examine the connections of others.
static void report(struct guarding *guarding, const char *socket) {
  int answers = 0;
  struct call call = {.take = take_answer, .context = &answers, .is_unary = 1};
  if (seteuid(other_user)) perror("seteuid"), exit(1);
  open_call(&call, socket, "ReportAttempt");
  if (seteuid(0)) perror("seteuid"), exit(1);
  await_greeting(&call);
  double start = now();
  report_attempt(&call, guarding->connections.all[0].is.remote, stalled);
  while (answers == 0) {
    if (poll(&(struct pollfd){call.descriptor, POLLIN, 0}, 1, patience) <= 0)
      fprintf(stderr, "connd does not answer a report\n"), exit(1);
    read_messages(&call);
  }
  add_sample(&guarding->reported, now() - start);
  close_call(&call);
}

static void measure_reports(struct guarding *guarding, const char *socket) {
  guard_all(guarding, idle);
  for (int i = 0; i < reports; i++) {
    pause_for(report_interval);
    report(guarding, socket);
  }
  printf("\n| another user's report beside %d connections | p50 | slowest |\n|---|---|---|\n",
         guarding->connections.count);
  printf("| %d × | %.2f ms | %.2f ms |\n", reports, percentile(&guarding->reported, .5) / 1e3,
         percentile(&guarding->reported, 1) / 1e3);
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
    if (kind == disputed) track();
    guarding.registered.count = guarding.first_told.count = guarding.all_destroyed.count = 0;
    for (int loss = 0; loss < losses; loss++) lose_carrier(&guarding, kind);
    printf("| %s | %d × | %.0f ms | %.2f ms | %.2f ms | %.0f ms |\n", names[kind], losses,
           percentile(&guarding.registered, .5) / 1e3, percentile(&guarding.first_told, .5) / 1e3,
           percentile(&guarding.first_told, 1) / 1e3, percentile(&guarding.all_destroyed, .5) / 1e3);
    fflush(stdout);
  }
  measure_reports(&guarding, socket);
}
