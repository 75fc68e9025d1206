// The frames of hostile clients, with as little of HTTP/2 as they need.
#pragma once
#include <stddef.h>
#include <stdint.h>

enum { data = 0, headers = 1, reset = 3, settings = 4, ping = 6, window_update = 8, continuation = 9 };
enum { end_stream = 1, ack = 1, end_headers = 4 };
enum { out_size = 1 << 18 };

/// The queued frames.
extern uint8_t out[out_size];
extern size_t filled;

void put(const void *bytes, size_t count);
void put_frame(int type, int flags, uint32_t stream, const void *payload, size_t length);
/// The preface, and windows that never run out.
void put_greeting(void);
/// Writes a call's headers. Returns their length. The method has its service: `Connectivity/Watch`,
/// or is a whole path.
size_t write_headers(uint8_t *block, const char *method);
void put_call(uint32_t stream, const char *method);
/// A call with its one request, without the prefix.
void put_request(uint32_t stream, const char *method, const void *request, uint8_t length);
void put_watch(uint32_t stream);
/// ListLinks.
void put_question(uint32_t stream);

/// Sends the queued frames. Returns whether connd takes them.
int send_out(int connection);
/// The same, and drops received frames.
int exchange(int connection);
