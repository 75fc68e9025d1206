// A program with connections that clients/c/connd.h guards. Reads commands, a line each, and prints
// events. See driver.py.
#define CONND_IMPLEMENTATION
#include "../../../clients/c/connd.h"
#include <fcntl.h>

enum { MAX = 4096 };

static int sockets[MAX];
static int numbers[MAX * 4];  // by descriptor

static void report(void *context, const struct connd_event *event) {
  static const char *severities[] = {"", "destroy", "drain", "advise"};
  static const char *reasons[] = {"none",           "sourceAddressLost", "interfaceLost",
                                  "networkChanged", "categoryChanged",   "betterPath",
                                  "policy",         "resumed",           "silent"};
  const char *kind = event->kind == CONND_PATH        ? "path"
                     : event->kind == CONND_REFUSED   ? "refused"
                     : event->kind == CONND_SUSPENDED ? "suspended"
                                                      : severities[event->severity];
  int number = (int)(intptr_t)context;
  if (event->kind == CONND_INVALIDATED) {
    printf("%s %d %s\n", kind, number, reasons[event->reason]);
  } else {
    printf("%s %d\n", kind, number);
  }
}

static int dial(const char *address, int port) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  inet_pton(AF_INET, address, &to.sin_addr);
  if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0) return fd;
  printf("failed %s\n", strerror(errno));
  close(fd);
  return -1;
}

static void guard(int number, int flags) {
  if (!getenv("KEEP_TIMEOUTS")) flags |= CONND_SHORTEN_OUTAGES;
  if (connd_guard_fd(sockets[number], flags, report, (void *)(intptr_t)number) != 0)
    printf("unguarded %d\n", number);
}

static void add(int number, const char *address, int port, int is_guarded) {
  int fd = dial(address, port);
  if (fd < 0) return;
  sockets[number] = fd;
  numbers[fd] = number;
  printf("open %d %d\n", number, fd);
  if (is_guarded) guard(number, CONND_NEW);
}

// Reads a socket, and closes it at its end.
static void read_socket(int fd) {
  char bytes[4096];
  int number = numbers[fd];
  ssize_t count = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
  if (count > 0) {
    printf("echoed %d\n", number);
  } else if (count == 0 || errno != EAGAIN) {
    printf("ended %d %s\n", number, count == 0 ? "EOF" : errno == ECONNRESET ? "reset" : strerror(errno));
    connd_release_fd(fd);
    close(fd);
    sockets[number] = -1;
  }
}

static void run(char *line) {
  char command[16], address[64] = "";
  int number = 0, port = 0;
  if (sscanf(line, "%15s %d %63s %d", command, &number, address, &port) < 1) return;
  if (strcmp(command, "connect") == 0) {
    add(number, address, port, 1);
  } else if (strcmp(command, "open") == 0) {
    add(number, address, port, 0);
  } else if (strcmp(command, "guard") == 0) {
    guard(number, 0);
  } else if (strcmp(command, "echo") == 0) {
    if (write(sockets[number], "x", 1) != 1) printf("failed %d\n", number);
  } else if (strcmp(command, "close") == 0) {
    connd_release_fd(sockets[number]);
    close(sockets[number]);
    sockets[number] = -1;
    printf("closed %d\n", number);
  } else if (strcmp(command, "reuse") == 0) {
    // Forgets connd_release_fd. The new socket, which is not guarded, gets the same descriptor.
    close(sockets[number]);
    add(number, address, port, 0);
  } else if (strcmp(command, "fork") == 0) {
    int input[2];
    if (pipe2(input, O_CLOEXEC) != 0 || fork() != 0) return;
    // The child guards a connection of its own, and ends with its parent.
    dup2(input[0], 0);
    close(input[1]);
    for (int i = 0; i < MAX; i++) sockets[i] = -1;
    add(number, address, port, 1);
  } else if (strcmp(command, "status") == 0) {
    struct connd_status status;
    static const char *categories[] = {"unknown", "none", "wifi", "cellular", "wired", "other"};
    if (connd_get_status(&status, number ? number : 10000) == 0) {
      printf("status %s %s\n", categories[status.category % 6], status.interface);
    } else {
      printf("absent\n");
    }
  }
}

int main(void) {
  static char input[65536];
  static struct pollfd polled[MAX + 1];
  size_t count = 0;
  setvbuf(stdout, NULL, _IOLBF, 0);
  memset(sockets, -1, sizeof sockets);
  printf("ready\n");
  for (;;) {
    nfds_t size = 1;
    polled[0] = (struct pollfd){0, POLLIN, 0};
    for (int i = 0; i < MAX; i++)
      if (sockets[i] >= 0) polled[size++] = (struct pollfd){sockets[i], POLLIN, 0};
    if (poll(polled, size, -1) < 0) continue;
    for (nfds_t i = 1; i < size; i++)
      if (polled[i].revents) read_socket(polled[i].fd);
    if (!polled[0].revents) continue;
    ssize_t part = read(0, input + count, sizeof input - count - 1);
    if (part <= 0) return 0;
    count += (size_t)part;
    input[count] = 0;
    char *start = input, *end;
    for (; (end = strchr(start, '\n')); start = end + 1) {
      *end = 0;
      run(start);
    }
    count -= (size_t)(start - input);
    memmove(input, start, count);
  }
}
