// bytes COUNT: gives the module's parsers COUNT valid conversations of a server with
// random changes. They must neither crash nor keep more than the bounds; sanitizers check that.
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http2.h"
#include "status.h"

enum { max_size = 4096 };

struct bytes {
  uint8_t bytes[max_size];
  size_t length;
};

struct seen {
  struct status status;
  unsigned messages, ends;
};

static uint64_t state;

/// A number below the bound (xorshift64*).
static size_t pick(size_t bound) {
  state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
  return (size_t)(state * 0x2545f4914f6cdd1dULL >> 33) % bound;
}

static void put(struct bytes *to, const void *bytes, size_t length) {
  assert(length <= max_size - to->length);
  memcpy(to->bytes + to->length, bytes, length);
  to->length += length;
}

static void put_frame(struct bytes *to, uint8_t type, uint8_t flags, uint8_t stream,
                      const void *payload, size_t length) {
  uint8_t head[9] = {0, (uint8_t)(length >> 8), (uint8_t)length, type, flags, 0, 0, 0, stream};
  put(to, head, sizeof(head));
  if (length) put(to, payload, length);
}

/// A status with Wi-Fi that costs money, behind a captive portal.
static void put_status(struct proto_request *event) {
  struct proto_request validation = {0}, path = {0}, status = {0};
  proto_put_number(&validation, 1, 2);
  proto_put_number(&path, 1, 1);
  proto_put_bytes(&path, 14, validation.bytes, validation.length);
  proto_put_number(&status, 2, 2);
  proto_put_number(&status, 8, 1);
  proto_put_bytes(&status, 10, path.bytes, path.length);
  proto_put_number(&status, 12, 1);
  proto_put_number(&status, 13, 4026531840);
  proto_put_bytes(event, 2, status.bytes, status.length);
}

static void put_message(struct bytes *to, uint8_t flags, unsigned event) {
  struct proto_request inner = {0}, response = {0};
  uint8_t message[256] = {0};
  put_status(&inner);
  proto_put_number(&response, 1, 7);
  proto_put_bytes(&response, event, inner.bytes, inner.length);
  message[4] = (uint8_t)response.length;
  memcpy(message + 5, response.bytes, response.length);
  put_frame(to, 0, flags, 1, message, 5 + response.length);
}

static struct bytes conversation(void) {
  struct bytes all = {0};
  static const uint8_t window[] = {0, 4, 0, 1, 0, 0}, nothing[8] = {0}, more[] = {0, 0, 1, 0};
  static const uint8_t ok[] = {0x88};
  put_frame(&all, 4, 0, 0, window, sizeof(window));
  put_frame(&all, 4, 1, 0, NULL, 0);
  put_frame(&all, 1, 4, 1, ok, sizeof(ok));
  put_message(&all, 0, 2);
  put_frame(&all, 6, 0, 0, nothing, sizeof(nothing));
  put_frame(&all, 8, 0, 0, more, sizeof(more));
  put_message(&all, 0, 4);
  put_message(&all, 0, 6);
  put_frame(&all, 1, 5, 1, ok, sizeof(ok));
  return all;
}

static void mutate(struct bytes *all) {
  static const uint8_t extremes[] = {0, 1, 0x7f, 0x80, 0xff};
  for (size_t count = 1 + pick(6); count; count--) {
    size_t at = pick(all->length), length = 1 + pick(16);
    if (length > all->length - at) length = all->length - at;
    switch (pick(5)) {
      case 0:
        all->bytes[at] ^= (uint8_t)(1 << pick(8));
        break;
      case 1:
        all->bytes[at] = extremes[pick(sizeof(extremes))];
        break;
      case 2:
        memset(all->bytes + at, extremes[pick(sizeof(extremes))], length);
        break;
      case 3:
        if (all->length == length) break;
        memmove(all->bytes + at, all->bytes + at + length, all->length - at - length);
        all->length -= length;
        break;
      default:
        if (all->length + length > max_size) break;
        memmove(all->bytes + at + length, all->bytes + at, all->length - at);
        all->length += length;
    }
  }
}

static void take_message(void *context, uint32_t call, struct proto message) {
  struct seen *seen = context;
  assert(call == 1 && message.length <= http2_max_message);
  seen->messages += status_read(&seen->status, message) > 0;
}

static void take_end(void *context, uint32_t call) {
  struct seen *seen = context;
  assert(call == 1);
  seen->ends++;
}

/// Lets a client read the bytes in pieces.
static struct seen converse(const struct bytes *all, int is_mutated) {
  struct seen seen = {0};
  struct proto_request request = {0};
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) abort();
  struct http2 *connection =
      http2_open(ends[0], (struct http2_handler){take_message, take_end, &seen});
  status_request(&request, 0);
  assert(connection && http2_call(connection, "Watch", &request) == 1);
  int works = 1;
  for (size_t at = 0; works && at < all->length;) {
    size_t length = 1 + pick(200);
    if (length > all->length - at) length = all->length - at;
    assert(send(ends[1], all->bytes + at, length, MSG_NOSIGNAL) == (ssize_t)length);
    works = http2_receive(connection);
    at += length;
  }
  assert(is_mutated || works);
  http2_close(connection);
  close(ends[1]);
  return seen;
}

int main(int argc, char **argv) {
  const struct bytes valid = conversation();
  unsigned different = 0, count = argc > 1 ? (unsigned)atoi(argv[1]) : 1000;
  state = 1;
  struct seen seen = converse(&valid, 0);
  assert(seen.messages == 3 && seen.ends == 1 && seen.status.is_available &&
         seen.status.is_metered);
  assert(seen.status.connectivity == G_NETWORK_CONNECTIVITY_PORTAL && seen.status.generation == 7);
  for (unsigned seed = 1; seed <= count; seed++) {
    struct bytes changed = valid;
    state = seed;
    mutate(&changed);
    seen = converse(&changed, 1);
    different += seen.messages != 3;
  }
  printf("%u conversations, of which %u lost messages\n", count, different);
  return different == 0;
}
