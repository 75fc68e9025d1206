// hostile ROUNDS NAMESPACE SOCKET PROCESS OTHER [CASE]: how late a subscriber of the connd PROCESS hears of a change
// beside hostile clients, as ratios to the same without them, and to the same while they attack another connd at the socket
// OTHER, which takes the processors as much. All take turns, so that noise hits them alike.
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../benchmarks/common/http2.h"
#include "../benchmarks/common/machine.h"
#include "../benchmarks/common/netlink.h"
#include "../benchmarks/common/samples.h"
#include "attacks.h"

enum { turns = 5, quiet = 20, most_late = 30000 };

static const char *namespace, *socket_path, *process, *other_path;
static struct machine machine;
static struct call call;
static int arrived;

static void take_event(void *context, const uint8_t *message, size_t length) {
  (void)context, (void)message, (void)length;
  arrived++;
}

/// Whether an event comes within so many milliseconds.
static int take(int timeout) {
  for (arrived = 0; !arrived; read_messages(&call))
    if (poll(&(struct pollfd){call.descriptor, POLLIN, 0}, 1, timeout) <= 0) return 0;
  return 1;
}

static void measure(struct samples *samples, int rounds) {
  static int gateway;
  for (int i = 0; i < rounds; i++) {
    while (take(quiet)) continue;
    double start = now();
    replace_default_route(machine.netlink, machine.link[0], address_on(0, 3 + (gateway ^= 1)));
    if (!take(most_late)) fprintf(stderr, "no event in %d s\n", most_late / 1000), exit(1);
    add_sample(samples, now() - start);
  }
}

/// kB of connd's own.
static long memory(void) {
  char path[64], line[128];
  snprintf(path, sizeof(path), "/proc/%s/status", process);
  FILE *status = fopen(path, "r");
  if (!status) perror(path), exit(1);
  long size = 0;
  while (fgets(line, sizeof(line), status)) sscanf(line, "RssAnon: %ld", &size);
  fclose(status);
  return size;
}

static pid_t start(const struct attack *attack, const char *target) {
  pid_t child = fork();
  if (child < 0) perror("fork"), exit(1);
  if (child) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  attack->run(target);
  _exit(1);
}

static void end(pid_t child) {
  // Who went by itself has attacked nobody.
  if (waitpid(child, NULL, WNOHANG)) fprintf(stderr, "the hostile client has ended\n"), exit(1);
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
}

static void compare(const struct attack *attack, int rounds) {
  static struct samples without, with, elsewhere;
  without.count = with.count = elsewhere.count = 0;
  long before = memory(), most = before;
  for (int turn = 0; turn < turns; turn++) {
    pause_for(500);
    measure(&without, rounds / turns);
    pid_t hostile = start(attack, socket_path);
    pause_for(500);
    measure(&with, rounds / turns);
    long held = memory();
    if (held > most) most = held;
    end(hostile);
    hostile = start(attack, other_path);
    pause_for(500);
    measure(&elsewhere, rounds / turns);
    end(hostile);
  }
  double p50 = percentile(&with, .5), p99 = percentile(&with, .99);
  printf("| %-23s | %7.0f µs | %5.1f × | %5.1f × | %7.0f µs | %5.1f × | %5.1f × | %6ld kB |\n",
         attack->name, p50, p50 / percentile(&without, .5), p50 / percentile(&elsewhere, .5), p99,
         p99 / percentile(&without, .99), p99 / percentile(&elsewhere, .99), most - before);
  fflush(stdout);
}

int main(int argc, char **argv) {
  if (argc < 6)
    return fprintf(stderr, "usage: hostile ROUNDS NAMESPACE SOCKET PROCESS OTHER [CASE]\n"), 64;
  int rounds = atoi(argv[1]);
  if (rounds < turns || rounds > most_samples) return 64;
  namespace = argv[2], socket_path = argv[3], process = argv[4], other_path = argv[5];
  open_machine(&machine, namespace);
  call = (struct call){.take = take_event};
  open_call(&call, socket_path, "Watch");
  send_message(&call, NULL, 0, 1);

  printf("| beside                  |        p50 | ÷ none  | ÷ other |        p99 | ÷ none  | ÷ other | memory    |\n");
  printf("|-------------------------|------------|---------|---------|------------|---------|---------|-----------|\n");
  for (int i = 0; i < attack_count; i++)
    if (argc < 7 || strstr(attacks[i].name, argv[6])) compare(&attacks[i], rounds);
}
