import CSystemd
import Connectivity
import Glibc

/// Reports the state of this service to systemd: `sd_notify(3)`.
///
/// If no service manager expects notifications, as in a shell, every call does nothing.
///
/// Create a notifier with ``fromEnvironment(onFailure:)`` at the start of `main`, while the process
/// has one thread. That call reads the environment once and leaves it unchanged.
///
/// Thread-safety: all methods may be called from any thread. ``status(_:)`` and ``watchdog()``
/// never block, so they also suit a thread that must not block. If systemd's queue is full, they
/// drop the notification and report a failure (`EAGAIN`). The other methods wait up to five
/// seconds, because systemd acts on missing notifications.
public struct Notifier: Sendable {
  /// Whether a service manager expects notifications.
  public var isActive: Bool { self.socket != nil }

  /// How long systemd waits for a ``watchdog()`` before it ends the service (`WatchdogSec=`), or
  /// `nil` if systemd does not watch this process.
  public let watchdogTimeout: Duration?

  /// How often to call ``watchdog()``, or `nil` if systemd does not watch this process. It is half
  /// of ``watchdogTimeout``, as `sd_watchdog_enabled(3)` recommends.
  public var watchdogInterval: Duration? { self.watchdogTimeout.map { $0 / 2 } }

  private let socket: NotifySocket?
  private let onFailure: @Sendable (SystemdError) -> Void

  /// A notifier that sends nothing.
  public static let inactive = Notifier(socket: nil, watchdogTimeout: nil, onFailure: { _ in })

  /// Returns a notifier that sends nothing, but has a watchdog interval.
  public static func silent(watchdogTimeout: Duration?) -> Notifier {
    Notifier(socket: nil, watchdogTimeout: watchdogTimeout, onFailure: { _ in })
  }

  init(
    socket: NotifySocket?, watchdogTimeout: Duration?,
    onFailure: @escaping @Sendable (SystemdError) -> Void
  ) {
    self.socket = socket
    self.watchdogTimeout = watchdogTimeout
    self.onFailure = onFailure
  }

  /// Returns the notifier that `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID` describe.
  ///
  /// Not thread-safe: call it before the process starts threads.
  ///
  /// - Parameter onFailure: Called on the notifying thread with the reason why a notification was
  ///   not sent. The service should continue, because only the manager needs notifications.
  public static func fromEnvironment(
    onFailure: @escaping @Sendable (SystemdError) -> Void = { _ in }
  ) -> Notifier {
    guard let name = getenv("NOTIFY_SOCKET").map({ String(cString: $0) }), !name.isEmpty else {
      return .inactive
    }
    do throws(SystemdError) {
      let socket = try NotifySocket(name: name)
      return Notifier(
        socket: socket, watchdogTimeout: Self.watchdogFromEnvironment(onFailure: onFailure),
        onFailure: onFailure)
    } catch {
      onFailure(error)
      return .inactive
    }
  }

  private static func watchdogFromEnvironment(
    onFailure: (SystemdError) -> Void
  ) -> Duration? {
    var microseconds: UInt64 = 0
    let result = sd_watchdog_enabled(0, &microseconds)
    if result < 0 { onFailure(SystemdError("WATCHDOG_USEC", errno: -result)) }
    return result > 0 ? .microseconds(Int64(clamping: microseconds)) : nil
  }

  /// Reports that the service is ready (`READY=1`).
  public func ready(status: String? = nil) {
    self.send(["READY=1"], status: status)
  }

  /// Sets the one-line status that `systemctl status` shows.
  public func status(_ status: String) {
    self.send([], status: status, mayWait: false)
  }

  /// Reports that the service is alive (`WATCHDOG=1`). Call it every ``watchdogInterval`` from the
  /// loop that systemd should watch for hangs.
  public func watchdog() {
    self.send(["WATCHDOG=1"], mayWait: false)
  }

  /// Reports that the service is about to end (`STOPPING=1`).
  public func stopping(status: String? = nil) {
    self.send(["STOPPING=1"], status: status)
  }

  /// Reports that the service re-reads its configuration (`RELOADING=1`). ``reloaded(status:)``
  /// must follow.
  ///
  /// Includes the time, by which a unit with `Type=notify-reload` (systemd 253) distinguishes this
  /// reload from an earlier one. Older versions ignore it.
  public func reloading(status: String? = nil) {
    var now = timespec()
    clock_gettime(CLOCK_MONOTONIC, &now)
    let microseconds = Int64(now.tv_sec) * 1_000_000 + Int64(now.tv_nsec) / 1000
    self.send(["RELOADING=1", "MONOTONIC_USEC=\(microseconds)"], status: status)
  }

  /// Reports that the service has re-read its configuration, or keeps the old one. `status` states
  /// which.
  public func reloaded(status: String? = nil) {
    self.ready(status: status)
  }

  /// Reports that the service cannot continue and is about to exit (`ERRNO=`).
  ///
  /// - Parameter errno: The cause for `systemctl status`.
  public func failed(errno: Int32, status: String) {
    self.send(["ERRNO=\(errno)"], status: status)
  }

  private func send(_ assignments: [String], status: String? = nil, mayWait: Bool = true) {
    guard let socket = self.socket else { return }
    var assignments = assignments
    // A line break would begin another assignment.
    if let status { assignments.append("STATUS=\(status.printable)") }
    do throws(SystemdError) {
      try socket.send(assignments.joined(separator: "\n"), mayWait: mayWait)
    } catch {
      self.onFailure(error)
    }
  }
}
