#define _GNU_SOURCE

#include "socket.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static const char directory[] = "/run/connd";
static const char system_socket[] = "/run/connd/connd.sock";

/// Returns an environment variable, or NULL if it is unset, empty or of another user.
static const char *variable(const char *name) {
  const char *value = secure_getenv(name);
  return value && *value ? value : NULL;
}

/// Writes the path of the socket. Returns whether it fits.
static int find_socket(char *path, size_t size) {
  const char *named = variable("CONND_SOCKET");
  const char *runtime = variable("XDG_RUNTIME_DIR");
  int length;
  if (named)
    length = snprintf(path, size, "%s", named);
  else if (geteuid() == 0 || !runtime || access(system_socket, F_OK) == 0)
    length = snprintf(path, size, "%s", system_socket);
  else
    length = snprintf(path, size, "%s/connd.sock", runtime);
  return length >= 0 && (size_t)length < size;
}

static int is_trusted(int connection, const char *path) {
  struct ucred server;
  socklen_t size = sizeof(server);
  struct stat status;
  if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &server, &size)) return 0;
  if (server.uid == 0 || server.uid == geteuid()) return 1;
  return strcmp(path, system_socket) == 0 && stat(directory, &status) == 0 &&
         server.uid == status.st_uid;
}

int connect_to_connd(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (!find_socket(address.sun_path, sizeof(address.sun_path))) {
    errno = ENAMETOOLONG;
    return -1;
  }
  int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (connection < 0) return -1;
  if (connect(connection, (const struct sockaddr *)&address, sizeof(address)) == 0) {
    if (is_trusted(connection, address.sun_path)) return connection;
    errno = EPERM;
  }
  int error = errno;
  close(connection);
  errno = error;
  return -1;
}
