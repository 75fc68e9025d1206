// connd.h: ends the dead TCP connections of a program. One file for Linux, C11 and libc. (Before
// glibc 2.34, link with -pthread.) C++ may use the functions.
//
// One C file of the program defines CONND_IMPLEMENTATION and includes this file before any other:
//
//   #define CONND_IMPLEMENTATION
//   #include "connd.h"
//
//   connect(fd, …);
//   connd_guard_fd(fd, CONND_NEW, NULL, NULL);
//   …
//   connd_release_fd(fd);
//   close(fd);
//
// When connd finds the connection dead, reads and writes fail with ECONNRESET or EPIPE, in any
// thread that waits for them. The program then connects again. If connd is not running, or speaks
// for another network namespace, nothing happens.
//
// Threads: every function may be called from any thread. A thread of this file, which runs from the
// first guarded connection on, talks to connd and blocks all signals. A child made by fork(2)
// guards nothing until it calls connd_guard_fd, and then has a connection to connd of its own.
//
// The protocol is described in connectivity.proto. Numbers such as E4 are rules of docs/rules.md.
#ifndef CONND_H
#define CONND_H
#if defined CONND_IMPLEMENTATION && !defined _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Flags of connd_guard_fd.
enum {
  // The connection was made a moment ago, so it works. If connd rejects three new connections to
  // one destination in a row, new ones to it are not guarded for a while (I11). An older connection
  // may have died before, which is not an error of connd.
  CONND_NEW = 1,
  // Only report. The program itself ends the connection.
  CONND_REPORT_ONLY = 2,
  // TCP retransmits at least every two seconds while connd reports a satisfied path, so that an
  // outage ends soon after the path is back (C11). Only for a peer that reads what it gets: if it
  // stops reading for 15 minutes, the kernel ends the connection.
  CONND_SHORTEN_OUTAGES = 4,
};

enum connd_kind {
  // connd guards the connection. `status` says whether its path carries traffic.
  CONND_PATH = 1,
  // The connection is dead or in doubt, for a `reason` and with a `severity`.
  CONND_INVALIDATED,
  // connd refused the connection, and does not guard it any more.
  CONND_REFUSED,
  // connd wrongly rejected three connections in a row. New ones to this destination are not guarded
  // for five minutes or longer.
  CONND_SUSPENDED,
};

// InvalidationSeverity of connectivity.proto. Only CONND_DESTROY ends a connection.
enum { CONND_DESTROY = 1, CONND_DRAIN, CONND_ADVISE };

struct connd_event {
  int fd;
  enum connd_kind kind;
  int reason;    // InvalidationReason of connectivity.proto (1 to 8), or 0
  int severity;  // CONND_DESTROY, CONND_DRAIN, CONND_ADVISE, or 0
  int status;    // PathStatus of connectivity.proto (1: satisfied), or 0 if not reported
};

// Receives events in connd's thread. It must return soon, and must not wait for a lock that a
// thread holds while it calls a function of this file. It may call these functions. A program with
// an event loop writes to an eventfd(2) here.
typedef void connd_callback(void *context, const struct connd_event *event);

// Guards a connected TCP socket until it is destroyed or released. After a `destroy`, the socket is
// disconnected, but the program still has to close it. Any earlier guard of the same descriptor
// ends.
//
// Returns 0, or -1 with errno:
//   ENOTSUP    the connection needs no guard (loopback), or cannot have one: Multipath TCP, UDP,
//              and sockets that may have an address of another machine (IP_FREEBIND)
//   EAGAIN     connd wrongly rejected connections to this destination (CONND_SUSPENDED)
//   EMFILE     too many connections are guarded
//   others     of getpeername(2), as ENOTCONN, or of pthread_create(3)
int connd_guard_fd(int fd, int flags, connd_callback *callback, void *context);

// Stops guarding. After it returns, the descriptor is not touched. Call it before close(2). If it
// is forgotten, a socket that later has the same descriptor is still not touched, because its
// cookie differs (SO_COOKIE).
void connd_release_fd(int fd);

// The state of the network.
struct connd_status {
  uint64_t generation;
  int category;        // Category of connectivity.proto: 1 none, 2 Wi-Fi, 3 cellular, 4 wired
  int medium;          // Medium of connectivity.proto
  int expensive;       // 1, 0, or -1 if unknown
  int constrained;     // 1 or 0
  char interface[16];  // empty if there is none
  // The inode of connd's network namespace (/proc/self/ns/net). In a process of another namespace,
  // such as a container's, the rest is about another network.
  uint64_t network_namespace;
};

// Returns 0, or -1 with errno: ENOENT or ECONNREFUSED if connd is not running, ETIMEDOUT.
int connd_get_status(struct connd_status *status, int timeout_ms);

#ifdef __cplusplus
}
#endif
#endif

#if defined CONND_IMPLEMENTATION && !defined CONND_IMPLEMENTED
#define CONND_IMPLEMENTED
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

// MARK: Protobuf

struct connd__field {
  uint64_t number, value;  // the value of a varint
  const uint8_t *bytes;    // of a field with a length, or NULL
  size_t count;
};

static int connd__varint(const uint8_t **at, const uint8_t *end, uint64_t *value) {
  *value = 0;
  for (unsigned shift = 0; *at < end && shift < 64; shift += 7) {
    uint8_t byte = *(*at)++;
    *value |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) return 1;
  }
  return 0;
}

// Reads the next field. Returns 0 at the end, and if the message is malformed.
static int connd__next(const uint8_t **at, const uint8_t *end, struct connd__field *field) {
  uint64_t key, length;
  if (!connd__varint(at, end, &key)) return 0;
  *field = (struct connd__field){.number = key >> 3};
  if ((key & 7) == 0) return connd__varint(at, end, &field->value);
  if ((key & 7) == 2) {
    if (!connd__varint(at, end, &length)) return 0;
  } else if ((key & 7) == 1 || (key & 7) == 5) {
    length = (key & 7) == 1 ? 8 : 4;
  } else {
    return 0;
  }
  if (length > (uint64_t)(end - *at)) return 0;
  field->bytes = *at;
  field->count = (size_t)length;
  *at += length;
  return 1;
}

