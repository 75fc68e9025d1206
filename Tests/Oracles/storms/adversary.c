// adversary ROUNDS NAMESPACE SOCKET OTHER [ATTACK]:
// measures the delay of honest clients of the connd at SOCKET during attacks. Prints the ratios to
// the delay without attacks, and to the delay while the attacks hit another connd at OTHER.
//
// Makes all attacks together, each by its own user. Then prints "attacking", attacks SOCKET once
// more, and waits to be killed. With ATTACK, it makes only this one, and prints one line.
// `adversary list` prints the names of the attacks.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../Bench/common/samples.h"
#include "attacks.h"
#include "honest.h"

enum { first_user = 20000, most_attacks = 64, head_start = 2000 };
enum { event, question, connecting, registration, kinds };

static const char *const words[kinds] = {"event", "query", "connection and query", "registration"};

struct figures {
  struct samples samples[kinds];
};

static pid_t attackers[most_attacks];
static const char *chosen;

static int is_made(const struct attack *attack) {
  return chosen ? !strcmp(attack->name, chosen) : !(attack->kind & alone);
}

static void start_all(const char *socket) {
  for (int i = 0; i < attack_count; i++)
    attackers[i] = is_made(&attacks[i]) ? start_attack(&attacks[i], socket, first_user + (uid_t)i) : 0;
  pause_for(head_start);
}

static void end_all(void) {
  for (int i = 0; i < attack_count; i++)
    if (attackers[i]) end_attack(attackers[i]);
}

static void measure(struct figures *figures, int rounds) {
  for (int i = 0; i < rounds; i++) {
    add_sample(&figures->samples[event], hear_of_change());
    add_sample(&figures->samples[question], ask_for_path());
    add_sample(&figures->samples[connecting], connect_and_ask());
    add_sample(&figures->samples[registration], register_flow());
  }
}

static void print_part(struct figures *with, struct figures *without, struct figures *elsewhere, int kind, double part) {
  double here = percentile(&with->samples[kind], part);
  printf(" %7.1f ms | %7.1f × | %5.1f × |", here / 1000, here / percentile(&without->samples[kind], part),
         here / percentile(&elsewhere->samples[kind], part));
}

int main(int argc, char **argv) {
  if (argc == 2 && !strcmp(argv[1], "list")) {
    for (int i = 0; i < attack_count; i++) puts(attacks[i].name);
    return 0;
  }
  if (argc < 5 || argc > 6) return fprintf(stderr, "usage: adversary ROUNDS NAMESPACE SOCKET OTHER [ATTACK]\n"), 64;
  int rounds = atoi(argv[1]);
  if (rounds < 1 || rounds > most_samples || attack_count > most_attacks) return 64;
  chosen = argv[5];
  static struct figures without, with, elsewhere;
  begin_honestly(argv[2], argv[3]);
  measure(&without, rounds);
  start_all(argv[3]);
  measure(&with, rounds);
  end_all();
  start_all(argv[4]);
  measure(&elsewhere, rounds);
  end_all();
  if (chosen) {
    printf("| %-25s |", chosen);
    for (int kind = 0; kind < kinds; kind++) print_part(&with, &without, &elsewhere, kind, .99);
    return 0;
  }
  printf("| during all attacks     |        p50 | ÷ without | ÷ other |        p99 | ÷ without | ÷ other |\n");
  printf("|------------------------|------------|-----------|---------|------------|-----------|---------|\n");
  for (int kind = 0; kind < kinds; kind++) {
    printf("| %-22s |", words[kind]);
    print_part(&with, &without, &elsewhere, kind, .5);
    print_part(&with, &without, &elsewhere, kind, .99);
    printf("\n");
  }
  start_all(argv[3]);
  printf("attacking\n");
  fflush(stdout);
  pause();
}
