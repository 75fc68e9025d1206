// latency [--quick] --floor FILE --connd FILE --connctl FILE: how long it takes from a change in the kernel to a
// subscriber, for the floor, for connd with a client on plain HTTP/2, and for `connctl watch --json` through a pipe;
// and what connd costs while nothing happens.
//
// The clock (CLOCK_MONOTONIC) starts before the sendmsg(2) that makes the change, and stops after the read(2) that
// completes the event. Its exit status tells whether it could measure, never what.

#define _GNU_SOURCE
#include "measure.h"
#include "process.h"

#include <err.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { FLOOR, HTTP2, CONNCTL, subject_count };

struct extent {
  int route_changes, losses, idle_seconds;
};

static void print_latencies(struct subject *subjects, const char *change, struct result *results) {
  double p50 = (double)percentile(&results[FLOOR], 50), p99 = (double)percentile(&results[FLOOR], 99);
  for (int i = 0; i < subject_count; i++) {
    struct result *result = &results[i];
    if (result->samples == 0) errx(1, "%s: no event of any %s", subjects[i].name, change);
    printf(
        "| %-15s | %-21s | %6.0f | %6.0f | %6.0f | %5.1f | %5.1f | %4d | %3d |\n", change, subjects[i].name,
        (double)percentile(result, 5) / 1e3, (double)percentile(result, 50) / 1e3,
        (double)percentile(result, 99) / 1e3, (double)percentile(result, 50) / p50,
        (double)percentile(result, 99) / p99, result->samples, result->missed);
    fflush(stdout);
    free(result->latency);
  }
}

// The processes whose cost is looked at.
struct watched {
  const char *name;
  pid_t process;
  struct usage at_start;
  /// Of all route changes together, and of the idle time.
  uint64_t switches, runtime, idle_switches;
  uint64_t anonymous[2], resident[2];
};

enum { processes = 4 };

static void read_memory(struct watched *watched, int moment) {
  for (int i = 0; i < processes; i++) {
    watched[i].anonymous[moment] = memory_of(watched[i].process, "RssAnon");
    watched[i].resident[moment] = memory_of(watched[i].process, "VmRSS");
  }
}

static void begin_usage(struct watched *watched) {
  for (int i = 0; i < processes; i++) watched[i].at_start = usage_of(watched[i].process);
}

static void print_costs(const struct watched *watched, struct extent extent) {
  printf("\n| process | wake-ups a route change | processor µs a route change | wake-ups in %d idle s "
         "| RssAnon MiB: at start, at end | VmRSS MiB: at start, at end |\n"
         "|---|--:|--:|--:|--:|--:|\n", extent.idle_seconds);
  for (int i = 0; i < processes; i++) {
    const struct watched *w = &watched[i];
    double changes = extent.route_changes;
    printf(
        "| %s | %.1f | %.0f | %llu | %.1f, %.1f | %.1f, %.1f |\n", w->name, (double)w->switches / changes,
        (double)w->runtime / changes / 1e3, (unsigned long long)w->idle_switches,
        (double)w->anonymous[0] / 1024, (double)w->anonymous[1] / 1024, (double)w->resident[0] / 1024,
        (double)w->resident[1] / 1024);
  }
}

// Between the two kinds of losses: so long that connd has forgotten the earlier ones (`loss_period` in measure.c).
static void be_idle(struct subject *subjects, struct watched *watched, int seconds) {
  for (int i = 0; i < subject_count; i++) settle(&subjects[i], 200);
  // The threads of Swift's pool go when they have had nothing to do for five seconds.
  sleep(8);
  begin_usage(watched);
  sleep((unsigned)seconds);
  for (int i = 0; i < processes; i++) {
    struct usage usage = usage_of(watched[i].process);
    watched[i].idle_switches = switches_between(&watched[i].at_start, &usage);
  }
}

static void run(const struct programs *programs, struct extent extent) {
  static struct subject subjects[subject_count] = {
      {.name = "the floor"}, {.name = "connd, HTTP/2"}, {.name = "connd, connctl watch"}};
  for (int i = 0; i < subject_count; i++) subjects[i].bed = make_testbed();
  start_floor(&subjects[FLOOR], programs);
  start_connd_with_http2(&subjects[HTTP2], programs);
  start_connd_with_connctl(&subjects[CONNCTL], programs);
  struct watched watched[processes] = {
      {.name = "the floor", .process = subjects[FLOOR].daemon},
      {.name = "connd (HTTP/2)", .process = subjects[HTTP2].daemon},
      {.name = "connd (connctl)", .process = subjects[CONNCTL].daemon},
      {.name = "connctl watch", .process = subjects[CONNCTL].client}};
  read_memory(watched, 0);

  struct result results[subject_count];
  // The first ones pay for code and memory that is touched for the first time.
  measure(subjects, subject_count, route_change, 50, results);
  for (int i = 0; i < subject_count; i++) free(results[i].latency);

  printf("| change          | to                    | p5 µs  | p50 µs | p99 µs | p50 ÷ | p99 ÷ |    n | missed |\n"
         "|-----------------|-----------------------|-------:|-------:|-------:|------:|------:|-----:|----:|\n");
  begin_usage(watched);
  measure(subjects, subject_count, route_change, extent.route_changes, results);
  for (int i = 0; i < processes; i++) {
    struct usage usage = usage_of(watched[i].process);
    watched[i].switches = switches_between(&watched[i].at_start, &usage);
    watched[i].runtime = usage.runtime - watched[i].at_start.runtime;
  }
  print_latencies(subjects, "route change", results);
  measure(subjects, subject_count, carrier_loss, extent.losses, results);
  print_latencies(subjects, "carrier loss", results);
  be_idle(subjects, watched, extent.idle_seconds);
  measure(subjects, subject_count, address_removal, extent.losses, results);
  print_latencies(subjects, "address removal", results);
  read_memory(watched, 1);
  print_costs(watched, extent);
  for (int i = 0; i < subject_count; i++) stop(&subjects[i]);
}

int main(int count, char **arguments) {
  static const struct option options[] = {
      {"quick", no_argument, NULL, 'q'},         {"floor", required_argument, NULL, 'f'},
      {"connd", required_argument, NULL, 'd'},   {"connctl", required_argument, NULL, 'c'},
      {NULL, 0, NULL, 0}};
  struct extent extent = {.route_changes = 2000, .losses = 300, .idle_seconds = 30};
  struct programs programs = {0};
  for (int option; (option = getopt_long(count, arguments, "", options, NULL)) != -1;) {
    switch (option) {
    case 'q': extent = (struct extent){.route_changes = 500, .losses = 100, .idle_seconds = 5}; break;
    case 'f': programs.floor = optarg; break;
    case 'd': programs.connd = optarg; break;
    case 'c': programs.connctl = optarg; break;
    default: return 64;
    }
  }
  if (!programs.floor || !programs.connd || !programs.connctl) errx(64, "--floor, --connd and --connctl are needed");
  // In memory, as /run is: connd appends each change to its history before it tells it.
  char directory[] = "/dev/shm/connd-bench.XXXXXX";
  programs.directory = mkdtemp(directory);
  if (!programs.directory) err(1, "mkdtemp");
  // What is killed with this process leaves no namespaces behind: nothing else holds them.
  signal(SIGPIPE, SIG_IGN);
  allow_namespaces();
  run(&programs, extent);
  char command[64];
  snprintf(command, sizeof command, "rm -rf %s", programs.directory);
  return system(command) == 0 ? 0 : 1;
}
