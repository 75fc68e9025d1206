internal import Logging
private import Synchronization

/// Logs each absence of connd once, and its return.
final class AbsenceLog: Sendable {
  private let logger: Logger?
  private let isAway = Mutex(false)

  /// - Parameter logger: `nil` logs nothing.
  init(_ logger: Logger?) { self.logger = logger }

  /// Notes that a connection to connd failed or ended, and logs it once, or again for another
  /// reason.
  func lost(_ error: any Error, again: Bool = false) {
    guard let logger = self.logger, !self.wasAway(true) || again else { return }
    logger.info("connd cannot be reached; looking for it", metadata: ["error": "\(error)"])
  }

  /// Notes that connd answers, and logs its return.
  func found() {
    guard let logger = self.logger, self.wasAway(false) else { return }
    logger.info("connd is back")
  }

  /// Records whether connd is away now, and returns whether it was.
  private func wasAway(_ isAway: Bool) -> Bool {
    self.isAway.withLock { wasAway in
      defer { wasAway = isAway }
      return wasAway
    }
  }
}
