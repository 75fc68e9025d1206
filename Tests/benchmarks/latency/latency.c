// latency ROUNDS NETNS:floor:SOCKET NETNS:http2:SOCKET NETNS:connctl:"COMMAND": how long a change of the kernel takes to
// a subscriber. Each subject has a network namespace of its own with links v0 to v4 (10.N.0.2/24, the other end pN), so
// that none of them works while another is measured; and they take turns, so that noise hits them alike.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "http2.h"
#include "netlink.h"

// A link that is lost three times within ten seconds flaps, and its gains are held back: so many links take turns.
enum { links = 5, most_rounds = 10000, most_subjects = 3 };

struct subject {
  char *name, kind;
  int netlink, events;
  int link[links], peer[links];
  double samples[most_rounds];
  int count;
};

static struct subject subjects[most_subjects];
static int subject_count;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static void pause_for(int milliseconds) { poll(NULL, 0, milliseconds); }

/// The number of events that have arrived; waits for the first.
static int take(struct subject *subject, int timeout) {
  for (;;) {
    struct pollfd wait = {subject->events, POLLIN, 0};
    if (poll(&wait, 1, timeout) <= 0) return 0;
    if (subject->kind == 'h') {
      int messages = read_messages(subject->events);
      if (messages) return messages;
      continue;
    }
    char buffer[1 << 16];
    if (read(subject->events, buffer, sizeof(buffer)) <= 0)
      fprintf(stderr, "%s went away\n", subject->name), exit(1);
    return 1;
  }
}

static void settle(struct subject *subject) {
  while (take(subject, 20)) continue;
}

static void await(struct subject *subject, double start) {
  if (!take(subject, 5000)) fprintf(stderr, "%s: no event in 5 s\n", subject->name), exit(1);
  subject->samples[subject->count++] = now() - start;
}

static uint32_t address(int link, int host) { return 0x0a000000u | (uint32_t)link << 16 | (uint32_t)host; }

static void use_link(struct subject *subject, int link) {
  replace_default_route(subject->netlink, subject->link[link], address(link, 1));
  settle(subject);
}

// The three changes: prepare, make and time it, undo.

static void change_route(struct subject *subject, int round) {
  double start = now();
  replace_default_route(subject->netlink, subject->link[0], address(0, 3 + round % 2));
  await(subject, start);
  settle(subject);
}

static void lose_carrier(struct subject *subject, int round) {
  int link = round % links;
  use_link(subject, link);
  double start = now();
  set_link(subject->netlink, subject->peer[link], 0);
  await(subject, start);
  set_link(subject->netlink, subject->peer[link], 1);
  settle(subject);
}

static void lose_address(struct subject *subject, int round) {
  int link = round % links;
  use_link(subject, link);
  double start = now();
  change_address(subject->netlink, subject->link[link], address(link, 2), 0);
  await(subject, start);
  change_address(subject->netlink, subject->link[link], address(link, 2), 1);
  settle(subject);
}

static int compare(const void *a, const void *b) {
  double difference = *(const double *)a - *(const double *)b;
  return difference < 0 ? -1 : difference > 0;
}

static double percentile(struct subject *subject, double part) {
  return subject->samples[(int)(part * (subject->count - 1) + 0.5)];
}

static void measure(const char *name, int rounds, int pause,
                    void change(struct subject *, int)) {
  for (int i = 0; i < subject_count; i++) subjects[i].count = 0, use_link(&subjects[i], 0);
  for (int round = 0; round < rounds; round++) {
    for (int i = 0; i < subject_count; i++) change(&subjects[i], round);
    pause_for(pause);
  }
  for (int i = 0; i < subject_count; i++) {
    struct subject *subject = &subjects[i], *floor = &subjects[0];
    qsort(subject->samples, (size_t)subject->count, sizeof(double), compare);
    double p50 = percentile(subject, .5), p99 = percentile(subject, .99);
    printf("| %-15s | %-15s | %5d | %7.0f µs | %7.0f µs | %5.1f × | %5.1f × |\n", name,
           subject->name, subject->count, p50, p99, p50 / percentile(floor, .5),
           p99 / percentile(floor, .99));
  }
  fflush(stdout);
}

/// Starts a command, which ends with this process; what it prints can be read from the result.
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
  char *namespace = strsep(&argument, ":");
  subject->name = strsep(&argument, ":");
  subject->kind = subject->name[0];
  subject->netlink = open_netlink(namespace);
  for (int i = 0; i < links; i++) {
    char name[8];
    snprintf(name, sizeof(name), "v%d", i);
    subject->link[i] = link_index(subject->netlink, name);
    snprintf(name, sizeof(name), "p%d", i);
    subject->peer[i] = link_index(subject->netlink, name);
  }
  if (subject->kind == 'h') {
    subject->events = watch_by_http2(argument);
    subject->name = "plain HTTP/2";
  } else if (subject->kind == 'c') {
    subject->events = start(argument);
    subject->name = "connctl watch";
  } else {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strncpy(address.sun_path, argument, sizeof(address.sun_path) - 1);
    subject->events = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(subject->events, (struct sockaddr *)&address, sizeof(address)))
      perror(argument), exit(1);
    subject->name = "the floor, in C";
  }
  while (subject->kind != 'f' && !take(subject, 5000)) continue;
}

int main(int argc, char **argv) {
  if (argc < 3) return fprintf(stderr, "usage: latency ROUNDS SUBJECT...\n"), 64;
  int rounds = atoi(argv[1]);
  if (rounds < 1 || rounds > most_rounds || argc - 2 > most_subjects) return 64;
  for (int i = 2; i < argc; i++) open_subject(argv[i]);

  printf("| change          | to              | times |        p50 |        p99 | p50 ÷ floor | p99 ÷ floor |\n");
  printf("|-----------------|-----------------|-------|------------|------------|---------|---------|\n");
  measure("default route", rounds, 0, change_route);
  // Each link rests so long that it neither flaps for connd nor is held back by the kernel's linkwatch.
  int rare = rounds / 20 < 10 ? 10 : rounds / 20;
  measure("carrier lost", rare, 2100, lose_carrier);
  measure("address removed", rare, 2100, lose_address);
}
