#define _GNU_SOURCE

#include "socket.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static const char directory[] = "/run/connd";
static const char system_socket[] = "/run/connd/connd.sock";

/// Returns an environment variable, or NULL if it is unset, empty or of another user.
static const char *variable(const char *name) {
  const char *value = secure_getenv(name);
  return value && *value ? value : NULL;
}

int find_connd(struct sockaddr_un *address) {
  const char *named = variable("CONND_SOCKET"), *runtime = variable("XDG_RUNTIME_DIR");
  const char *folder = "", *name = system_socket;
  if (named)
    name = named;
  else if (geteuid() != 0 && runtime && access(system_socket, F_OK) != 0)
    folder = runtime, name = "/connd.sock";
  address->sun_family = AF_UNIX;
  int length = snprintf(address->sun_path, sizeof(address->sun_path), "%s%s", folder, name);
  return length >= 0 && (size_t)length < sizeof(address->sun_path);
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

int connect_to_connd(const struct sockaddr_un *address) {
  int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (connection < 0) return -1;
  if (connect(connection, (const struct sockaddr *)address, sizeof(*address)) == 0 &&
      is_trusted(connection, address->sun_path))
    return connection;
  close(connection);
  return -1;
}