// The first field with this number. An absent field has the number and value 0.
static struct connd__field connd__get(const uint8_t *bytes, size_t count, uint64_t number) {
  struct connd__field field = {0};
  for (const uint8_t *at = bytes, *end = bytes + count; connd__next(&at, end, &field);)
    if (field.number == number) return field;
  return (struct connd__field){0};
}

// A message that is being written. The callers reserve enough room.
struct connd__writer {
  uint8_t bytes[8192];
  size_t count;
};

static void connd__put_varint(struct connd__writer *to, uint64_t value) {
  for (; value > 127; value >>= 7) to->bytes[to->count++] = (uint8_t)(value | 128);
  to->bytes[to->count++] = (uint8_t)value;
}

static void connd__put_number(struct connd__writer *to, unsigned number, uint64_t value) {
  connd__put_varint(to, number << 3);
  connd__put_varint(to, value);
}

static void connd__put_bytes(struct connd__writer *to, unsigned number, const void *bytes,
                             size_t count) {
  connd__put_varint(to, number << 3 | 2);
  connd__put_varint(to, count);
  memcpy(to->bytes + to->count, bytes, count);
  to->count += count;
}

// MARK: HTTP/2

enum { CONND__FRAME = 16384, CONND__MESSAGE = 1 << 20, CONND__WINDOW = 1 << 30 };

// A connection to connd with one call. It skips header blocks, because the end of the call is all
// that matters.
struct connd__call {
  int fd;  // -1 if there is none
  int64_t window, stream_window;
  uint32_t initial_window;
  size_t received;  // bytes that connd's windows do not have back yet
  uint8_t in[9 + CONND__FRAME], out[32768];
  size_t in_count, out_count;
  uint8_t *message;  // an incomplete message with its prefix of five bytes
  size_t message_count, message_room;
};

typedef void connd__receiver(void *context, const uint8_t *message, size_t count);

static void connd__close(struct connd__call *call) {
  if (call->fd >= 0) close(call->fd);
  free(call->message);
  memset(call, 0, sizeof *call);
  call->fd = -1;
}

static int connd__put_frame(struct connd__call *call, int type, int flags, uint32_t stream,
                            const void *bytes, size_t count) {
  if (call->out_count + 9 + count > sizeof call->out) return -1;
  uint8_t *to = call->out + call->out_count;
  uint8_t head[9] = {(uint8_t)(count >> 16), (uint8_t)(count >> 8), (uint8_t)count,
                     (uint8_t)type,          (uint8_t)flags,        0,
                     0,                      0,                     (uint8_t)stream};
  memcpy(to, head, 9);
  if (count) memcpy(to + 9, bytes, count);
  call->out_count += 9 + count;
  return 0;
}

static int connd__put_window(struct connd__call *call, uint32_t stream, uint32_t size) {
  uint32_t bytes = htonl(size);
  return connd__put_frame(call, 8, 0, stream, &bytes, 4);
}

// Sends what is pending. Returns -1 if the connection has failed.
static int connd__flush(struct connd__call *call) {
  ssize_t count = 1;
  while (call->out_count > 0 &&
         (count = send(call->fd, call->out, call->out_count, MSG_NOSIGNAL)) > 0) {
    call->out_count -= (size_t)count;
    memmove(call->out, call->out + count, call->out_count);
  }
  return count < 0 && errno != EAGAIN && errno != EINTR ? -1 : 0;
}

// Queues a message. Returns 0 if it has to wait for room.
static int connd__put_message(struct connd__call *call, const struct connd__writer *message,
                              int is_last) {
  uint8_t bytes[5 + sizeof message->bytes] = {0};
  uint32_t length = htonl((uint32_t)message->count);
  int64_t count = 5 + (int64_t)message->count;
  if (count > call->window || count > call->stream_window) return 0;
  memcpy(bytes + 1, &length, 4);
  memcpy(bytes + 5, message->bytes, message->count);
  // Half of the room is for answers to connd's frames.
  if (call->out_count + (size_t)count > sizeof call->out / 2) return 0;
  connd__put_frame(call, 0, is_last, 1, bytes, (size_t)count);
  call->window -= count;
  call->stream_window -= count;
  return 1;
}

static const char *connd__path(int *is_environment) {
  static __thread char own[108];
  const char *system = "/run/connd/connd.sock", *path = getenv("CONND_SOCKET");
  *is_environment = path && *path;
  if (*is_environment) return path;
  const char *directory = getenv("XDG_RUNTIME_DIR");
  if (geteuid() == 0 || access(system, F_OK) == 0 || !directory || !*directory) return system;
  snprintf(own, sizeof own, "%s/connd.sock", directory);
  *is_environment = 1;
  return own;
}

// Whether root, this user, or the owner of the system's directory listens. Another user's answers
// could end connections.
static int connd__is_trusted(int fd, const char *path, int is_environment) {
  struct ucred peer;
  socklen_t size = sizeof peer;
  struct stat status;
  char directory[108];
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return 0;
  if (peer.uid == 0 || peer.uid == geteuid()) return 1;
  snprintf(directory, sizeof directory, "%s", path);
  char *slash = strrchr(directory, '/');
  if (is_environment || !slash) return 0;
  *slash = 0;
  return stat(directory, &status) == 0 && status.st_uid == peer.uid;
}

