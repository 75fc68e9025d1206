// measure ROUNDS COUNT LIMIT NAME=NETNS:KIND:ARGUMENT...: measures how long a change of the kernel
// takes to the last of COUNT subscribers of each subject. Prints a line a subject and change:
// COUNT, NAME, the change, p50 and p90 in microseconds, and the number of measured changes, with
// tabs in between. p50 is "never" if the subscribers usually receive nothing within LIMIT
// milliseconds. KIND and ARGUMENT are those of subscribers.h. Each subject has its own network
// namespace, and they take turns, as in latency.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../common/machine.h"
#include "../../common/netlink.h"
#include "../../common/samples.h"
#include "subscribers.h"

// `quiet` is in milliseconds.
enum { most_subjects = 16, quiet = 30 };

struct subject {
  const char *name;
  struct machine machine;
  struct subscribers subscribers;
  struct samples samples;
  int missed;
};

static struct subject subjects[most_subjects];
static int subject_count, subscriber_count, limit;
/// A subject that misses so many changes first is not waited for again.
static int misses;

struct change {
  const char *name;
  /// The pause between `prepare` and `make`, in which the events of earlier changes arrive.
  int pause;
  void (*prepare)(struct machine *, int round), (*make)(struct machine *, int round),
      (*undo)(struct machine *, int round);
};

static void use_next(struct machine *machine, int round) { use_link(machine, round % links); }

static void lose_carrier(struct machine *machine, int round) {
  set_carrier(machine, round % links, 0);
}
static void restore_carrier(struct machine *machine, int round) {
  set_carrier(machine, round % links, 1);
}

static void change_own(struct machine *machine, int round, int add) {
  int link = round % links;
  change_address(machine->netlink, machine->link[link], address_on(link, 2), add);
}
static void lose_address(struct machine *machine, int round) { change_own(machine, round, 0); }
static void restore_address(struct machine *machine, int round) { change_own(machine, round, 1); }

static void change_route(struct machine *machine, int round) {
  replace_default_route(machine->netlink, machine->link[0], address_on(0, 3 + round % 8));
}
static void keep_route(struct machine *machine, int round) { (void)machine, (void)round; }

static const struct change changes[] = {
    {"route changed", 0, keep_route, change_route, keep_route},
    {"address removed", rest, use_next, lose_address, restore_address},
    {"carrier lost", rest, use_next, lose_carrier, restore_carrier},
};

static void measure_one(struct subject *subject, const struct change *change, int round) {
  drain(&subject->subscribers, quiet);
  double start = now();
  change->make(&subject->machine, round);
  if (await_all(&subject->subscribers, limit))
    add_sample(&subject->samples, now() - start);
  else
    subject->missed++;
  change->undo(&subject->machine, round);
  drain(&subject->subscribers, quiet);
}

static int is_given_up(const struct subject *subject) {
  return subject->missed >= misses && subject->missed > subject->samples.count;
}

static void measure(const struct change *change, int rounds) {
  for (int i = 0; i < subject_count; i++) {
    subjects[i].samples.count = subjects[i].missed = 0;
    use_link(&subjects[i].machine, 0);
  }
  pause_for(rest);
  for (int round = 0; round < rounds; round++) {
    for (int i = 0; i < subject_count; i++) change->prepare(&subjects[i].machine, round);
    pause_for(change->pause);
    for (int i = 0; i < subject_count; i++)
      if (!is_given_up(&subjects[i])) measure_one(&subjects[i], change, round);
  }
  for (int i = 0; i < subject_count; i++) {
    struct samples *samples = &subjects[i].samples;
    printf("%d\t%s\t%s\t", subscriber_count, subjects[i].name, change->name);
    // Subscribers may have received an event of something else in the time of a few changes.
    if (samples->count > subjects[i].missed)
      printf("%.1f\t%.1f\t%d\n", percentile(samples, .5), percentile(samples, .9), samples->count);
    else
      printf("never\tnever\t%d\n", samples->count);
    fflush(stdout);
  }
}

static void open_subject(char *argument) {
  struct subject *subject = &subjects[subject_count++];
  subject->name = strsep(&argument, "=");
  open_machine(&subject->machine, strsep(&argument, ":"));
  const char *kind = strsep(&argument, ":");
  open_subscribers(&subject->subscribers, subscriber_count, kind, argument);
}

int main(int argc, char **argv) {
  if (argc < 5 || argc - 4 > most_subjects)
    return fprintf(stderr, "usage: measure ROUNDS COUNT LIMIT SUBJECT...\n"), 64;
  int rounds = atoi(argv[1]);
  misses = rounds < 10 ? 1 : 2;
  subscriber_count = atoi(argv[2]);
  limit = atoi(argv[3]);
  if (rounds < 1 || rounds > most_samples || subscriber_count < 1) return 64;
  for (int i = 4; i < argc; i++) open_subject(argv[i]);
  for (size_t i = 0; i < sizeof(changes) / sizeof(*changes); i++) measure(&changes[i], rounds);
}
