#include "flows.h"

#include <stdio.h>
#include <string.h>

enum { varint = 0, bytes = 2 };

static uint8_t *put_varint(uint8_t *at, uint64_t value) {
  for (; value > 0x7f; value >>= 7) *at++ = (uint8_t)(value | 0x80);
  *at++ = (uint8_t)value;
  return at;
}

static uint8_t *put_number(uint8_t *at, int field, uint64_t value) {
  *at++ = (uint8_t)(field << 3 | varint);
  return put_varint(at, value);
}

static uint8_t *put_address(uint8_t *at, int field, uint32_t address) {
  char text[16];
  int length = snprintf(text, sizeof(text), "%u.%u.%u.%u", address >> 24, address >> 16 & 255,
                        address >> 8 & 255, address & 255);
  *at++ = (uint8_t)(field << 3 | bytes);
  *at++ = (uint8_t)length;
  memcpy(at, text, (size_t)length);
  return at + length;
}

void add_connection(struct call *call, uint64_t id, struct connection connection) {
  uint8_t request[96], *flow = request + 2, *at = flow;
  at = put_number(at, 1, id);
  at = put_address(at, 2, connection.remote);
  if (connection.local) at = put_address(at, 3, connection.local);
  if (connection.local_port) at = put_number(at, 10, connection.local_port);
  if (connection.remote_port) at = put_number(at, 11, connection.remote_port);
  if (connection.asks) at = put_number(at, 13, 1);
  request[0] = 1 << 3 | bytes;
  request[1] = (uint8_t)(at - flow);
  send_message(call, request, (size_t)(at - request), 0);
}

void add_flow(struct call *call, uint64_t id, uint32_t remote) {
  add_connection(call, id, (struct connection){.remote = remote});
}

void remove_flow(struct call *call, uint64_t id) {
  uint8_t request[16], *end = request + 2;
  *end++ = 1 << 3 | varint;
  end = put_varint(end, id);
  request[0] = 2 << 3 | bytes;
  request[1] = (uint8_t)(end - request - 2);
  send_message(call, request, (size_t)(end - request), 0);
}

void report_attempt(struct call *call, uint32_t remote, int outcome) {
  uint8_t request[32], *at = put_address(request, 1, remote);
  at = put_number(at, 3, (uint64_t)outcome);
  send_message(call, request, (size_t)(at - request), 1);
}

/// One field: its number, or its length and position.
struct field {
  int number;
  uint64_t value;
  const uint8_t *start;
};

static uint64_t take_varint(const uint8_t **at, const uint8_t *end) {
  uint64_t value = 0;
  for (int shift = 0; *at < end && shift < 64; shift += 7) {
    uint8_t byte = *(*at)++;
    value |= (uint64_t)(byte & 0x7f) << shift;
    if (!(byte & 0x80)) break;
  }
  return value;
}

/// Takes the next field; no other types than these two occur.
static int take_field(struct field *field, const uint8_t **at, const uint8_t *end) {
  if (*at >= end) return 0;
  uint64_t tag = take_varint(at, end);
  field->number = (int)(tag >> 3);
  field->value = take_varint(at, end);
  field->start = *at;
  if ((tag & 7) == varint) return 1;
  if ((tag & 7) != bytes || field->value > (size_t)(end - *at)) return 0;
  *at += field->value;
  return 1;
}

struct answer read_answer(const uint8_t *message, size_t length) {
  struct answer answer = {0};
  struct field field, inner;
  for (const uint8_t *at = message; take_field(&field, &at, message + length);) {
    if (field.number == 2) answer.id = field.value;
    if (field.number == 8) answer.asks = 1;
    if (field.number >= path_told && field.number <= refused) answer.event = field.number;
    if (field.number != invalidated) continue;
    for (const uint8_t *in = field.start; take_field(&inner, &in, field.start + field.value);)
      if (inner.number == 2) answer.severity = inner.value;
  }
  return answer;
}
