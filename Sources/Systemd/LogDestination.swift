import Glibc
public import Logging

/// Where the log goes.
public enum LogDestination: Sendable, Hashable {
  /// The systemd journal, with fields.
  case journal
  /// Standard error, in readable lines.
  case standardError

  /// The journal where systemd connected standard error to it, else standard error.
  ///
  /// `JOURNAL_STREAM` alone does not tell: it is inherited by whatever a service starts. What counts
  /// is that it names the file that standard error still is (`systemd.exec(5)`).
  ///
  /// Not thread-safe, since it reads the environment: call it before the process starts threads.
  public static func fromEnvironment() -> LogDestination {
    let stream = getenv("JOURNAL_STREAM").map { String(cString: $0) }
    return Self.detect(journalStream: stream, descriptor: STDERR_FILENO)
  }

  static func detect(journalStream: String?, descriptor: Int32) -> LogDestination {
    var file = stat()
    guard let journalStream, fstat(descriptor, &file) == 0 else { return .standardError }
    return journalStream == "\(file.st_dev):\(file.st_ino)" ? .journal : .standardError
  }

  /// A handler that logs here.
  ///
  /// - Parameters:
  ///   - label: the logger's name.
  ///   - identifier: the program's name.
  ///   - level: the least severe level that is logged.
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

  /// Makes all of the process's loggers log here. At most once in a process, at its start.
  public func bootstrapLogging(identifier: String, level: Logger.Level) {
    LoggingSystem.bootstrap(
      { label, metadataProvider in
        self.handler(
          label: label, identifier: identifier, level: level, metadataProvider: metadataProvider)
      }, metadataProvider: nil)
  }
}
