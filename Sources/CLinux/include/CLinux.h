// The Linux interfaces that Swift's Glibc module lacks: the kernel's uapi headers, and what the C
// library declares only for _GNU_SOURCE. That macro is not defined here, because Swift's Glibc
// module is built without it, and the two would disagree about fd_set.
#pragma once

#include <dirent.h>
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

/// Values of `IFLA_IPTUN_*` and `IFLA_GRE_*`. Their header, linux/if_tunnel.h, cannot be included
/// together with the C library's netinet headers. The numbers are ABI.
enum {
  CLINUX_IFLA_IPTUN_LOCAL = 2,
  CLINUX_IFLA_IPTUN_REMOTE = 3,
  CLINUX_IFLA_IPTUN_6RD_PREFIX = 11,
  CLINUX_IFLA_IPTUN_6RD_RELAY_PREFIX = 12,
  CLINUX_IFLA_IPTUN_6RD_PREFIXLEN = 13,
  CLINUX_IFLA_IPTUN_6RD_RELAY_PREFIXLEN = 14,
  CLINUX_IFLA_IPTUN_COLLECT_METADATA = 19,
  CLINUX_IFLA_IPTUN_FWMARK = 20,
  CLINUX_IFLA_GRE_LOCAL = 6,
  CLINUX_IFLA_GRE_REMOTE = 7,
  CLINUX_IFLA_GRE_COLLECT_METADATA = 18,
  CLINUX_IFLA_GRE_FWMARK = 20
};

/// The kinds of `RTA_ENCAP` that contain a destination, and their attributes. Their headers
/// (linux/lwtunnel.h, linux/seg6_iptunnel.h, linux/ioam6_iptunnel.h) include that of struct
/// in6_addr. The numbers are ABI.
enum {
  CLINUX_LWTUNNEL_ENCAP_IP = 2,
  CLINUX_LWTUNNEL_ENCAP_IP6 = 4,
  CLINUX_LWTUNNEL_ENCAP_SEG6 = 5,
  CLINUX_LWTUNNEL_ENCAP_IOAM6 = 9,
  CLINUX_LWTUNNEL_IP_DST = 2,
  CLINUX_LWTUNNEL_IP_SRC = 3,
  CLINUX_SEG6_IPTUNNEL_SRH = 1,
  CLINUX_IOAM6_IPTUNNEL_DST = 2
};

/// `struct ucred`.
struct clinux_credentials {
  pid_t pid;
  uid_t uid;
  gid_t gid;
};

/// Reads SO_PEERCRED of a connected Unix socket. Returns -1 and sets errno if it fails.
int clinux_peer_credentials(int socket, struct clinux_credentials *credentials);

/// Calls accept4(2) with SOCK_NONBLOCK and SOCK_CLOEXEC. Returns the connection, or -1 and sets
/// errno if none is waiting.
int clinux_accept(int listener);

/// Calls setns(2): moves the calling thread into the network namespace of `descriptor`.
int clinux_enter_network_namespace(int descriptor);

/// Calls unshare(2): moves the calling thread into a new network namespace.
int clinux_unshare_network_namespace(void);

/// Calls pipe2(2) with O_CLOEXEC.
int clinux_pipe(int descriptors[2]);

/// Calls posix_spawn_file_actions_addclosefrom_np(3): the new process inherits only lower
/// descriptors.
int clinux_close_from(posix_spawn_file_actions_t *actions, int descriptor);

/// Returns the arguments of main, ending with NULL.
char **clinux_arguments(void);

/// Returns environ(7), which Swift considers mutable shared state.
char **clinux_environment(void);

/// Calls memfd_create(2) with MFD_CLOEXEC.
int clinux_memory_file(const char *name);

/// Calls pidfd_open(2). The descriptor is close-on-exec, and polls readable when the process has
/// ended.
int clinux_process_descriptor(pid_t process);

/// Calls pidfd_getfd(2), since Linux 5.6: duplicates a descriptor of another process. The duplicate
/// is close-on-exec. Returns -1 and sets errno if it fails.
int clinux_descriptor_of(int process, int descriptor);

/// Makes this process the parent of all its orphaned descendants (PR_SET_CHILD_SUBREAPER).
void clinux_adopt_orphans(void);

/// SO_PEERPIDFD, since Linux 6.5: a pidfd, close-on-exec, of the process that opened the other end
/// of a connected Unix socket. Returns -1 and sets errno if it fails: to ENOPROTOOPT if the kernel
/// does not have the option.
int clinux_peer_process_descriptor(int socket);

/// Returns the name of a directory entry, valid as long as the entry. `d_name` is declared longer
/// than most entries. Swift copies all of it, and so would read beyond the entry.
const char *clinux_entry_name(const struct dirent *entry);

/// Calls sched_setattr(2): gives the calling thread, and threads that it starts, a slice of this
/// many nanoseconds. Changes nothing else. Has no effect before Linux 6.12. Returns -1 and sets
/// errno if it fails.
int clinux_use_slices(uint64_t nanoseconds);

/// Calls malloc_trim(3): returns freed memory to the system.
void clinux_trim_memory(void);

/// Calls madvise(2) with MADV_DONTNEED for the code and constants of the program and its libraries.
/// The kernel maps the pages again, from its page cache, when they are used.
void clinux_drop_program_pages(void);

/// Calls pthread_setname_np(3) for the calling thread. The name is limited to 15 bytes.
void clinux_name_thread(const char *name);

/// A datagram read from a netlink socket by `clinux_receive_datagrams`.
struct clinux_datagram {
  /// Its full size, which may exceed the bytes that were read.
  size_t size;
  /// The port of its sender: 0 for the kernel, UINT32_MAX if the sender is unknown.
  uint32_t sender;
};

/// Calls recvmmsg(2) on a netlink socket: waits for a datagram, and reads up to 32 waiting ones.
/// Each uses `part` bytes of the buffer. Returns their number, or -1 and sets errno if it fails.
int clinux_receive_datagrams(int socket, void *buffer, size_t part, unsigned count,
                             struct clinux_datagram *datagrams);

/// The version with the commit, as `make release` writes it: `0.1.0~git20261128101500.5f696ff`.
/// Empty in other builds.
const char *clinux_built_version(void);
