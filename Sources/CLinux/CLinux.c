#define _GNU_SOURCE
#include "CLinux.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

int clinux_peer_credentials(int socket, struct clinux_credentials *credentials) {
  struct ucred value;
  socklen_t size = sizeof(value);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &value, &size) != 0) return -1;
  credentials->pid = value.pid;
  credentials->uid = value.uid;
  credentials->gid = value.gid;
  return 0;
}

int clinux_enter_network_namespace(int descriptor) { return setns(descriptor, CLONE_NEWNET); }

int clinux_unshare_network_namespace(void) { return unshare(CLONE_NEWNET); }

int clinux_pipe(int descriptors[2]) { return pipe2(descriptors, O_CLOEXEC); }

int clinux_close_from(posix_spawn_file_actions_t *actions, int descriptor) {
  return posix_spawn_file_actions_addclosefrom_np(actions, descriptor);
}

int clinux_memory_file(const char *name) { return memfd_create(name, MFD_CLOEXEC); }

int clinux_process_descriptor(pid_t process) { return (int)syscall(SYS_pidfd_open, process, 0); }

void clinux_name_thread(const char *name) {
  pthread_setname_np(pthread_self(), name);
}
