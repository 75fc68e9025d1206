#include "subscribers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "../../common/samples.h"
#include "../../common/socket.h"

enum { longest_start = 120000, longest_drain = 20000 };

static void fail(const char *what) {
  perror(what);
  exit(1);
}

static void take_message(void *context, const uint8_t *message, size_t length) {
  (void)message, (void)length;
  ((struct subscriber *)context)->arrived++;
}

static void read_http2(struct subscriber *subscriber) { read_messages(&subscriber->call); }

static void open_http2(struct subscriber *subscriber, char *socket) {
  subscriber->call = (struct call){.take = take_message, .context = subscriber};
  open_call(&subscriber->call, socket, "Watch");
  send_message(&subscriber->call, NULL, 0, 1);
  subscriber->descriptor = subscriber->call.descriptor;
}

static int take_signal(sd_bus_message *message, void *context, sd_bus_error *error) {
  (void)message, (void)error;
  ((struct subscriber *)context)->arrived++;
  return 0;
}

static void read_bus(struct subscriber *subscriber) {
  int result;
  while ((result = sd_bus_process(subscriber->bus, NULL)) > 0) continue;
  if (result < 0) fprintf(stderr, "the bus has closed the connection\n"), exit(1);
}

/// Returns when the bus has accepted the match.
static void open_bus(struct subscriber *subscriber, char *argument) {
  char copy[256], match[256], *address = copy;
  snprintf(copy, sizeof(copy), "%s", argument);
  const char *sender = strsep(&address, " ");
  snprintf(match, sizeof(match), "type='signal',sender='%s'", sender);
  sd_bus *bus = NULL;
  if (sd_bus_new(&bus) < 0 || sd_bus_set_address(bus, address) < 0 ||
      sd_bus_set_bus_client(bus, 1) < 0 || sd_bus_start(bus) < 0 ||
      sd_bus_add_match(bus, NULL, match, take_signal, subscriber) < 0)
    fail(argument);
  subscriber->bus = bus;
  read_bus(subscriber);
  sd_bus_flush(bus);
  subscriber->descriptor = sd_bus_get_fd(bus);
}

static void read_lines(struct subscriber *subscriber) {
  char buffer[1 << 16];
  if (read(subscriber->descriptor, buffer, sizeof(buffer)) <= 0)
    fprintf(stderr, "a subscriber has ended\n"), exit(1);
  subscriber->arrived++;
}

static void open_socket(struct subscriber *subscriber, char *path) {
  subscriber->descriptor = connect_to(path);
}

/// Starts a command that ends with this process.
static void open_command(struct subscriber *subscriber, char *command) {
  int ends[2];
  if (pipe(ends)) fail("pipe");
  pid_t process = fork();
  if (process < 0) fail("fork");
  if (process == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]), close(ends[1]);
    char line[1024];
    snprintf(line, sizeof(line), "exec %s", command);
    execl("/bin/sh", "sh", "-c", line, NULL);
    _exit(127);
  }
  close(ends[1]);
  subscriber->descriptor = ends[0];
}

static const struct kind {
  const char *name;
  void (*open)(struct subscriber *, char *);
  void (*read)(struct subscriber *);
  /// Whether a subscriber receives something when it is ready, or says nothing of it.
  int is_greeted, is_silent;
} kinds[] = {
    {"socket", open_socket, read_lines, 0, 0},   {"http2", open_http2, read_http2, 1, 0},
    {"bus", open_bus, read_bus, 0, 0},           {"printer", open_command, read_lines, 1, 0},
    {"command", open_command, read_lines, 0, 1},
};

void open_subscribers(struct subscribers *subscribers, int count, const char *name, char *argument) {
  const struct kind *kind = NULL;
  for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
    if (!strcmp(kinds[i].name, name)) kind = &kinds[i];
  if (!kind) fprintf(stderr, "unknown kind of subscriber: %s\n", name), exit(64);
  *subscribers = (struct subscribers){
      count, epoll_create1(EPOLL_CLOEXEC), calloc((size_t)count, sizeof(struct subscriber)), kind->read};
  if (subscribers->epoll < 0 || !subscribers->all) fail("subscribers");
  for (int i = 0; i < count; i++) {
    struct subscriber *subscriber = &subscribers->all[i];
    kind->open(subscriber, argument);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = subscriber};
    if (epoll_ctl(subscribers->epoll, EPOLL_CTL_ADD, subscriber->descriptor, &event)) fail("epoll");
  }
  if (kind->is_greeted && !await_all(subscribers, longest_start))
    fprintf(stderr, "not all subscribers have started: %s\n", argument), exit(1);
  if (kind->is_silent) pause_for(2000 + 10 * count);
}

/// Reads what has arrived within a time; returns the number of ready descriptors.
static int read_ready(struct subscribers *subscribers, int timeout) {
  struct epoll_event events[64];
  int count = epoll_wait(subscribers->epoll, events, 64, timeout);
  for (int i = 0; i < count; i++) subscribers->read(events[i].data.ptr);
  return count;
}

int await_all(struct subscribers *subscribers, int timeout) {
  double end = now() + timeout * 1e3;
  for (int i = 0; i < subscribers->count; i++) subscribers->all[i].arrived = 0;
  // Those before `next` have received an event.
  for (int next = 0; next < subscribers->count;) {
    double left = (end - now()) / 1e3;
    if (left <= 0) return 0;
    read_ready(subscribers, (int)left + 1);
    while (next < subscribers->count && subscribers->all[next].arrived) next++;
  }
  return 1;
}

void drain(struct subscribers *subscribers, int quiet) {
  double end = now() + longest_drain * 1e3;
  while (now() < end && read_ready(subscribers, quiet) > 0) continue;
}
