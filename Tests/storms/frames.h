// The frames that hostile clients send: as little of HTTP/2 as that takes.
#pragma once
#include <stddef.h>
#include <stdint.h>

enum { data = 0, headers = 1, reset = 3, settings = 4, ping = 6, window_update = 8 };
enum { end_stream = 1, ack = 1, end_headers = 4 };
enum { out_size = 1 << 18 };

/// What is to be sent next.
extern uint8_t out[out_size];
extern size_t filled;

void put(const void *bytes, size_t count);
void put_frame(int type, int flags, uint32_t stream, const void *payload, size_t length);
/// The preface, and windows that never run out.
void put_greeting(void);
void put_call(uint32_t stream, const char *method);
void put_watch(uint32_t stream);
/// ListLinks.
void put_question(uint32_t stream);

/// Sends what was put. Returns whether the other end takes it.
int send_out(int connection);
/// The same, and drops what comes meanwhile.
int exchange(int connection);