// Connects to connd, and begins a call.
static int connd__open(struct connd__call *call, const char *method) {
  static const uint8_t preface[] =
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
      "\0\0\014\4\0\0\0\0\0"  // SETTINGS: no push, a window of 1 GiB
      "\0\2\0\0\0\0\0\4\x40\0\0\0";
  struct sockaddr_un address;
  uint8_t headers[160];
  int is_environment, error;
  const char *path = connd__path(&is_environment);
  memset(call, 0, sizeof *call);
  call->fd = -1;
  memset(&address, 0, sizeof address);
  address.sun_family = AF_UNIX;
  if (strlen(path) >= sizeof address.sun_path) return errno = ENAMETOOLONG, -1;
  memcpy(address.sun_path, path, strlen(path));
  if ((call->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) < 0) return -1;
  if (connect(call->fd, (struct sockaddr *)&address, sizeof address) != 0) {
    error = errno;
    connd__close(call);
    return errno = error, -1;
  }
  if (!connd__is_trusted(call->fd, path, is_environment)) {
    connd__close(call);
    return errno = EACCES, -1;
  }
  call->window = call->stream_window = call->initial_window = 65535;
  memcpy(call->out, preface, call->out_count = sizeof preface - 1);
  connd__put_window(call, 0, CONND__WINDOW - 65535);
  // :method POST, :scheme http, :path, :authority, content-type, te (RFC 7541, appendix A)
  size_t count = (size_t)snprintf(
      (char *)headers, sizeof headers,
      "\x83\x86\x04%c/connectivity.v1.Connectivity/%s\x01\x09localhost\x0f\x10\x10"
      "application/grpc",
      (int)(30 + strlen(method)), method);
  memcpy(headers + count, "\0\2te\10trailers", 13);
  connd__put_frame(call, 1, 4, 1, headers, count + 13);
  return 0;
}

// Reads the content of a DATA frame, which may end a message and begin others.
static int connd__data(struct connd__call *call, const uint8_t *bytes, size_t count,
                       connd__receiver *receive, void *context) {
  if (count == 0) return 0;
  if (call->message_count + count > call->message_room) {
    size_t room = call->message_count + count + CONND__FRAME;
    uint8_t *message = realloc(call->message, room);
    if (!message) return -1;
    call->message = message;
    call->message_room = room;
  }
  memcpy(call->message + call->message_count, bytes, count);
  call->message_count += count;
  size_t start = 0;
  while (call->message_count - start >= 5) {
    uint32_t length;
    memcpy(&length, call->message + start + 1, 4);
    length = ntohl(length);
    if (call->message[start] != 0 || length > CONND__MESSAGE) return -1;
    if (call->message_count - start - 5 < length) break;
    receive(context, call->message + start + 5, length);
    start += 5 + length;
  }
  call->message_count -= start;
  memmove(call->message, call->message + start, call->message_count);
  return 0;
}

static int connd__frame(struct connd__call *call, const uint8_t *frame, size_t count,
                        connd__receiver *receive, void *context) {
  int type = frame[3], flags = frame[4];
  uint32_t stream = (frame[5] & 127u) << 24 | frame[6] << 16 | frame[7] << 8 | frame[8], value;
  const uint8_t *bytes = frame + 9;
  switch (type) {
    case 0:  // DATA
      call->received += count;
      if (call->received > CONND__WINDOW / 4) {
        if (connd__put_window(call, 0, (uint32_t)call->received) != 0 ||
            connd__put_window(call, 1, (uint32_t)call->received) != 0)
          return -1;
        call->received = 0;
      }
      if (flags & 8) {
        if (count == 0 || bytes[0] >= count) return -1;
        count -= 1u + bytes[0];
        bytes++;
      }
      if (stream == 1 && connd__data(call, bytes, count, receive, context) != 0) return -1;
      return flags & 1 ? -1 : 0;
    case 1:  // HEADERS
      return flags & 1 ? -1 : 0;
    case 4:  // SETTINGS
      if (flags & 1) return 0;
      for (; count >= 6; bytes += 6, count -= 6) {
        memcpy(&value, bytes + 2, 4);
        if (bytes[0] != 0 || bytes[1] != 4) continue;  // INITIAL_WINDOW_SIZE
        call->stream_window += (int64_t)ntohl(value) - call->initial_window;
        call->initial_window = ntohl(value);
      }
      return connd__put_frame(call, 4, 1, 0, NULL, 0);
    case 6:  // PING
      return flags & 1 || count != 8 ? 0 : connd__put_frame(call, 6, 1, 0, bytes, 8);
    case 3:  // RST_STREAM
    case 7:  // GOAWAY
      return -1;
    case 8:  // WINDOW_UPDATE
      if (count != 4) return -1;
      memcpy(&value, bytes, 4);
      *(stream == 0 ? &call->window : &call->stream_window) += ntohl(value) & 0x7fffffff;
      return 0;
    default:
      return 0;
  }
}

// Reads what connd has sent, up to a few frames. Returns -1 at the end of the call.
static int connd__receive(struct connd__call *call, connd__receiver *receive, void *context) {
  ssize_t read = recv(call->fd, call->in + call->in_count, sizeof call->in - call->in_count, 0);
  if (read < 0) return errno == EAGAIN || errno == EINTR ? 0 : -1;
  if (read == 0) return -1;
  call->in_count += (size_t)read;
  size_t start = 0;
  while (call->in_count - start >= 9) {
    const uint8_t *frame = call->in + start;
    size_t count = (size_t)frame[0] << 16 | (size_t)frame[1] << 8 | frame[2];
    if (count > CONND__FRAME) return -1;
    if (call->in_count - start - 9 < count) break;
    if (connd__frame(call, frame, count, receive, context) != 0) return -1;
    start += 9 + count;
  }
  call->in_count -= start;
  memmove(call->in, call->in + start, call->in_count);
  return connd__flush(call);
}

