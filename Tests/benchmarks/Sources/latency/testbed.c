#define _GNU_SOURCE
#include "testbed.h"

#include "changes.h"

#include <err.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <unistd.h>

static void write_file(const char *path, const char *text) {
  FILE *file = fopen(path, "we");
  if (!file) return;
  fputs(text, file);
  fclose(file);
}

void allow_namespaces(void) {
  if (geteuid() == 0) return;
  char map[64];
  snprintf(map, sizeof map, "0 %u 1", geteuid());
  if (unshare(CLONE_NEWUSER)) err(1, "neither root nor a user namespace");
  write_file("/proc/self/setgroups", "deny");
  write_file("/proc/self/uid_map", map);
}

// IPv6 addresses would come a second later, when they are no longer tentative; the benchmark is about IPv4 alone.
static int new_namespace(void) {
  if (unshare(CLONE_NEWNET)) err(1, "make a network namespace");
  write_file("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1");
  write_file("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
  int descriptor = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) err(1, "/proc/self/ns/net");
  return descriptor;
}

struct testbed make_testbed(void) {
  int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
  int far = new_namespace();
  struct testbed bed = {.far = open_netlink()};
  bed.namespace = new_namespace();
  bed.near = open_netlink();
  if (setns(home, CLONE_NEWNET)) err(1, "setns");
  close(home);

  char buffer[longest_message];
  request(bed.near, link_up(buffer, 1, true));
  for (int link = 0; link < links; link++) {
    request(bed.near, veth_pair(buffer, link, far));
    request(bed.near, link_up(buffer, first_link + link, true));
    request(bed.far, link_up(buffer, first_peer + link, true));
    request(bed.near, address(buffer, link, true));
  }
  request(bed.near, default_route(buffer, 0));
  close(far);
  return bed;
}

void enter(const struct testbed *bed) {
  if (setns(bed->namespace, CLONE_NEWNET)) err(1, "setns");
  if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
      mount("sysfs", "/sys", "sysfs", 0, NULL))
    err(1, "mount sysfs");
}
