// The Linux interfaces that Swift's Glibc module leaves out: the kernel's uapi headers, and what the C library
// declares for _GNU_SOURCE only. That macro is not defined here: Swift's Glibc module is built without it, and the
// two would disagree about fd_set.
#pragma once

#include <malloc.h>
#include <poll.h>
#include <spawn.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/types.h>
#include <sys/un.h>

#include <linux/fib_rules.h>
#include <linux/filter.h>
#include <linux/genetlink.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/inet_diag.h>
#include <linux/neighbour.h>
#include <linux/netconf.h>
#include <linux/netlink.h>
#include <linux/nexthop.h>
#include <linux/nl80211.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>

/// Of `IFLA_IPTUN_*` and `IFLA_GRE_*`: their header, linux/if_tunnel.h, cannot be had together with the C
/// library's netinet headers. The numbers are ABI.
enum {
  CLINUX_IFLA_IPTUN_LOCAL = 2,
  CLINUX_IFLA_IPTUN_REMOTE = 3,
  CLINUX_IFLA_IPTUN_FWMARK = 20,
  CLINUX_IFLA_GRE_LOCAL = 6,
  CLINUX_IFLA_GRE_REMOTE = 7,
  CLINUX_IFLA_GRE_FWMARK = 20
};

/// `struct ucred`.
struct clinux_credentials {
  pid_t pid;
  uid_t uid;
  gid_t gid;
};

/// What SO_PEERCRED says of the other end of a connected Unix socket; -1 and errno where it fails.
int clinux_peer_credentials(int socket, struct clinux_credentials *credentials);

/// accept4(2) with SOCK_NONBLOCK and SOCK_CLOEXEC: a connection; -1 and errno where there is none.
int clinux_accept(int listener);

/// setns(2) of the calling thread into the network namespace that `descriptor` stands for.
int clinux_enter_network_namespace(int descriptor);

/// unshare(2) of the calling thread into a new network namespace.
int clinux_unshare_network_namespace(void);

/// pipe2(2) with O_CLOEXEC.
int clinux_pipe(int descriptors[2]);

/// posix_spawn_file_actions_addclosefrom_np(3): the new process has no descriptors but those below.
int clinux_close_from(posix_spawn_file_actions_t *actions, int descriptor);

/// environ(7), which Swift takes for anybody's to change.
char **clinux_environment(void);

/// memfd_create(2) with MFD_CLOEXEC.
int clinux_memory_file(const char *name);

/// pidfd_open(2): a descriptor, close-on-exec, that polls readable when the process has ended.
int clinux_process_descriptor(pid_t process);

/// sched_setattr(2) of the calling thread, and of those that it starts: a slice of so many nanoseconds, and all else as it is.
/// Before Linux 6.12 that changes nothing. Returns -1 and errno where it fails.
int clinux_use_slices(uint64_t nanoseconds);

/// malloc_trim(3): gives memory that was freed back to the system.
void clinux_trim_memory(void);

/// pthread_setname_np(3) of the calling thread; at most 15 bytes of the name count.
void clinux_name_thread(const char *name);

/// A datagram of a netlink socket, as `clinux_receive_datagrams` has read it.
struct clinux_datagram {
  /// Its own size, which may be more than what could be read of it.
  size_t size;
  /// The port of its sender: 0 is the kernel's, UINT32_MAX that of nobody who is known.
  uint32_t sender;
};

/// recvmmsg(2) of a netlink socket: waits for a datagram, and reads also those that wait behind it, at most 32. Each has a part
/// of the buffer, `part` bytes long. Returns how many there were; -1 and errno where it fails.
int clinux_receive_datagrams(int socket, void *buffer, size_t part, unsigned count,
                             struct clinux_datagram *datagrams);
