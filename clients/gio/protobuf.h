// The part of protobuf that connd's API uses: numbers, and values with a length.
#pragma once
#include <stddef.h>
#include <stdint.h>

/// The bytes of a message, or the rest of them.
struct proto {
  const uint8_t *bytes;
  size_t length;
};

/// A field: a number, or the bytes of a text or message.
struct proto_field {
  uint64_t tag, number;
  struct proto message;
};

/// Reads the next field. Returns 1, 0 at the end, or -1 if the bytes are not protobuf.
int proto_next(struct proto *rest, struct proto_field *field);

/// Finds the last value of a field. Returns 1, 0 if the message lacks it, or -1 if the bytes are
/// not protobuf.
int proto_find(struct proto message, uint64_t tag, struct proto_field *field);

/// A message that is being written. Its fields must fit.
struct proto_request {
  uint8_t bytes[128];
  size_t length;
};

void proto_put_number(struct proto_request *request, unsigned tag, uint64_t number);
void proto_put_bytes(struct proto_request *request, unsigned tag, const void *bytes, size_t length);
