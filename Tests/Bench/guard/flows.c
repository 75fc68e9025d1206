#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "../common/flows.h"
#include "../common/netlink.h"
#include "../common/samples.h"
#include "guard.h"

enum { flows = 10000, bystander = 4 };

/// An address in the subnet of v5, which nothing happens to.
static uint32_t remote(int flow) { return 0x0a050000u + 256 + (uint32_t)flow; }

static struct samples evaluation, lookups, without, with;

static void count_message(void *context, const uint8_t *message, size_t length) {
  (void)message, (void)length;
  ++*(int *)context;
}

static void await_messages(struct call *call, int *arrived, int count) {
  while (*arrived < count) {
    if (poll(&(struct pollfd){call->descriptor, POLLIN, 0}, 1, patience) <= 0)
      fprintf(stderr, "connd has sent nothing\n"), exit(1);
    read_messages(call);
  }
}

/// Measures one evaluation of all flows, when an unrelated link changes, and the same number of
/// bare lookups.
static void evaluate(struct daemon *daemon, int round) {
  struct machine *machine = &daemon->machine;
  double before = monitor_worked(daemon->process);
  set_mtu(machine->netlink, machine->link[bystander], 1400 + round % 2);
  await_idle(daemon->process);
  add_sample(&evaluation, monitor_worked(daemon->process) - before);

  before = worked();
  for (int i = 0; i < flows; i++) look_up(machine->netlink, remote(i));
  add_sample(&lookups, worked() - before);
}

/// Measures when a subscriber knows that the default path's carrier is lost.
static void lose_carrier(struct daemon *daemon, struct call *watch, int *arrived, int link,
                         struct samples *samples) {
  use_link(&daemon->machine, link);
  await_idle(daemon->process);
  while (poll(&(struct pollfd){watch->descriptor, POLLIN, 0}, 1, 20) > 0) read_messages(watch);
  *arrived = 0;
  double start = now();
  set_carrier(&daemon->machine, link, 0);
  await_messages(watch, arrived, 1);
  add_sample(samples, now() - start);
  set_carrier(&daemon->machine, link, 1);
  await_idle(daemon->process);
}

static void open_watch(struct call *watch, struct daemon *daemon, int *arrived) {
  *watch = (struct call){.take = count_message, .context = arrived};
  open_call(watch, daemon->socket, "Watch");
  send_message(watch, NULL, 0, 1);
  await_messages(watch, arrived, 1);
}

void measure_flows(struct daemon *guarding, struct daemon *idle, int evaluations, int losses) {
  int answers = 0, arrived[2] = {0, 0};
  struct call guard = {.take = count_message, .context = &answers}, watches[2];
  use_link(&guarding->machine, 0);
  open_call(&guard, guarding->socket, "Guard");
  // The first flow has one-time costs.
  add_flow(&guard, 0, remote(flows));
  await_messages(&guard, &answers, 1);
  await_idle(guarding->process);

  long memory = anonymous_memory(guarding->process);
  double start = now();
  for (int i = 0; i < flows; i++) add_flow(&guard, (uint64_t)i + 1, remote(i));
  await_messages(&guard, &answers, flows + 1);
  double taken = now() - start;
  await_idle(guarding->process);
  memory = anonymous_memory(guarding->process) - memory;

  for (int i = 0; i < evaluations; i++) evaluate(guarding, i);
  double look = percentile(&evaluation, .5), bare = percentile(&lookups, .5);
  printf("| connd with %d guarded flows of one client | |\n|---|---|\n", flows);
  printf("| anonymous memory per flow | %.0f bytes |\n", (double)memory * 1024 / flows);
  printf("| time until all flows are guarded and their paths reported | %.0f ms |\n", taken / 1e3);
  printf("| one evaluation of all flows, p50 of %d, processor time of the thread | %.1f ms |\n", evaluation.count,
         look / 1e3);
  printf("| the same number of bare lookups in C, one by one | %.1f ms |\n", bare / 1e3);
  printf("| evaluation ÷ bare lookups | %.2f × |\n\n", look / bare);

  open_watch(&watches[0], idle, &arrived[0]);
  open_watch(&watches[1], guarding, &arrived[1]);
  for (int round = 0; round < losses; round++) {
    int link = round % links;
    lose_carrier(idle, &watches[0], &arrived[0], link, &without);
    lose_carrier(guarding, &watches[1], &arrived[1], link, &with);
    pause_for(rest);
  }
  print_times_header("change", "none");
  print_times("carrier lost", "with no flows", &without, &without);
  print_times("carrier lost", "with 10,000", &with, &without);

  // They were evaluated many times, without a report.
  while (poll(&(struct pollfd){guard.descriptor, POLLIN, 0}, 1, 20) > 0) read_messages(&guard);
  if (answers != flows + 1) fprintf(stderr, "connd has reported a flow that has not changed\n"), exit(1);
  close_call(&guard), close_call(&watches[0]), close_call(&watches[1]);
  await_idle(guarding->process);
}
