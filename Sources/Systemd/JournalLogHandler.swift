import CSystemd
import Glibc
public import Logging

/// Logs to the systemd journal with fields: `journalctl -u connd CATEGORY=wifi`.
///
/// `MESSAGE` is the line that a terminal would show, including the metadata, so that plain
/// `journalctl` shows everything. Each metadata key is also a separate field, in upper case. `_`
/// replaces characters that the journal does not accept in a name.
///
/// Thread-safety: a value; `sd_journal_sendv(3)` may be called from any thread.
public struct JournalLogHandler: LogHandler {
  public var metadata: Logger.Metadata = [:]
  public var metadataProvider: Logger.MetadataProvider?
  public var logLevel: Logger.Level

  private let label: String
  private let identifier: String

  /// - Parameters:
  ///   - label: The logger's name, for the field `LOGGER`.
  ///   - identifier: The program's name, for the field `SYSLOG_IDENTIFIER`.
  public init(
    label: String, identifier: String, level: Logger.Level = .info,
    metadataProvider: Logger.MetadataProvider? = nil
  ) {
    self.label = label
    self.identifier = identifier
    self.logLevel = level
    self.metadataProvider = metadataProvider
  }

  public subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { self.metadata[key] }
    set { self.metadata[key] = newValue }
  }

  public func log(event: LogEvent) {
    let entry = LogEntry(event, metadata: self.metadata, provider: self.metadataProvider)
    if !Self.send(self.fields(of: entry, from: event)) {
      // If systemd started the process, standard error goes to the journal too. The journal accepts
      // the priority as a prefix (sd-daemon(3)).
      StandardErrorLogHandler.write("<\(Self.priority(entry.level))>\(entry.line)\n")
    }
  }

  /// Returns the fields for the journal, as `NAME=value`.
  func fields(of entry: LogEntry, from event: LogEvent) -> [String] {
    var fields = [
      "MESSAGE=\(entry.line)",
      "PRIORITY=\(Self.priority(entry.level))",
      "SYSLOG_IDENTIFIER=\(self.identifier)",
      "LOGGER=\(self.label)",
      "CODE_FILE=\(event.file)",
      "CODE_LINE=\(event.line)",
      "CODE_FUNC=\(event.function)",
    ]
    for field in entry.fields {
      if let name = Self.fieldName(field.key) { fields.append("\(name)=\(field.value)") }
    }
    return fields
  }

  /// Returns the syslog severity. swift-log has no alert and emergency, and syslog has no trace.
  static func priority(_ level: Logger.Level) -> Int32 {
    switch level {
    case .critical: LOG_CRIT
    case .error: LOG_ERR
    case .warning: LOG_WARNING
    case .notice: LOG_NOTICE
    case .info: LOG_INFO
    case .debug, .trace: LOG_DEBUG
    }
  }

  /// Returns the journal's name for a metadata key, or `nil` if no valid characters remain.
  ///
  /// A name consists of A–Z, 0–9 and `_`, starts with a letter and has at most 64 characters.
  /// journald silently drops fields with other names. A key that equals one of this handler's own
  /// fields gets a trailing `_`.
  static func fieldName(_ key: String) -> String? {
    var name = ""
    var previousIsLower = false
    for byte in key.utf8 {
      let scalar = Unicode.Scalar(byte)
      switch scalar {
      case "a"..."z":
        name.unicodeScalars.append(Unicode.Scalar(byte - 0x20))
      case "A"..."Z":
        // lowerCamelCase, as in this project's JSON, becomes LOWER_CAMEL_CASE.
        if previousIsLower { name += "_" }
        name.unicodeScalars.append(scalar)
      case "0"..."9":
        name.unicodeScalars.append(scalar)
      default:
        name += "_"
      }
      previousIsLower = ("a"..."z").contains(scalar)
    }
    // A leading `_` is reserved for journald, and a leading digit is not allowed.
    let trimmed = name.drop { $0 == "_" || $0.isNumber }
    guard !trimmed.isEmpty else { return nil }
    let shortened = String(trimmed.prefix(63))
    return Self.ownFields.contains(shortened) ? shortened + "_" : shortened
  }

  private static let ownFields: Set<String> = [
    "MESSAGE", "PRIORITY", "SYSLOG_IDENTIFIER", "LOGGER", "CODE_FILE", "CODE_LINE", "CODE_FUNC",
  ]

  /// - Returns: Whether the journal accepted the entry.
  private static func send(_ fields: [String]) -> Bool {
    var bytes: [UInt8] = []
    let lengths = fields.map { field in
      bytes.append(contentsOf: field.utf8)
      return field.utf8.count
    }
    return bytes.withUnsafeMutableBytes { buffer in
      var offset = 0
      let vectors = lengths.map { length in
        defer { offset += length }
        return iovec(iov_base: buffer.baseAddress.map { $0 + offset }, iov_len: length)
      }
      return sd_journal_sendv(vectors, Int32(vectors.count)) >= 0
    }
  }
}
