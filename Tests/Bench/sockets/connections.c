#define _GNU_SOURCE
#include "connections.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../common/machine.h"

enum { port = 7, backlog = 64 };

static void fail(const char *what) {
  perror(what);
  exit(1);
}

static void enter(const char *name, const char *suffix) {
  char path[128];
  snprintf(path, sizeof(path), "/run/netns/%s%s", name, suffix);
  int namespace = open(path, O_RDONLY | O_CLOEXEC);
  if (namespace < 0 || setns(namespace, CLONE_NEWNET)) fail(path);
  close(namespace);
}

static void echo(int listener) {
  int epoll = epoll_create1(EPOLL_CLOEXEC);
  struct epoll_event event = {.events = EPOLLIN, .data.fd = listener};
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event)) fail("epoll_ctl");
  for (;;) {
    struct epoll_event ready[64];
    int count = epoll_wait(epoll, ready, 64, -1);
    for (int i = 0; i < count; i++) {
      int socket = ready[i].data.fd;
      char byte;
      if (socket != listener) {
        if (read(socket, &byte, 1) != 1 || write(socket, &byte, 1) != 1) close(socket);
        continue;
      }
      event.data.fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
      if (event.data.fd < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, event.data.fd, &event)) fail("accept");
    }
  }
}

static struct sockaddr_in router(void) {
  return (struct sockaddr_in){.sin_family = AF_INET,
                              .sin_port = htons(port),
                              .sin_addr.s_addr = htonl(address_on(0, 1))};
}

static void start_server(const char *namespace) {
  int ready[2];
  char byte = 'x';
  if (pipe(ready)) fail("pipe");
  if (fork() == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    enter(namespace, "-far");
    struct sockaddr_in own = router();
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (struct sockaddr *)&own, sizeof(own)) || listen(listener, backlog)) fail("listen");
    if (write(ready[1], &byte, 1) != 1) fail("pipe");
    echo(listener);
  }
  close(ready[1]);
  if (read(ready[0], &byte, 1) != 1) fail("the server");
  close(ready[0]);
}

void open_connections(struct connections *connections, const char *namespace, int count) {
  start_server(namespace);
  enter(namespace, "");
  connections->all = calloc((size_t)count, sizeof(*connections->all));
  if (!connections->all) fail("calloc");
  for (connections->count = 0; connections->count < count; connections->count++) {
    struct end *end = &connections->all[connections->count];
    struct sockaddr_in own, other = router();
    socklen_t size = sizeof(own);
    end->socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(end->socket, (struct sockaddr *)&other, sizeof(other))) fail("connect");
    if (getsockname(end->socket, (struct sockaddr *)&own, &size)) fail("getsockname");
    end->is = (struct connection){.local = ntohl(own.sin_addr.s_addr),
                                  .remote = address_on(0, 1),
                                  .local_port = ntohs(own.sin_port),
                                  .remote_port = port};
  }
}

void probe(const struct end *end, int is_on) {
  int idle = is_on ? 1 : 7200;
  if (setsockopt(end->socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle)) ||
      setsockopt(end->socket, SOL_SOCKET, SO_KEEPALIVE, &is_on, sizeof(is_on)))
    fail("SO_KEEPALIVE");
}

void exchange(struct connections *connections) {
  char byte = 'x';
  for (int i = 0; i < connections->count; i++)
    if (write(connections->all[i].socket, &byte, 1) != 1) fail("a connection takes nothing");
  for (int i = 0; i < connections->count; i++)
    if (read(connections->all[i].socket, &byte, 1) != 1) fail("a connection brings nothing");
}
