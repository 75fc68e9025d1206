// adversary ROUNDS NAMESPACE SOCKET OTHER: measures how late a subscriber of the connd at SOCKET
// receives a change, and a client its answer, while all attacks run together, each by its own user.
// Prints the ratios to the same without attacks, and to the same while they attack another connd at
// OTHER. Then prints "attacking", attacks SOCKET once more, and waits to be killed.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../benchmarks/common/samples.h"
#include "attacks.h"
#include "honest.h"

enum { first_user = 20000, most_attacks = 32, head_start = 2000 };

struct figures {
  struct samples events, answers, first_answers, registrations;
};

static pid_t attackers[most_attacks];

static void start_all(const char *socket) {
  for (int i = 0; i < attack_count; i++) attackers[i] = start_attack(&attacks[i], socket, first_user + (uid_t)i);
  pause_for(head_start);
}

static void end_all(void) {
  for (int i = 0; i < attack_count; i++) end_attack(attackers[i]);
}

static void measure(struct figures *figures, int rounds) {
  for (int i = 0; i < rounds; i++) {
    add_sample(&figures->events, hear_of_change());
    add_sample(&figures->answers, ask_for_path());
    add_sample(&figures->first_answers, connect_and_ask());
    add_sample(&figures->registrations, register_flow());
  }
}

static void print_line(const char *what, struct samples *with, struct samples *without, struct samples *elsewhere) {
  printf("| %-22s |", what);
  for (int i = 0; i < 2; i++) {
    double part = i ? .99 : .5, here = percentile(with, part);
    printf(" %7.0f µs | %5.1f × | %5.1f × |", here, here / percentile(without, part), here / percentile(elsewhere, part));
  }
  printf("\n");
}

int main(int argc, char **argv) {
  if (argc != 5) return fprintf(stderr, "usage: adversary ROUNDS NAMESPACE SOCKET OTHER\n"), 64;
  int rounds = atoi(argv[1]);
  if (rounds < 1 || rounds > 300 || attack_count > most_attacks) return 64;
  static struct figures without, with, elsewhere;
  begin_honestly(argv[2], argv[3]);
  connect_for_questions(3 * rounds);
  measure(&without, rounds);
  start_all(argv[3]);
  measure(&with, rounds);
  end_all();
  start_all(argv[4]);
  measure(&elsewhere, rounds);
  end_all();
  printf("| beside all of them     |        p50 | ÷ none  | ÷ other |        p99 | ÷ none  | ÷ other |\n");
  printf("|------------------------|------------|---------|---------|------------|---------|---------|\n");
  print_line("an event", &with.events, &without.events, &elsewhere.events);
  print_line("a question", &with.answers, &without.answers, &elsewhere.answers);
  print_line("the same, connecting", &with.first_answers, &without.first_answers, &elsewhere.first_answers);
  print_line("a registration", &with.registrations, &without.registrations, &elsewhere.registrations);
  start_all(argv[3]);
  printf("attacking\n");
  fflush(stdout);
  pause();
}
