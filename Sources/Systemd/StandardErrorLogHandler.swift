import Glibc
public import Logging

/// Logs to standard error, one line per event: `connd: warning: text key=value`.
///
/// On a terminal, each line also has the time of day. Log collectors add the time themselves.
///
/// Thread-safety: a value; a line is one `write(2)`, so lines of several threads do not mix.
public struct StandardErrorLogHandler: LogHandler {
  public var metadata: Logger.Metadata = [:]
  public var metadataProvider: Logger.MetadataProvider?
  public var logLevel: Logger.Level

  private let identifier: String
  private let showsTime: Bool

  /// - Parameter identifier: The program's name, with which each line begins.
  public init(
    identifier: String, level: Logger.Level = .info,
    metadataProvider: Logger.MetadataProvider? = nil
  ) {
    self.init(
      identifier: identifier, level: level, metadataProvider: metadataProvider,
      showsTime: isatty(STDERR_FILENO) == 1)
  }

  init(
    identifier: String, level: Logger.Level, metadataProvider: Logger.MetadataProvider?,
    showsTime: Bool
  ) {
    self.identifier = identifier
    self.logLevel = level
    self.metadataProvider = metadataProvider
    self.showsTime = showsTime
  }

  public subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { self.metadata[key] }
    set { self.metadata[key] = newValue }
  }

  public func log(event: LogEvent) {
    var now = timespec()
    clock_gettime(CLOCK_REALTIME, &now)
    Self.write(self.line(for: event, at: now))
  }

  func line(for event: LogEvent, at time: timespec) -> String {
    let entry = LogEntry(event, metadata: self.metadata, provider: self.metadataProvider)
    let start = self.showsTime ? "\(Self.timeOfDay(time)) " : ""
    return "\(start)\(self.identifier): \(entry.level.rawValue): \(entry.line)\n"
  }

  /// Returns the local time as `HH:MM:SS.mmm`.
  private static func timeOfDay(_ time: timespec) -> String {
    var seconds = time.tv_sec
    var local = tm()
    localtime_r(&seconds, &local)
    func digits(_ number: Int, _ count: Int) -> String {
      let text = String(number)
      return String(repeating: "0", count: max(0, count - text.count)) + text
    }
    return [local.tm_hour, local.tm_min, local.tm_sec].map { digits(Int($0), 2) }
      .joined(separator: ":") + "." + digits(time.tv_nsec / 1_000_000, 3)
  }

  /// Writes the text as far as standard error accepts it. A failure cannot be reported anywhere.
  static func write(_ text: String) {
    var text = text
    text.withUTF8 { bytes in
      var written = 0
      while written < bytes.count {
        let result = Glibc.write(
          STDERR_FILENO, bytes.baseAddress.map { $0 + written }, bytes.count - written)
        if result < 0, errno == EINTR { continue }
        if result <= 0 { return }
        written += result
      }
    }
  }
}
