// Preloaded into a program: its TCP sockets use Multipath TCP, as with mptcpize(8).
#define _GNU_SOURCE
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP 262
#endif

int socket(int family, int type, int protocol) {
  int kind = type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK);
  if ((family == AF_INET || family == AF_INET6) && kind == SOCK_STREAM &&
      (protocol == 0 || protocol == IPPROTO_TCP))
    protocol = IPPROTO_MPTCP;
  return (int)syscall(SYS_socket, family, type, protocol);
}
