// Preloaded into a program: joining the netlink groups in NETLINK_GROUPS_REFUSED ("1 32") fails
// with the errno NETLINK_GROUPS_ERRNO. That happens if a security module refuses it (EPERM), or if
// the kernel has no such group (EINVAL).
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static int is_refused(int group) {
  for (char *rest = getenv("NETLINK_GROUPS_REFUSED"); rest && *rest;)
    if (strtol(rest, &rest, 10) == group) return 1;
  return 0;
}

int setsockopt(int socket, int level, int name, const void *value, socklen_t size) {
  int group;
  if (level == SOL_NETLINK && name == NETLINK_ADD_MEMBERSHIP && size == sizeof(group)) {
    memcpy(&group, value, sizeof(group));
    if (is_refused(group)) {
      errno = atoi(getenv("NETLINK_GROUPS_ERRNO"));
      return -1;
    }
  }
  int (*real)(int, int, int, const void *, socklen_t) = dlsym(RTLD_NEXT, "setsockopt");
  return real(socket, level, name, value, size);
}
