#include "protobuf.h"

#include <assert.h>
#include <string.h>

enum { varint = 0, fixed64 = 1, counted = 2, fixed32 = 5 };

/// Reads a number of up to 64 bits. Returns whether there is one.
static int read_varint(struct proto *rest, uint64_t *number) {
  *number = 0;
  for (unsigned shift = 0; shift < 64 && rest->length; shift += 7) {
    uint8_t byte = *rest->bytes++;
    rest->length--;
    *number |= (uint64_t)(byte & 0x7f) << shift;
    if (!(byte & 0x80)) return 1;
  }
  return 0;
}

static int skip(struct proto *rest, uint64_t length) {
  if (length > rest->length) return 0;
  rest->bytes += length;
  rest->length -= length;
  return 1;
}

int proto_next(struct proto *rest, struct proto_field *field) {
  uint64_t key, length;
  if (!rest->length) return 0;
  if (!read_varint(rest, &key)) return -1;
  *field = (struct proto_field){.tag = key >> 3};
  switch (key & 7) {
    case varint:
      return read_varint(rest, &field->number) ? 1 : -1;
    case fixed64:
      return skip(rest, 8) ? 1 : -1;
    case fixed32:
      return skip(rest, 4) ? 1 : -1;
    case counted:
      if (!read_varint(rest, &length)) return -1;
      field->message = (struct proto){rest->bytes, length};
      return skip(rest, length) ? 1 : -1;
    default:
      return -1;
  }
}

int proto_find(struct proto message, uint64_t tag, struct proto_field *field) {
  struct proto_field next;
  int found = 0, result;
  while ((result = proto_next(&message, &next)) > 0)
    if (next.tag == tag) *field = next, found = 1;
  return result < 0 ? -1 : found;
}

static void put_varint(struct proto_request *request, uint64_t number) {
  do {
    assert(request->length < sizeof(request->bytes));
    request->bytes[request->length++] = (uint8_t)((number & 0x7f) | (number > 0x7f ? 0x80 : 0));
  } while (number >>= 7);
}

void proto_put_number(struct proto_request *request, unsigned tag, uint64_t number) {
  put_varint(request, tag << 3 | varint);
  put_varint(request, number);
}

void proto_put_bytes(struct proto_request *request, unsigned tag, const void *bytes,
                     size_t length) {
  put_varint(request, tag << 3 | counted);
  put_varint(request, length);
  assert(length <= sizeof(request->bytes) - request->length);
  memcpy(request->bytes + request->length, bytes, length);
  request->length += length;
}