static int64_t connd__now(void) {
  struct timespec time;
  clock_gettime(CLOCK_BOOTTIME, &time);
  return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static void connd__read_status(void *context, const uint8_t *message, size_t count) {
  struct connd_status *status = (struct connd_status *)context;
  struct connd__field name = connd__get(message, count, 6), cost = connd__get(message, count, 8);
  memset(status, 0, sizeof *status);
  status->generation = connd__get(message, count, 1).value;
  status->category = (int)connd__get(message, count, 2).value;
  status->medium = (int)connd__get(message, count, 7).value;
  status->expensive = cost.number ? cost.value != 0 : -1;
  status->constrained = connd__get(message, count, 9).value != 0;
  status->network_namespace = connd__get(message, count, 13).value;
  if (name.bytes && name.count < sizeof status->interface)
    memcpy(status->interface, name.bytes, name.count);
}

int connd_get_status(struct connd_status *status, int timeout_ms) {
  struct connd__call *call = malloc(sizeof *call);
  static const struct connd__writer empty;
  int64_t end = connd__now() + timeout_ms, rest = timeout_ms;
  int error = ETIMEDOUT;
  if (!call) return -1;
  // No namespace has this number, so it shows whether the answer has come.
  status->network_namespace = UINT64_MAX;
  if (connd__open(call, "GetStatus") != 0) {
    error = errno;
    free(call);
    return errno = error, -1;
  }
  connd__put_message(call, &empty, 1);
  if (connd__flush(call) != 0) error = ECONNRESET;
  while (error == ETIMEDOUT && status->network_namespace == UINT64_MAX && rest >= 0) {
    struct pollfd input = {call->fd, POLLIN, 0};
    if (poll(&input, 1, (int)rest) > 0 && connd__receive(call, connd__read_status, status) != 0)
      error = ECONNRESET;
    rest = end - connd__now();
  }
  connd__close(call);
  free(call);
  return status->network_namespace != UINT64_MAX ? 0 : (errno = error, -1);
}

// MARK: Guarded connections

enum {
  CONND__FLOWS = 16384,  // limits.flowsPerStream of connd.yaml
  CONND__KNOWN_PATH = 4096,
  CONND__BREAKERS = 256,
  CONND__REFUTATIONS = 3,
  CONND__MIN_REST = 5 * 60 * 1000,
  CONND__MAX_REST = 60 * 60 * 1000,
  CONND__BREAKER_LIFE = 60 * 60 * 1000,  // how long a refutation counts, or after the rest
  CONND__MAX_TRIAL_AGE = 5000,  // an older connection shows nothing about connd
  CONND__MIN_PAUSE = 1000,
  CONND__MAX_PAUSE = 60 * 1000,
  CONND__RTO_MAX_MS = 44,        // TCP_RTO_MAX_MS, since Linux 6.15
  CONND__MAX_WAIT = 2000,        // for a retransmission, in milliseconds
  CONND__USER_TIMEOUT = 924600,  // how long the kernel retransmits by default, in milliseconds
};

struct connd__address {
  uint8_t bytes[16];
  uint16_t port;
};

// A keepalive probe (E4).
struct connd__probe {
  int was_on, idle_time, left, raises_timeout;
  unsigned step;  // how often it has been repeated
  int64_t start;  // 0 if there is none
};

struct connd__flow {
  uint64_t id, cookie;
  int fd, flags;
  connd_callback *callback;
  void *context;
  struct connd__address remote_key;
  char remote[INET6_ADDRSTRLEN], local[INET6_ADDRSTRLEN], interface[IF_NAMESIZE];
  uint16_t remote_port, local_port;
  uint32_t mark, link;
  int64_t made;  // when it was guarded
  enum { CONND__UNREPORTED, CONND__DOUBTED, CONND__REPORTED } progress;
  int is_sent, is_answered;
  uint8_t *known_path;  // the last path, as connd sent it
  size_t known_path_count;
  struct connd__probe probe;
  int former_wait;  // TCP_RTO_MAX_MS before, or 0 if the options of C11 are not set
};

// Counts wrong rejections of one destination (I11).
struct connd__breaker {
  struct connd__address remote;
  int refutations;
  int64_t rest, rest_end, last_change;  // `rest` is 0 if the breaker is closed
};

static struct {
  pthread_mutex_t lock;
  int has_thread, wake;
  struct connd__flow **flows;  // by descriptor
  size_t room, count, unsent;  // `unsent`: no flow with a lower descriptor has to be sent
  uint32_t serial;
  uint64_t *removed;  // flows that connd still guards but need not
  size_t removed_room, removed_count;
  struct connd__breaker breakers[CONND__BREAKERS];
  int breaker_count, probes;
  struct connd__call call;
  int is_elsewhere;  // connd speaks for another namespace
  uint64_t generation;
  int64_t pause, retry;
} connd__state;

static int connd__option(int fd, int level, int name, int otherwise) {
  int value = 0;
  socklen_t size = sizeof value;
  return getsockopt(fd, level, name, &value, &size) == 0 ? value : otherwise;
}

static int connd__set(int fd, int level, int name, int value) {
  return setsockopt(fd, level, name, &value, sizeof value);
}

static uint64_t connd__cookie(int fd) {
  uint64_t cookie = 0;
  socklen_t size = sizeof cookie;
  return getsockopt(fd, SOL_SOCKET, 57, &cookie, &size) == 0 ? cookie : 0;  // SO_COOKIE
}

// Whether the descriptor still belongs to the socket of the flow.
static int connd__is_open(const struct connd__flow *flow) {
  return flow->cookie != 0 && connd__cookie(flow->fd) == flow->cookie;
}

// A descriptor of our own for the flow's socket, or -1 if the program has closed its own. The
// program may close it at any time, and its number may then be another socket's.
static int connd__hold(const struct connd__flow *flow) {
  int fd = fcntl(flow->fd, F_DUPFD_CLOEXEC, 0);
  if (fd < 0 || (flow->cookie != 0 && connd__cookie(fd) == flow->cookie)) return fd;
  close(fd);
  return -1;
}

static struct connd__breaker *connd__breaker(const struct connd__flow *flow, int adds) {
  struct connd__breaker *breakers = connd__state.breakers, *oldest = breakers;
  for (int i = 0; i < connd__state.breaker_count; i++) {
    if (memcmp(&breakers[i].remote, &flow->remote_key, sizeof flow->remote_key) == 0)
      return &breakers[i];
    if (breakers[i].last_change < oldest->last_change) oldest = &breakers[i];
  }
  if (!adds) return NULL;
  if (connd__state.breaker_count < CONND__BREAKERS)
    oldest = &breakers[connd__state.breaker_count++];
  memset(oldest, 0, sizeof *oldest);
  oldest->remote = flow->remote_key;
  return oldest;
}

// Records that connd rejected a connection that works. Returns whether this opens the breaker.
static int connd__refuted(const struct connd__flow *flow) {
  struct connd__breaker *breaker = connd__breaker(flow, 1);
  int64_t now = connd__now(), last = breaker->last_change;
  if (last < breaker->rest_end) last = breaker->rest_end;
  if (now - last > CONND__BREAKER_LIFE) breaker->refutations = 0, breaker->rest = 0;
  breaker->last_change = now;
  if (breaker->rest == 0 && ++breaker->refutations < CONND__REFUTATIONS) return 0;
  if (now < breaker->rest_end) return 0;
  breaker->rest = breaker->rest == 0 ? CONND__MIN_REST : breaker->rest * 2;
  if (breaker->rest > CONND__MAX_REST) breaker->rest = CONND__MAX_REST;
  breaker->rest_end = now + breaker->rest;
  return 1;
}

static void connd__confirmed(const struct connd__flow *flow) {
  struct connd__breaker *breaker = connd__breaker(flow, 0);
  if (breaker && connd__now() >= breaker->rest_end)
    *breaker = connd__state.breakers[--connd__state.breaker_count];
}

// Sets the options by which an outage ends soon after the path is back, unless the program has a
// timeout or keepalive of its own (C11). Alone, the second option would end the connection after
// 28 s.
static void connd__shorten_outages(struct connd__flow *flow) {
  int fd = flow->former_wait == 0 && (flow->flags & CONND_SHORTEN_OUTAGES) ? connd__hold(flow) : -1;
  if (fd < 0) return;
  int former = connd__option(fd, IPPROTO_TCP, CONND__RTO_MAX_MS, 0);
  if (former > CONND__MAX_WAIT && connd__option(fd, SOL_SOCKET, SO_KEEPALIVE, 1) == 0 &&
      connd__option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 1) == 0 &&
      connd__set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, CONND__USER_TIMEOUT) == 0) {
    if (connd__set(fd, IPPROTO_TCP, CONND__RTO_MAX_MS, CONND__MAX_WAIT) == 0) {
      flow->former_wait = former;
    } else {
      connd__set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 0);
    }
  }
  close(fd);
}

