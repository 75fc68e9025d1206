#pragma once

/// Connects to a Unix socket.
int connect_to(const char *path);
