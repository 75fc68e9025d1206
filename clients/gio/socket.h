// Finds connd's socket, and connects to it.
#pragma once
#include <sys/un.h>

/// Finds the path: CONND_SOCKET, or else the system's socket, or else the user's own. Reads the
/// environment, so it is for the thread of the program. Returns whether the path fits.
int find_connd(struct sockaddr_un *address);

/// Connects to connd without blocking.
///
/// The process that listens must be root's, the caller's own, or for the system's socket that of
/// the owner of its directory. Other users could put a socket at the path.
///
/// Returns the descriptor, or -1.
int connect_to_connd(const struct sockaddr_un *address);
