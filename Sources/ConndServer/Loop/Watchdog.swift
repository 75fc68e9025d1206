import Connectivity
import Systemd

/// Answers systemd's watchdog, if it is enabled.
struct Watchdog {
  private let notifier: Notifier
  /// When the next answer is due, or `nil` for never.
  private(set) var due: Instant?

  init(_ notifier: Notifier) { self.notifier = notifier }

  /// Sends the answer if it is due.
  mutating func answer(at now: Instant) {
    guard let interval = self.notifier.watchdogInterval, self.due.map({ $0 <= now }) ?? true else {
      return
    }
    self.notifier.watchdog()
    self.due = now.advanced(by: interval)
  }
}
