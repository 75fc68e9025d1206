// As little of a gRPC client as can follow connd: no library whose time would be measured with it.
#pragma once

/// Connects to a Unix socket and calls connectivity.v1.Connectivity/Watch; the descriptor does not block.
int watch_by_http2(const char *path);

/// Reads what is there; the number of messages (DATA frames that hold one) in it.
int read_messages(int connection);