// Restores these options, unless the program has changed them.
static void connd__restore_timeouts(struct connd__flow *flow) {
  int fd = flow->former_wait != 0 ? connd__hold(flow) : -1;
  if (fd >= 0) {
    if (connd__option(fd, IPPROTO_TCP, CONND__RTO_MAX_MS, 0) == CONND__MAX_WAIT)
      connd__set(fd, IPPROTO_TCP, CONND__RTO_MAX_MS, flow->former_wait);
    int timeout = connd__option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 0);
    // A probe has raised it.
    if (timeout == CONND__USER_TIMEOUT || timeout == INT32_MAX)
      connd__set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 0);
    close(fd);
  }
  flow->former_wait = 0;
}

// Restores the options of the socket.
static void connd__end_probe(struct connd__flow *flow) {
  if (flow->probe.start == 0) return;
  flow->probe.start = 0;
  connd__state.probes--;
  int fd = connd__hold(flow);
  if (fd < 0) return;
  // Keepalive is off meanwhile, so that no probe is due immediately.
  connd__set(fd, SOL_SOCKET, SO_KEEPALIVE, 0);
  connd__set(fd, IPPROTO_TCP, TCP_KEEPIDLE, flow->probe.idle_time);
  if (flow->probe.raises_timeout &&
      connd__option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 0) == INT32_MAX)
    connd__set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, CONND__USER_TIMEOUT);
  if (flow->probe.was_on) connd__set(fd, SOL_SOCKET, SO_KEEPALIVE, flow->probe.was_on);
  close(fd);
}

// Asks the peer by a keepalive probe, unless the probe might end the connection (E4).
static void connd__begin_probe(struct connd__flow *flow) {
  int fd = flow->probe.start == 0 ? connd__hold(flow) : -1;
  if (fd < 0) return;
  int idle_time = connd__option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 0);
  uint8_t information[4] = {0};  // the beginning of struct tcp_info; the last is tcpi_probes
  socklen_t size = sizeof information;
  getsockopt(fd, IPPROTO_TCP, TCP_INFO, information, &size);
  int was_on = connd__option(fd, SOL_SOCKET, SO_KEEPALIVE, 0);
  int timeout = connd__option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 0);
  // The timeout of C11 must not end the connection because of the probe. With a timeout, the number
  // of probes does not count.
  int raises_timeout = timeout == CONND__USER_TIMEOUT && !was_on;
  int has_timeout = timeout != 0 && !raises_timeout;
  // With an interval of one second, a second probe follows before the options are restored.
  int left = connd__option(fd, IPPROTO_TCP, TCP_KEEPCNT, 0) - 1 - information[3] -
             (connd__option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 1) > 1 ? 1 : 2);
  if (raises_timeout) left = INT32_MAX;
  if (idle_time >= 1 && idle_time <= 32767 && left >= 0 &&
      !(has_timeout && (was_on || information[3] != 0))) {
    // connd may ask twice more before it gives the connection up (E2).
    struct connd__probe probe = {
        was_on, idle_time, has_timeout ? 0 : left - 2, raises_timeout, 0, connd__now()};
    flow->probe = probe;
    connd__state.probes++;
    if (raises_timeout) connd__set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, INT32_MAX);
    // The order matters: only the second option restarts the timer with the elapsed idle time.
    if (connd__set(fd, SOL_SOCKET, SO_KEEPALIVE, 1) != 0 ||
        connd__set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 1) != 0)
      connd__end_probe(flow);
  }
  close(fd);
}

// Repeats or ends the probes that are due. Returns when the next one is due.
static int64_t connd__continue_probes(int64_t now) {
  static const int steps[] = {80, 600, 1500};
  int64_t next = INT64_MAX;
  for (size_t fd = 0; connd__state.probes > 0 && fd < connd__state.room; fd++) {
    struct connd__flow *flow = connd__state.flows[fd];
    if (!flow || flow->probe.start == 0) continue;
    while (flow->probe.start != 0 && now >= flow->probe.start + steps[flow->probe.step]) {
      if (++flow->probe.step == 3) {
        connd__end_probe(flow);
      } else if (flow->probe.left-- > 0) {
        int held = connd__hold(flow);
        if (held < 0) continue;
        connd__set(held, IPPROTO_TCP, TCP_KEEPIDLE, 1);
        close(held);
      }
    }
    if (flow->probe.start != 0 && flow->probe.start + steps[flow->probe.step] < next)
      next = flow->probe.start + steps[flow->probe.step];
  }
  return next;
}

