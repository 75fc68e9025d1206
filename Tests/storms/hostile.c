// hostile ROUNDS NAMESPACE SOCKET PROCESS OTHER [CASE]: measures how late honest clients of the
// connd PROCESS are served beside hostile ones. Prints ratios to the same without them, and to the
// same while they attack another connd at the socket OTHER, which takes as much processor time. All
// take turns, so that noise hits them alike.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../benchmarks/common/samples.h"
#include "attacks.h"
#include "honest.h"

enum { turns = 5, user = 20000 };
enum { events, questions, registrations, kinds };

static const char *const words[] = {"an event", "a question", "a registration"};
static const char *socket_path, *process, *other_path;

static void measure(struct samples *samples, int rounds) {
  for (int i = 0; i < rounds; i++) {
    add_sample(&samples[events], hear_of_change());
    add_sample(&samples[questions], connect_and_ask());
    add_sample(&samples[registrations], register_flow());
  }
}

/// connd's own memory in kB.
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

static void compare(const struct attack *attack, int rounds) {
  static struct samples without[kinds], with[kinds], elsewhere[kinds];
  for (int i = 0; i < kinds; i++) without[i].count = with[i].count = elsewhere[i].count = 0;
  long before = memory(), most = before;
  for (int turn = 0; turn < turns; turn++) {
    pause_for(500);
    measure(without, rounds / turns);
    pid_t hostile = start_attack(attack, socket_path, user);
    pause_for(1500);
    measure(with, rounds / turns);
    long held = memory();
    if (held > most) most = held;
    end_attack(hostile);
    hostile = start_attack(attack, other_path, user);
    pause_for(1500);
    measure(elsewhere, rounds / turns);
    end_attack(hostile);
  }
  for (int i = 0; i < kinds; i++) {
    double p50 = percentile(&with[i], .5), p99 = percentile(&with[i], .99);
    printf("| %-23s | %-14s | %7.0f µs | %5.1f × | %5.1f × | %7.0f µs | %5.1f × | %5.1f × | %6ld kB |\n",
           attack->name, words[i], p50, p50 / percentile(&without[i], .5), p50 / percentile(&elsewhere[i], .5), p99,
           p99 / percentile(&without[i], .99), p99 / percentile(&elsewhere[i], .99), most - before);
  }
  fflush(stdout);
}

int main(int argc, char **argv) {
  if (argc < 6)
    return fprintf(stderr, "usage: hostile ROUNDS NAMESPACE SOCKET PROCESS OTHER [CASE]\n"), 64;
  int rounds = atoi(argv[1]);
  if (rounds < turns || rounds > most_samples) return 64;
  socket_path = argv[3], process = argv[4], other_path = argv[5];
  begin_honestly(argv[2], socket_path);

  printf("| beside                  |                |        p50 | ÷ none  | ÷ other |        p99 | ÷ none  | ÷ other | memory    |\n");
  printf("|-------------------------|----------------|------------|---------|---------|------------|---------|---------|-----------|\n");
  for (int i = 0; i < attack_count; i++)
    if (argc < 7 || strstr(attacks[i].name, argv[6])) compare(&attacks[i], rounds);
}
