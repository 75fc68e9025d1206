#include "honest.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../../Bench/common/flows.h"
#include "../../Bench/common/http2.h"
#include "../../Bench/common/machine.h"
#include "../../Bench/common/netlink.h"
#include "../../Bench/common/samples.h"

enum { quiet = 20, most_late = 30000 };

static struct machine machine, other_machine;
static const char *socket_path;
static struct call subscription, guard;

enum { person = 1000 };

/// Opens a call as its own user, because root has reserves that attackers cannot take.
static void open_as_person(struct call *call, const char *method) {
  if (seteuid(person)) perror("seteuid"), exit(1);
  open_call(call, socket_path, method);
  if (seteuid(0)) perror("seteuid"), exit(1);
}

static void count(void *context, const uint8_t *message, size_t length) {
  (void)message, (void)length;
  ++*(int *)context;
}

/// Whether a message comes within this many milliseconds.
static int take(struct call *call, int timeout) {
  int arrived = 0;
  for (call->context = &arrived; !arrived; read_messages(call))
    if (poll(&(struct pollfd){call->descriptor, POLLIN, 0}, 1, timeout) <= 0) return 0;
  return 1;
}

static void await(struct call *call) {
  if (!take(call, most_late)) fprintf(stderr, "connd has sent no message within %d s\n", most_late / 1000), exit(1);
}

void begin_honestly(const char *namespace, const char *socket) {
  char other[128];
  snprintf(other, sizeof(other), "%s-other", namespace);
  open_machine(&machine, namespace);
  open_machine(&other_machine, other);
  // An earlier run may have left either gateway. Each replacement must be a change.
  replace_default_route(machine.netlink, machine.link[0], address_on(0, 3));
  replace_default_route(other_machine.netlink, other_machine.link[0], address_on(0, 3));
  socket_path = socket;
  subscription = (struct call){.take = count};
  open_as_person(&subscription, "Watch");
  guard = (struct call){.take = count};
  open_as_person(&guard, "Guard");
  send_message(&subscription, NULL, 0, 1);
}

double hear_of_change(void) {
  static int gateway;
  while (take(&subscription, quiet)) continue;
  // The other connd publishes the same to its subscribers.
  replace_default_route(other_machine.netlink, other_machine.link[0], address_on(0, 3 + (gateway ^ 1)));
  double start = now();
  replace_default_route(machine.netlink, machine.link[0], address_on(0, 3 + (gateway ^= 1)));
  await(&subscription);
  return now() - start;
}

static void open_question(struct call *call) {
  *call = (struct call){.take = count, .is_unary = 1};
  open_as_person(call, "GetPath");
}

static void ask(struct call *call) {
  static const char request[] = "\012\013203.0.113.9"; // GetPathRequest.destination
  send_message(call, request, sizeof(request) - 1, 1);
  await(call);
  close_call(call);
}

double ask_for_path(void) {
  struct call call;
  open_question(&call);
  await_greeting(&call);
  double start = now();
  ask(&call);
  return now() - start;
}

double connect_and_ask(void) {
  struct call call;
  double start = now();
  open_question(&call);
  ask(&call);
  return now() - start;
}

double register_flow(void) {
  static uint64_t id;
  while (take(&guard, 0)) continue;
  double start = now();
  add_flow(&guard, ++id, address_on(0, 9));
  await(&guard);
  double time = now() - start;
  remove_flow(&guard, id);
  return time;
}
