#define _GNU_SOURCE
#include "subject.h"

#include <err.h>
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
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

// Starts a program in the testbed, with standard output as given; what it complains of is kept beside the socket.
static pid_t start(const struct subject *subject, const struct programs *programs, int output, char *const *arguments) {
  char log[256];
  snprintf(log, sizeof log, "%s/log", programs->directory);
  pid_t process = fork();
  if (process < 0) err(1, "fork");
  if (process > 0) return process;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  enter(&subject->bed);
  int errors = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  dup2(errors, STDERR_FILENO);
  dup2(output >= 0 ? output : errors, STDOUT_FILENO);
  execv(arguments[0], arguments);
  err(127, "%s", arguments[0]);
}

static void socket_path(const struct subject *subject, const struct programs *programs, char *path, size_t size) {
  snprintf(path, size, "%s/%d.sock", programs->directory, subject->bed.namespace);
}

// Connects as soon as the daemon listens.
static int dial(const struct subject *subject, const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
  for (int attempt = 0; attempt < 1000; attempt++) {
    int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (!connect(descriptor, (struct sockaddr *)&address, sizeof address)) return descriptor;
    close(descriptor);
    if (waitpid(subject->daemon, NULL, WNOHANG) == subject->daemon) break;
    usleep(10000);
  }
  errx(1, "%s: its daemon does not listen", subject->name);
}

static void await_first_event(struct subject *subject) {
  uint64_t arrival;
  if (!await_event(subject, 10000, &arrival)) errx(1, "%s: no first event", subject->name);
  settle(subject, 200);
}

void start_floor(struct subject *subject, const struct programs *programs) {
  char path[128];
  socket_path(subject, programs, path, sizeof path);
  subject->daemon = start(subject, programs, -1, (char *[]){(char *)programs->floor, path, NULL});
  subject->events = dial(subject, path);
}

static void start_connd(struct subject *subject, const struct programs *programs, char *path) {
  char *const arguments[] = {
      (char *)programs->connd, "--config", "/dev/null", "--socket", path, "--log-level", "error", NULL};
  subject->daemon = start(subject, programs, -1, arguments);
}

void start_connd_with_http2(struct subject *subject, const struct programs *programs) {
  char path[128];
  socket_path(subject, programs, path, sizeof path);
  start_connd(subject, programs, path);
  subject->speaks_http2 = true;
  subject->events = dial(subject, path);
  http2_watch(&subject->http2, subject->events);
  await_first_event(subject);
}

void start_connd_with_connctl(struct subject *subject, const struct programs *programs) {
  char path[128];
  socket_path(subject, programs, path, sizeof path);
  start_connd(subject, programs, path);
  close(dial(subject, path));
  int ends[2];
  if (pipe2(ends, O_CLOEXEC)) err(1, "pipe");
  char *const arguments[] = {
      (char *)programs->connctl, "--socket", path, "watch", "--json", NULL};
  subject->client = start(subject, programs, ends[1], arguments);
  close(ends[1]);
  subject->events = ends[0];
  await_first_event(subject);
}

void stop(struct subject *subject) {
  close(subject->events);
  pid_t processes[] = {subject->client, subject->daemon};
  for (int i = 0; i < 2; i++) {
    if (!processes[i]) continue;
    kill(processes[i], SIGTERM);
    waitpid(processes[i], NULL, 0);
  }
}

int await_event(struct subject *subject, int milliseconds, uint64_t *arrival) {
  static uint8_t bytes[1 << 16];
  uint64_t deadline = now() + (uint64_t)milliseconds * 1000000u;
  for (;;) {
    struct pollfd wait = {.fd = subject->events, .events = POLLIN};
    uint64_t time = now();
    int left = time < deadline ? (int)((deadline - time + 999999u) / 1000000u) : 0;
    if (poll(&wait, 1, left) <= 0) {
      if (left == 0) return 0;
      continue;
    }
    ssize_t count = read(subject->events, bytes, sizeof bytes);
    *arrival = now();
    if (count <= 0) errx(1, "%s: its stream has ended", subject->name);
    int events = 0;
    if (subject->speaks_http2)
      events = http2_receive(&subject->http2, bytes, (size_t)count);
    else
      for (ssize_t i = 0; i < count; i++) events += bytes[i] == '\n';
    if (events > 0) return events;
  }
}

void settle(struct subject *subject, int milliseconds) {
  uint64_t arrival;
  while (await_event(subject, milliseconds, &arrival)) continue;
}