// Ends the connection, like a reset by the peer. Without the first step, a reader would take a cut
// response for a complete one. Without the last step, a program that polls only for input would
// spin.
static void connd__end(const struct connd__flow *flow) {
  struct sockaddr none;
  int fd = connd__hold(flow);
  if (fd < 0) return;
  // The reset leaves by the link of the connection or not at all: on another link, its source
  // address would be wrong.
  if (flow->link == 0 || connd__set(fd, SOL_SOCKET, 62, (int)flow->link) != 0)
    connd__set(fd, SOL_SOCKET, SO_DONTROUTE, 1);  // 62: SO_BINDTOIFINDEX
  memset(&none, 0, sizeof none);
  none.sa_family = AF_UNSPEC;
  // Kernel TLS does not support it (EOPNOTSUPP), nor do kernels of 2023 while a thread waits
  // (EBUSY). shutdown(2) suffices then.
  (void)!connect(fd, &none, sizeof none);
  shutdown(fd, SHUT_RDWR);
  close(fd);
}

// Frees a flow. connd hears of it if it may still guard the flow.
static void connd__remove(struct connd__flow *flow, int tells_connd) {
  connd__end_probe(flow);
  connd__restore_timeouts(flow);
  connd__state.flows[flow->fd] = NULL;
  connd__state.count--;
  if (tells_connd && flow->is_sent && connd__state.call.fd >= 0) {
    if (connd__state.removed_count == connd__state.removed_room) {
      size_t room = connd__state.removed_room * 2 + 64;
      uint64_t *removed = realloc(connd__state.removed, room * sizeof *removed);
      if (removed) {
        connd__state.removed = removed;
        connd__state.removed_room = room;
      }
    }
    if (connd__state.removed_count < connd__state.removed_room)
      connd__state.removed[connd__state.removed_count++] = flow->id;
  }
  free(flow->known_path);
  free(flow);
}

// Queues the requests for which connd has room: removals first, because they make room.
static void connd__request(void) {
  static struct connd__writer inner, request;
  struct connd__call *call = &connd__state.call;
  while (connd__state.removed_count > 0) {
    inner.count = request.count = 0;
    connd__put_number(&inner, 1, connd__state.removed[connd__state.removed_count - 1]);
    connd__put_bytes(&request, 2, inner.bytes, inner.count);
    if (!connd__put_message(call, &request, 0)) return;
    connd__state.removed_count--;
  }
  for (; connd__state.unsent < connd__state.room; connd__state.unsent++) {
    struct connd__flow *flow = connd__state.flows[connd__state.unsent];
    if (!flow || flow->is_sent) continue;
    inner.count = request.count = 0;
    connd__put_number(&inner, 1, flow->id);
    connd__put_bytes(&inner, 2, flow->remote, strlen(flow->remote));
    connd__put_bytes(&inner, 3, flow->local, strlen(flow->local));
    if (flow->mark) connd__put_number(&inner, 4, flow->mark);
    if (*flow->interface) connd__put_bytes(&inner, 5, flow->interface, strlen(flow->interface));
    if (flow->is_answered) connd__put_number(&inner, 6, connd__state.generation);
    if (flow->known_path)
      connd__put_bytes(&inner, 7, flow->known_path, flow->known_path_count);
    connd__put_number(&inner, 10, flow->local_port);
    connd__put_number(&inner, 11, flow->remote_port);
    connd__put_number(&inner, 12, IPPROTO_TCP);
    connd__put_number(&inner, 13, 1);  // FLOW_QUESTION_KEEPALIVE
    if (connd__now() - flow->made > CONND__MAX_TRIAL_AGE) flow->flags &= ~CONND_NEW;
    if (!(flow->flags & CONND_NEW) || flow->progress == CONND__REPORTED)
      connd__put_number(&inner, 14, 1);
    connd__put_bytes(&request, 1, inner.bytes, inner.count);
    if (!connd__put_message(call, &request, 0)) return;
    flow->is_sent = 1;
  }
}

// Keeps the path of a flow, for a connd that restarts.
static void connd__keep_path(struct connd__flow *flow, struct connd__field path) {
  struct connd__field link = connd__get(path.bytes, path.count, 4);
  if (flow->link == 0 && link.bytes)
    flow->link = (uint32_t)connd__get(link.bytes, link.count, 2).value;
  uint8_t *copy = path.count <= CONND__KNOWN_PATH ? malloc(path.count + 1) : NULL;
  free(flow->known_path);
  flow->known_path = copy;
  flow->known_path_count = copy ? path.count : 0;
  if (copy) memcpy(copy, path.bytes, path.count);
  flow->is_answered = 1;
}

// Handles a report about a flow: counts wrong rejections, and tells the program.
static void connd__report(struct connd__flow *flow, struct connd_event *event) {
  int destroys = event->severity == CONND_DESTROY;
  int is_doubtful = event->status == 2 || event->status == 3;  // REQUIRES_CONNECTION, UNSATISFIED
  // Reasons that may end a connection that works.
  int is_survivable = event->reason >= 4 && event->reason <= 8;
  int is_policy = event->reason == 6;
  connd_callback *callback = flow->callback;
  void *context = flow->context;
  int refutes = 0;
  if ((flow->flags & CONND_NEW) && flow->progress != CONND__REPORTED) {
    if (event->kind == CONND_PATH && event->status == 1) connd__confirmed(flow);
    if (destroys && !is_policy && !(flow->progress == CONND__DOUBTED && is_survivable))
      refutes = connd__refuted(flow);
  }
  if (flow->progress == CONND__UNREPORTED)
    flow->progress = is_doubtful && (flow->flags & CONND_NEW) ? CONND__DOUBTED : CONND__REPORTED;
  else if (event->status == 1)
    flow->progress = CONND__REPORTED;
  if (destroys) {
    if (!(flow->flags & CONND_REPORT_ONLY)) connd__end(flow);
    connd__remove(flow, 0);
  } else if (event->kind == CONND_REFUSED) {
    connd__remove(flow, 0);
  }
  if (callback) callback(context, event);
  if (callback && refutes) {
    event->kind = CONND_SUSPENDED;
    callback(context, event);
  }
}

