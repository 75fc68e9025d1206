import CSystemd
import Connectivity
import Glibc

/// Tells systemd how this service does: `sd_notify(3)`.
///
/// Where no service manager asked for notifications, as in a shell, every call does nothing.
///
/// Make one with ``fromEnvironment(onFailure:)`` at the start of `main`, while the process has one
/// thread: it reads the environment once and leaves it as it is, and nothing reads it afterwards.
///
/// Thread-safety: all methods may be called from any thread. ``status(_:)`` and ``watchdog()`` never
/// wait, so they also suit a thread that must not: what systemd has no room for is reported as a
/// failure (`EAGAIN`) and lost. The others wait for room for up to five seconds, since systemd acts
/// on their absence.
public struct Notifier: Sendable {
  /// Whether a service manager listens.
  public var isActive: Bool { self.socket != nil }

  /// How long systemd waits for a ``watchdog()`` before it ends the service (`WatchdogSec=`).
  /// Nil where systemd does not watch this process.
  public let watchdogTimeout: Duration?

  /// How often to call ``watchdog()``: half of ``watchdogTimeout``, as `sd_watchdog_enabled(3)`
  /// recommends. Nil where systemd does not watch this process.
  public var watchdogInterval: Duration? { self.watchdogTimeout.map { $0 / 2 } }

  private let socket: NotifySocket?
  private let onFailure: @Sendable (SystemdError) -> Void

  /// A notifier that reaches nobody.
  public static let inactive = Notifier(socket: nil, watchdogTimeout: nil, onFailure: { _ in })

  /// A notifier that reaches nobody, and is called as often as one that systemd watches.
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

  /// The notifier that `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID` describe.
  ///
  /// Not thread-safe: call it before the process starts threads.
  ///
  /// - Parameter onFailure: called, on the thread that notifies, with what kept a notification from
  ///   systemd. A service goes on regardless: being heard is the manager's interest.
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

  /// The service does what it is there for (`READY=1`).
  public func ready(status: String? = nil) {
    self.send(["READY=1"], status: status)
  }

  /// What `systemctl status` shows of the service: one line for a person.
  public func status(_ status: String) {
    self.send([], status: status, mayWait: false)
  }

  /// The service is alive (`WATCHDOG=1`). Call it every ``watchdogInterval`` from the loop whose
  /// hanging systemd should notice.
  public func watchdog() {
    self.send(["WATCHDOG=1"], mayWait: false)
  }

  /// The service is about to end (`STOPPING=1`).
  public func stopping(status: String? = nil) {
    self.send(["STOPPING=1"], status: status)
  }

  /// The service re-reads its configuration (`RELOADING=1`); ``reloaded(status:)`` has to follow.
  ///
  /// Bears the time too, by which a unit with `Type=notify-reload` (systemd 253) tells this reload
  /// from an earlier one. Older versions ignore it.
  public func reloading(status: String? = nil) {
    var now = timespec()
    clock_gettime(CLOCK_MONOTONIC, &now)
    let microseconds = Int64(now.tv_sec) * 1_000_000 + Int64(now.tv_nsec) / 1000
    self.send(["RELOADING=1", "MONOTONIC_USEC=\(microseconds)"], status: status)
  }

  /// The service has re-read its configuration, or keeps the one it had, and `status` says which.
  public func reloaded(status: String? = nil) {
    self.ready(status: status)
  }

  /// The service cannot go on (`ERRNO=`); it is about to exit.
  ///
  /// - Parameter errno: what `systemctl status` is to name as the cause.
  public func failed(errno: Int32, status: String) {
    self.send(["ERRNO=\(errno)"], status: status)
  }

  private func send(_ assignments: [String], status: String? = nil, mayWait: Bool = true) {
    guard let socket = self.socket else { return }
    var assignments = assignments
    // A line break would start another assignment.
    if let status { assignments.append("STATUS=\(status.printable)") }
    do throws(SystemdError) {
      try socket.send(assignments.joined(separator: "\n"), mayWait: mayWait)
    } catch {
      self.onFailure(error)
    }
  }
}
