// Takes its passed sockets, and prints them, because a test itself cannot be passed any.

import Glibc
import Systemd

let passed = try PassedSockets.take()
for socket in passed.sockets {
  let closesOnExec = fcntl(socket.descriptor, F_GETFD) == FD_CLOEXEC
  print(socket.name, socket.descriptor, socket.kind, closesOnExec ? "closes on exec" : "stays")
}
print("listener", passed.unixListener?.descriptor ?? -1)
print("netlink", passed.netlinkRoute?.descriptor ?? -1)
print("a second time", try PassedSockets.take().sockets.count)
let variables = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"]
print("variables", variables.count { getenv($0) != nil })
