#define _GNU_SOURCE
#include "measure.h"

#include "changes.h"

#include <err.h>
#include <stdlib.h>
#include <unistd.h>

enum {
  patience = 1000,  // milliseconds until an event counts as missed
  // From the third loss on one link within ten seconds connd holds its gains back (design rule T1), and the kernel
  // delays the carrier messages of a link that has had one within a second. So losses go round the links, and a round
  // takes so long that each link is lost twice in ten seconds at most.
  loss_period = 85,
};

// The instant before the change, and the event that tells it. The acknowledgement is read when the clock has stopped.
static void sample(struct subject *subject, struct mnl_socket *kernel, struct nlmsghdr *message, struct result *result) {
  uint64_t end, begin = now();
  send_request(kernel, message);
  int events = await_event(subject, patience, &end);
  await_acknowledgement(kernel);
  if (!events) {
    result->missed++;
    return;
  }
  result->latency[result->samples++] = end - begin;
  result->more += events - 1;
}

// The default route moves between two links that both work.
static void change_route(struct subject *subject, int round, struct result *result) {
  char buffer[longest_message];
  sample(subject, subject->bed.near, default_route(buffer, round & 1), result);
  settle(subject, 2);
}

// The other end of the default route's link goes down; then the default route moves to the next link. The carrier comes
// back when half of the other links have had their turn.
static void lose_carrier(struct subject *subject, int round, struct result *result) {
  char buffer[longest_message];
  int link = round % links;
  request(subject->bed.far, link_up(buffer, first_peer + (link + links / 2) % links, true));
  settle(subject, 3);
  sample(subject, subject->bed.far, link_up(buffer, first_peer + link, false), result);
  settle(subject, 3);
  request(subject->bed.near, default_route(buffer, (link + 1) % links));
  settle(subject, 3);
}

// The only address of the default route's link goes, and the kernel removes the route with it.
static void remove_address(struct subject *subject, int round, struct result *result) {
  char buffer[longest_message];
  int link = round % links;
  sample(subject, subject->bed.near, address(buffer, link, false), result);
  settle(subject, 3);
  request(subject->bed.near, default_route(buffer, (link + 1) % links));
  request(subject->bed.near, address(buffer, link, true));
  settle(subject, 3);
}

static void prepare(struct subject *subject, enum change change) {
  char buffer[longest_message];
  for (int link = 0; link < links; link++)
    request(subject->bed.far, link_up(buffer, first_peer + link, true));
  request(subject->bed.near, default_route(buffer, change == route_change ? 1 : 0));
  settle(subject, 100);
}

static int ascending(const void *one, const void *other) {
  uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
  return (a > b) - (a < b);
}

void measure(struct subject *subjects, int count, enum change change, int rounds, struct result *results) {
  for (int i = 0; i < count; i++) {
    results[i] = (struct result){.latency = calloc((size_t)rounds, sizeof(uint64_t))};
    if (!results[i].latency) err(1, "calloc");
    prepare(&subjects[i], change);
  }
  for (int round = 0; round < rounds; round++) {
    uint64_t due = now() + loss_period * 1000000u;
    for (int i = 0; i < count; i++) {
      switch (change) {
      case route_change: change_route(&subjects[i], round, &results[i]); break;
      case carrier_loss: lose_carrier(&subjects[i], round, &results[i]); break;
      case address_removal: remove_address(&subjects[i], round, &results[i]); break;
      }
    }
    uint64_t time = now();
    if (change != route_change && time < due) usleep((useconds_t)((due - time) / 1000));
  }
  for (int i = 0; i < count; i++)
    qsort(results[i].latency, (size_t)results[i].samples, sizeof(uint64_t), ascending);
}

uint64_t percentile(const struct result *result, int percent) {
  if (result->samples == 0) return 0;
  return result->latency[(result->samples - 1) * percent / 100];
}
