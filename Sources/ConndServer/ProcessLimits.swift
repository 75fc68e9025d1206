import CLinux
import Glibc
import UnixTransport

/// What the process asks of the kernel and the C library for itself, before it starts threads.
enum ProcessLimits {
  /// Each subscriber is a descriptor, and the soft limit that shells and systemd give (1024) is meant for select(2).
  private static let descriptors: rlim_t = 65_536
  /// Who asks for short ones is soon there when it wakes, beside whoever keeps the processors busy, clients that mean harm
  /// among them: the kernel's own, of some milliseconds, would be waited for to their end (EEVDF). In nanoseconds.
  private static let slice: UInt64 = 100_000

  static func apply() {
    var limit = rlimit()
    guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return }
    limit.rlim_cur = max(limit.rlim_cur, min(limit.rlim_max, self.descriptors))
    setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    clinux_use_slices(self.slice)
    // Few threads allocate much: an arena for each would only spread their memory.
    mallopt(M_ARENA_MAX, 1)
  }

  /// How many clients there are descriptors for, beside those that connd needs for itself. A client
  /// takes one, or two if the kernel does not remember which process connected.
  static var maxClients: Int {
    var limit = rlimit()
    guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return .max }
    let descriptors = Int(clamping: limit.rlim_cur)
    let ofEach = PeerProcess.isRemembered ? 1 : 2
    return max(1, (descriptors - min(64, descriptors / 2)) / ofEach)
  }
}