static uint64_t connd__namespace(void) {
  struct stat status;
  return stat("/proc/self/ns/net", &status) == 0 ? (uint64_t)status.st_ino : 0;
}

static void connd__received(void *context, const uint8_t *message, size_t count) {
  uint64_t id = connd__get(message, count, 2).value, fd = (uint32_t)id;
  uint64_t network = connd__get(message, count, 7).value;
  (void)context;
  if (network != 0 && network != connd__namespace()) {
    connd__state.is_elsewhere = 1;
    return;
  }
  connd__state.pause = CONND__MIN_PAUSE;
  connd__state.generation = connd__get(message, count, 1).value;
  struct connd__flow *flow = fd < connd__state.room ? connd__state.flows[fd] : NULL;
  if (!flow || flow->id != id || !flow->is_sent) return;
  if (!connd__is_open(flow)) {
    connd__remove(flow, 1);
    return;
  }
  struct connd__field path = connd__get(message, count, 3), gone = connd__get(message, count, 6);
  struct connd__field invalidation = connd__get(message, count, 4);
  struct connd_event event = {flow->fd, CONND_PATH, 0, 0, 0};
  int is_asked = connd__get(message, count, 8).bytes != NULL;
  if (gone.bytes) path = gone;
  if (path.bytes) {
    connd__keep_path(flow, path);
  } else if (invalidation.bytes) {
    event.kind = CONND_INVALIDATED;
    event.reason = (int)connd__get(invalidation.bytes, invalidation.count, 1).value;
    // A reason of a newer connd counts as CATEGORY_CHANGED.
    if (event.reason < 1 || event.reason > 8) event.reason = 4;
    event.severity = (int)connd__get(invalidation.bytes, invalidation.count, 2).value;
    // An unknown severity is advice.
    if (event.severity != CONND_DESTROY && event.severity != CONND_DRAIN)
      event.severity = CONND_ADVISE;
    path = connd__get(invalidation.bytes, invalidation.count, 4);
  } else if (connd__get(message, count, 5).bytes) {
    event.kind = CONND_REFUSED;
  } else {
    return;
  }
  if (path.bytes) event.status = (int)connd__get(path.bytes, path.count, 1).value;
  if (event.kind == CONND_PATH && event.status == 1) {
    connd__shorten_outages(flow);
  } else if ((path.bytes && event.status != 1) || (event.reason >= 1 && event.reason <= 3)) {
    connd__restore_timeouts(flow);  // the path, address, link or network is lost
  }
  if (is_asked && event.severity != CONND_DESTROY) connd__begin_probe(flow);
  connd__report(flow, &event);
}

// Forgets the connection to connd, and has the flows sent again.
static void connd__lost(void) {
  connd__close(&connd__state.call);
  connd__state.removed_count = connd__state.unsent = 0;
  for (size_t fd = 0; fd < connd__state.room; fd++) {
    if (!connd__state.flows[fd]) continue;
    connd__state.flows[fd]->is_sent = 0;
    connd__restore_timeouts(connd__state.flows[fd]);
  }
  if (connd__state.is_elsewhere) connd__state.pause = CONND__MAX_PAUSE;
  if (connd__state.pause == 0) connd__state.pause = CONND__MIN_PAUSE;
  connd__state.retry = connd__now() + connd__state.pause;
  connd__state.pause *= 2;
  if (connd__state.pause > CONND__MAX_PAUSE) connd__state.pause = CONND__MAX_PAUSE;
}

static void *connd__run(void *unused) {
  struct connd__call *call = &connd__state.call;
  (void)unused;
  pthread_mutex_lock(&connd__state.lock);
  for (;;) {
    int64_t now = connd__now(), next = connd__continue_probes(now);
    if (call->fd < 0 && connd__state.count > 0) {
      if (now >= connd__state.retry) {
        connd__state.is_elsewhere = 0;
        if (connd__open(call, "Guard") != 0) connd__lost();
      }
      if (call->fd < 0 && connd__state.retry < next) next = connd__state.retry;
    }
    if (call->fd >= 0) {
      connd__request();
      if (connd__flush(call) != 0) connd__lost();
      if (call->fd < 0) continue;
    }
    struct pollfd inputs[2] = {{connd__state.wake, POLLIN, 0}, {call->fd, POLLIN, 0}};
    if (call->out_count > 0) inputs[1].events |= POLLOUT;
    int timeout = next == INT64_MAX ? -1 : next <= now ? 0 : (int)(next - now);
    pthread_mutex_unlock(&connd__state.lock);
    int ready = poll(inputs, 2, timeout);
    pthread_mutex_lock(&connd__state.lock);
    uint64_t wakes;
    if (ready <= 0) continue;
    if (inputs[0].revents && read(connd__state.wake, &wakes, sizeof wakes) < 0) wakes = 0;
    if (inputs[1].revents & (POLLIN | POLLERR | POLLHUP)) {
      if (connd__receive(call, connd__received, NULL) != 0 || connd__state.is_elsewhere)
        connd__lost();
    }
  }
  return NULL;
}

static void connd__before_fork(void) { pthread_mutex_lock(&connd__state.lock); }
static void connd__in_parent(void) { pthread_mutex_unlock(&connd__state.lock); }

static void connd__make_lock(void) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&connd__state.lock, &attributes);
  pthread_mutexattr_destroy(&attributes);
}

// The child has neither the thread nor the guards of its parent.
static void connd__in_child(void) {
  connd__make_lock();
  for (size_t fd = 0; fd < connd__state.room; fd++) {
    if (!connd__state.flows[fd]) continue;
    // The parent restores the options of the socket.
    connd__state.flows[fd]->probe.start = connd__state.flows[fd]->former_wait = 0;
    connd__remove(connd__state.flows[fd], 0);
  }
  connd__close(&connd__state.call);
  if (connd__state.wake >= 0) close(connd__state.wake);
  connd__state.wake = -1;
  connd__state.has_thread = connd__state.probes = 0;
  connd__state.removed_count = 0;
  connd__state.retry = connd__state.pause = 0;
}

