// Finds connd's socket, and connects to it.
#pragma once

/// Connects to connd without blocking.
///
/// The path is CONND_SOCKET, or else the system's socket, or else the user's own. The process that
/// listens must be root's, the caller's own, or for the system's socket that of the owner of its
/// directory. Other users could put a socket at the path.
///
/// Returns the descriptor, or -1 with errno. EPERM means that another user listens.
int connect_to_connd(void);
