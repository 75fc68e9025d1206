#define _GNU_SOURCE
#include "CLinux.h"

#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
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

static char **arguments;

// The C library passes the arguments of main to constructors.
__attribute__((constructor)) static void keep_arguments(int count, char **values) {
  (void)count;
  arguments = values;
}

char **clinux_arguments(void) { return arguments; }

int clinux_accept(int listener) {
  return accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

int clinux_enter_network_namespace(int descriptor) { return setns(descriptor, CLONE_NEWNET); }

int clinux_unshare_network_namespace(void) { return unshare(CLONE_NEWNET); }

int clinux_pipe(int descriptors[2]) { return pipe2(descriptors, O_CLOEXEC); }

int clinux_close_from(posix_spawn_file_actions_t *actions, int descriptor) {
  return posix_spawn_file_actions_addclosefrom_np(actions, descriptor);
}

char **clinux_environment(void) { return environ; }

int clinux_memory_file(const char *name) { return memfd_create(name, MFD_CLOEXEC); }

int clinux_process_descriptor(pid_t process) { return (int)syscall(SYS_pidfd_open, process, 0); }

int clinux_descriptor_of(int process, int descriptor) {
  return (int)syscall(SYS_pidfd_getfd, process, descriptor, 0);
}

void clinux_adopt_orphans(void) { (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); }

int clinux_peer_process_descriptor(int socket) {
  enum { so_peerpidfd = 77 };  // include/uapi/asm-generic/socket.h
  int descriptor = -1;
  socklen_t size = sizeof(descriptor);
  return getsockopt(socket, SOL_SOCKET, so_peerpidfd, &descriptor, &size) == 0 ? descriptor : -1;
}

const char *clinux_entry_name(const struct dirent *entry) { return entry->d_name; }

// The first version (SCHED_ATTR_SIZE_VER0) of the struct in linux/sched/types.h, which on some
// systems cannot be included together with the C library's sched.h.
struct attributes {
  uint32_t size, policy;
  uint64_t flags;
  int32_t niceness;
  uint32_t priority;
  uint64_t runtime, deadline, period;
};

void clinux_trim_memory(void) { malloc_trim(0); }

// Unmaps the pages of those segments of a program or library that are never written. Private copies
// of written pages would be lost.
static int drop_pages(struct dl_phdr_info *info, size_t size, void *unused) {
  (void)size, (void)unused;
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
    if (segment->p_type != PT_LOAD || (segment->p_flags & PF_W)) continue;
    uintptr_t start = (info->dlpi_addr + segment->p_vaddr) / page * page;
    uintptr_t end = (info->dlpi_addr + segment->p_vaddr + segment->p_filesz) / page * page;
    if (end > start) madvise((void *)start, end - start, MADV_DONTNEED);
  }
  return 0;
}

void clinux_drop_program_pages(void) { dl_iterate_phdr(drop_pages, NULL); }

int clinux_use_slices(uint64_t nanoseconds) {
  struct attributes attributes = {0};
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) < 0) return -1;
  if (attributes.policy != SCHED_OTHER) return 0;
  attributes.runtime = nanoseconds;
  return (int)syscall(SYS_sched_setattr, 0, &attributes, 0);
}

void clinux_name_thread(const char *name) {
  pthread_setname_np(pthread_self(), name);
}

int clinux_receive_datagrams(int socket, void *buffer, size_t part, unsigned count,
                             struct clinux_datagram *datagrams) {
  enum { most = 32 };
  struct mmsghdr headers[most];
  struct iovec parts[most];
  struct sockaddr_nl senders[most];
  if (count > most) count = most;
  for (unsigned i = 0; i < count; i++) {
    parts[i] = (struct iovec){(char *)buffer + i * part, part};
    headers[i].msg_hdr = (struct msghdr){.msg_name = &senders[i],
                                         .msg_namelen = sizeof(senders[i]),
                                         .msg_iov = &parts[i],
                                         .msg_iovlen = 1};
  }
  int received = recvmmsg(socket, headers, count, MSG_WAITFORONE | MSG_TRUNC, NULL);
  for (int i = 0; i < received; i++) {
    int isNamed = headers[i].msg_hdr.msg_namelen == sizeof(senders[i]);
    datagrams[i] = (struct clinux_datagram){headers[i].msg_len, isNamed ? senders[i].nl_pid : UINT32_MAX};
  }
  return received;
}

// dev/note-version writes built-version.h. Only this file includes it, so a new commit compiles
// only this file again.
#ifdef CONND_RELEASE
#include "built-version.h"
#else
#define BUILT_VERSION ""
#endif

const char *clinux_built_version(void) { return BUILT_VERSION; }