static void connd__prepare(void) {
  connd__state.wake = connd__state.call.fd = -1;
  connd__make_lock();
  pthread_atfork(connd__before_fork, connd__in_parent, connd__in_child);
}

static void connd__lock(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, connd__prepare);
  pthread_mutex_lock(&connd__state.lock);
}

// Starts the thread, unless it runs. Returns 0, or an error number.
static int connd__start(void) {
  pthread_t thread;
  sigset_t all, before;
  if (connd__state.has_thread) return 0;
  if (connd__state.wake < 0) connd__state.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (connd__state.wake < 0) return errno;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = pthread_create(&thread, NULL, connd__run, NULL);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (error == 0) pthread_detach(thread);
  connd__state.has_thread = error == 0;
  return error;
}

static void connd__wake(void) {
  uint64_t one = 1;
  (void)!write(connd__state.wake, &one, sizeof one);
}

// Reads the address of one end. Returns 0 if it is not an IP address.
static int connd__read_address(const struct sockaddr_storage *from, char *text, uint16_t *port,
                               struct connd__address *key, uint32_t *scope) {
  const void *bytes;
  memset(key, 0, sizeof *key);
  *scope = 0;
  if (from->ss_family == AF_INET) {
    const struct sockaddr_in *address = (const struct sockaddr_in *)from;
    bytes = &address->sin_addr;
    key->bytes[10] = key->bytes[11] = 255;
    memcpy(key->bytes + 12, bytes, 4);
    key->port = address->sin_port;
  } else if (from->ss_family == AF_INET6) {
    const struct sockaddr_in6 *address = (const struct sockaddr_in6 *)from;
    bytes = &address->sin6_addr;
    memcpy(key->bytes, bytes, 16);
    key->port = address->sin6_port;
    *scope = address->sin6_scope_id;
  } else {
    return 0;
  }
  *port = ntohs(key->port);
  return inet_ntop(from->ss_family, bytes, text, INET6_ADDRSTRLEN) != NULL;
}

// Reads what connd must know of a socket. Returns 0, or an error number.
static int connd__describe(struct connd__flow *flow) {
  static const uint8_t loopback[16] = {[15] = 1}, mapped[13] = {[10] = 255, 255, 127};
  struct sockaddr_storage remote, local;
  struct connd__address own;
  socklen_t size = sizeof remote;
  uint32_t scope, ignored;
  int fd = flow->fd;
  if (getpeername(fd, (struct sockaddr *)&remote, &size) != 0) return errno;
  size = sizeof local;
  if (getsockname(fd, (struct sockaddr *)&local, &size) != 0) return errno;
  const uint8_t *bytes = flow->remote_key.bytes;
  if (!connd__read_address(&remote, flow->remote, &flow->remote_port, &flow->remote_key, &scope) ||
      !connd__read_address(&local, flow->local, &flow->local_port, &own, &ignored) ||
      memcmp(bytes, loopback, 16) == 0 || memcmp(bytes, mapped, 13) == 0 ||
      memcmp(bytes, own.bytes, 16) == 0 ||
      connd__option(fd, SOL_SOCKET, SO_PROTOCOL, 0) != IPPROTO_TCP ||
      connd__option(fd, IPPROTO_IP, IP_FREEBIND, 0) || connd__option(fd, IPPROTO_IP, 19, 0) ||
      connd__option(fd, IPPROTO_IPV6, 78, 0) || connd__option(fd, IPPROTO_IPV6, 75, 0))
    return ENOTSUP;  // 19, 78, 75: IP_TRANSPARENT, IPV6_FREEBIND, IPV6_TRANSPARENT
  flow->mark = (uint32_t)connd__option(fd, SOL_SOCKET, SO_MARK, 0);
  size = sizeof flow->interface;
  if (getsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, flow->interface, &size) != 0 || size == 0)
    *flow->interface = 0;
  if (!*flow->interface && scope && !if_indextoname(scope, flow->interface)) *flow->interface = 0;
  return (flow->cookie = connd__cookie(fd)) ? 0 : ENOTSUP;
}

// Adds the flow to the table. Returns 0, or an error number.
static int connd__add(struct connd__flow *flow) {
  size_t fd = (size_t)flow->fd;
  if (fd < connd__state.room && connd__state.flows[fd]) connd__remove(connd__state.flows[fd], 1);
  struct connd__breaker *breaker = connd__breaker(flow, 0);
  if ((flow->flags & CONND_NEW) && breaker && connd__now() < breaker->rest_end) return EAGAIN;
  if (connd__state.count >= CONND__FLOWS) return EMFILE;
  if (fd >= connd__state.room) {
    size_t room = fd * 2 + 16;
    struct connd__flow **flows = realloc(connd__state.flows, room * sizeof *flows);
    if (!flows) return ENOMEM;
    connd__state.flows = flows;
    for (size_t i = connd__state.room; i < room; i++) connd__state.flows[i] = NULL;
    connd__state.room = room;
  }
  int error = connd__start();
  if (error != 0) return error;
  flow->id = (uint64_t)++connd__state.serial << 32 | (uint32_t)fd;
  connd__state.flows[fd] = flow;
  connd__state.count++;
  if (fd < connd__state.unsent) connd__state.unsent = fd;
  connd__wake();
  return 0;
}

int connd_guard_fd(int fd, int flags, connd_callback *callback, void *context) {
  struct connd__flow *flow = calloc(1, sizeof *flow);
  if (!flow) return -1;
  flow->fd = fd;
  flow->flags = flags;
  flow->made = connd__now();
  flow->callback = callback;
  flow->context = context;
  int error = connd__describe(flow);
  if (error == 0) {
    connd__lock();
    error = connd__add(flow);
    pthread_mutex_unlock(&connd__state.lock);
  }
  if (error == 0) return 0;
  free(flow);
  return errno = error, -1;
}

void connd_release_fd(int fd) {
  connd__lock();
  if (fd >= 0 && (size_t)fd < connd__state.room && connd__state.flows[fd]) {
    connd__remove(connd__state.flows[fd], 1);
    if (connd__state.has_thread) connd__wake();
  }
  pthread_mutex_unlock(&connd__state.lock);
}
#endif
