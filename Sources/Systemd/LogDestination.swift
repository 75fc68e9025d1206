import Glibc
public import Logging

/// The destination of the log.
public enum LogDestination: Sendable, Hashable {
  /// The systemd journal, with fields.
  case journal
  /// Standard error, in readable lines.
  case standardError

  /// Returns the journal if systemd connected standard error to it, or else standard error.
  ///
  /// `JOURNAL_STREAM` alone is not sufficient, because child processes of a service inherit it. It
  /// must name the file that standard error currently is (`systemd.exec(5)`).
  ///
  /// Not thread-safe, because it reads the environment: call it before the process starts threads.
  public static func fromEnvironment() -> LogDestination {
    let stream = getenv("JOURNAL_STREAM").map { String(cString: $0) }
    return Self.detect(journalStream: stream, descriptor: STDERR_FILENO)
  }

  static func detect(journalStream: String?, descriptor: Int32) -> LogDestination {
    var file = stat()
    guard let journalStream, fstat(descriptor, &file) == 0 else { return .standardError }
    return journalStream == "\(file.st_dev):\(file.st_ino)" ? .journal : .standardError
  }

  /// Returns a handler for this destination.
  ///
  /// - Parameters:
  ///   - label: The logger's name.
  ///   - identifier: The program's name.
  ///   - level: The minimum level.
  public func handler(
    label: String, identifier: String, level: Logger.Level,
    metadataProvider: Logger.MetadataProvider? = nil
  ) -> any LogHandler {
    switch self {
    case .journal:
      JournalLogHandler(
        label: label, identifier: identifier, level: level, metadataProvider: metadataProvider)
    case .standardError:
      StandardErrorLogHandler(
        identifier: identifier, level: level, metadataProvider: metadataProvider)
    }
  }

  /// Sets this destination for all loggers of the process. Call it at most once, at the start of
  /// the process.
  public func bootstrapLogging(identifier: String, level: Logger.Level) {
    LoggingSystem.bootstrap(
      { label, metadataProvider in
        self.handler(
          label: label, identifier: identifier, level: level, metadataProvider: metadataProvider)
      }, metadataProvider: nil)
  }
}
