import CLinux
import Glibc
import LinuxSupport

/// The settings that the process requests from the kernel and the C library before it starts
/// threads.
enum ProcessLimits {
  /// The number of descriptors to allow, because each subscriber needs one. The usual soft limit
  /// (1024) of shells and systemd is meant for select(2).
  private static let descriptors: rlim_t = 65_536
  /// A short scheduler slice in nanoseconds, which gets connd scheduled promptly on a busy machine.
  /// With the default of some milliseconds, connd would wait for other processes, including hostile
  /// clients, to use up their slice (EEVDF).
  private static let slice: UInt64 = 100_000

  static func apply() {
    var limit = rlimit()
    guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return }
    limit.rlim_cur = max(limit.rlim_cur, min(limit.rlim_max, self.descriptors))
    setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    clinux_use_slices(self.slice)
    // Few threads allocate much, so an arena for each would only scatter their memory.
    mallopt(M_ARENA_MAX, 1)
  }

  /// The number of clients for which descriptors remain after connd's own. A client takes one
  /// descriptor, or two if the kernel does not remember which process connected.
  static var maxClients: Int {
    var limit = rlimit()
    guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return .max }
    let descriptors = Int(clamping: limit.rlim_cur)
    let ofEach = PeerProcess.isRemembered ? 1 : 2
    return max(1, (descriptors - min(64, descriptors / 2)) / ofEach)
  }
}
