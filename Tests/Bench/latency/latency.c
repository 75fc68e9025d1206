// latency [--made] ROUNDS NETNS:floor:SOCKET NETNS:asking:SOCKET NETNS:http2:SOCKET
// NETNS:guard:SOCKET NETNS:connctl:"COMMAND":
// measures how long a change of the kernel takes to a subscriber, and to a client that guards a
// flow on the default path. `asking` is the floor with as many questions and threads as connd. Each
// subject has its own network namespace, so that none of them works while another is measured. They
// take turns, so that noise hits them alike. With --made it also prints the part after the kernel
// has made the change, because beside a million routes the kernel itself takes long.
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "../common/flows.h"
#include "../common/machine.h"
#include "../common/netlink.h"
#include "../common/samples.h"
#include "../common/socket.h"

enum { most_subjects = 8 };

struct subject {
  char *name, kind;
  struct machine machine;
  int events;
  struct call call;
  /// The number of events, and of answers to requests.
  int arrived, answered;
  uint64_t flow;
  struct samples samples, rest;
};

static struct subject subjects[most_subjects];
static int subject_count;

static int is_call(struct subject *subject) { return subject->kind == 'h' || subject->kind == 'g'; }

static void take_event(void *context, const uint8_t *message, size_t length) {
  (void)message, (void)length;
  ((struct subject *)context)->arrived++;
}

/// Only what invalidates a guarded flow counts: an address that goes may come back, so its flow is
/// advised first (I1).
static void take_answer(void *context, const uint8_t *message, size_t length) {
  struct subject *subject = context;
  struct answer answer = read_answer(message, length);
  if (answer.event == refused) fprintf(stderr, "connd has refused a flow\n"), exit(1);
  if (answer.event == path_told) subject->answered++;
  if (answer.event == invalidated) subject->arrived++;
}

/// Returns the number of events that have arrived; waits for the first.
static int take(struct subject *subject, int timeout) {
  subject->arrived = 0;
  while (!subject->arrived) {
    struct pollfd wait = {subject->events, POLLIN, 0};
    if (poll(&wait, 1, timeout) <= 0) return 0;
    if (is_call(subject)) {
      read_messages(&subject->call);
      continue;
    }
    char buffer[1 << 16];
    if (read(subject->events, buffer, sizeof(buffer)) <= 0)
      fprintf(stderr, "%s has closed the connection\n", subject->name), exit(1);
    subject->arrived++;
  }
  return subject->arrived;
}

static void settle(struct subject *subject) {
  while (take(subject, 20)) continue;
}

static int tells_rest;

/// The change was begun at `start`, and is complete.
static void await(struct subject *subject, double start) {
  double made = now();
  if (!take(subject, patience)) fprintf(stderr, "%s: no event within a minute\n", subject->name), exit(1);
  double end = now();
  add_sample(&subject->samples, end - start);
  add_sample(&subject->rest, end - made);
}

static void prepare(struct subject *subject, int link) {
  use_link(&subject->machine, link);
  settle(subject);
  if (subject->kind != 'g') return;
  // Earlier flows are dead or removed.
  subject->answered = 0;
  add_flow(&subject->call, ++subject->flow, 0x11000001);
  while (!subject->answered)
    if (poll(&(struct pollfd){subject->events, POLLIN, 0}, 1, patience) > 0)
      read_messages(&subject->call);
}

// The three changes: prepare, make and time it, undo.

static void change_route(struct subject *subject, int round) {
  if (subject->kind == 'g') return;
  struct machine *machine = &subject->machine;
  double start = now();
  // Not back and forth, because of a batch only the end matters. More gateways would each be new to
  // connd.
  replace_default_route(machine->netlink, machine->link[0], address_on(0, 3 + round % 8));
  await(subject, start);
  settle(subject);
}

static void lose_carrier(struct subject *subject, int round) {
  int link = round % links;
  prepare(subject, link);
  double start = now();
  set_carrier(&subject->machine, link, 0);
  await(subject, start);
  set_carrier(&subject->machine, link, 1);
  settle(subject);
}

static void lose_address(struct subject *subject, int round) {
  struct machine *machine = &subject->machine;
  int link = round % links;
  prepare(subject, link);
  double start = now();
  change_address(machine->netlink, machine->link[link], address_on(link, 2), 0);
  await(subject, start);
  change_address(machine->netlink, machine->link[link], address_on(link, 2), 1);
  settle(subject);
  if (subject->kind == 'g') remove_flow(&subject->call, subject->flow);
}

static void measure(const char *name, int rounds, int pause,
                    void change(struct subject *, int)) {
  for (int i = 0; i < subject_count; i++) {
    subjects[i].samples.count = subjects[i].rest.count = 0;
    use_link(&subjects[i].machine, 0);
    settle(&subjects[i]);
  }
  for (int round = 0; round < rounds; round++) {
    for (int i = 0; i < subject_count; i++) change(&subjects[i], round);
    pause_for(pause);
  }
  for (int i = 0; i < subject_count; i++) {
    struct subject *subject = &subjects[i];
    if (!subject->samples.count) continue;
    print_times(name, subject->name, &subject->samples, &subjects[0].samples);
    if (tells_rest) print_times("  once made", subject->name, &subject->rest, &subjects[0].samples);
  }
}

/// Starts a command that ends with this process; returns a descriptor of its output.
static int start(const char *command) {
  int ends[2];
  if (pipe(ends)) perror("pipe"), exit(1);
  if (fork() == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]), close(ends[1]);
    char line[1024];
    snprintf(line, sizeof(line), "exec %s", command);
    execl("/bin/sh", "sh", "-c", line, NULL);
    _exit(127);
  }
  close(ends[1]);
  return ends[0];
}

static void open_subject(char *argument) {
  struct subject *subject = &subjects[subject_count++];
  open_machine(&subject->machine, strsep(&argument, ":"));
  subject->kind = strsep(&argument, ":")[0];
  switch (subject->kind) {
  case 'h':
    subject->name = "plain HTTP/2";
    subject->call = (struct call){.take = take_event, .context = subject};
    open_call(&subject->call, argument, "Watch");
    send_message(&subject->call, NULL, 0, 1);
    break;
  case 'g':
    subject->name = "a guarded flow";
    subject->call = (struct call){.take = take_answer, .context = subject};
    open_call(&subject->call, argument, "Guard");
    break;
  case 'c':
    subject->name = "connctl watch";
    subject->events = start(argument);
    break;
  default:
    subject->name = subject->kind == 'a' ? "the floor with connd's questions and threads" : "the floor, in C";
    subject->events = connect_to(argument);
  }
  if (is_call(subject)) subject->events = subject->call.descriptor;
  int tells_first = subject->kind == 'h' || subject->kind == 'c';
  while (tells_first && !take(subject, 5000)) continue;
}

int main(int argc, char **argv) {
  if (argc > 1 && !strcmp(argv[1], "--made")) tells_rest = 1, argc--, argv++;
  if (argc < 3) return fprintf(stderr, "usage: latency [--made] ROUNDS SUBJECT...\n"), 64;
  int rounds = atoi(argv[1]);
  if (rounds < 1 || rounds > most_samples || argc - 2 > most_subjects) return 64;
  for (int i = 2; i < argc; i++) open_subject(argv[i]);

  print_times_header("change", "floor");
  measure("default route", rounds, 0, change_route);
  int rare = rounds / 20 < 10 ? 10 : rounds / 20;
  measure("carrier lost", rare, rest, lose_carrier);
  measure("address removed", rare, rest, lose_address);
}
