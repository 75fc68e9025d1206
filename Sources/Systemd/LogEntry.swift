import Connectivity
import Logging

/// A log event with all its metadata, in the order of display.
struct LogEntry {
  let level: Logger.Level
  let message: String
  let fields: [(key: String, value: String)]

  /// Merges the metadata. For equal keys, the statement takes precedence over the provider, and the
  /// provider over the logger.
  init(_ event: LogEvent, metadata: Logger.Metadata, provider: Logger.MetadataProvider?) {
    var merged = metadata
    if let provided = provider?.get() { merged.merge(provided) { $1 } }
    if let given = event.metadata { merged.merge(given) { $1 } }
    if let error = event.error, merged["error"] == nil { merged["error"] = "\(error)" }
    self.level = event.level
    self.message = event.message.description
    self.fields = merged.sorted { $0.key < $1.key }
      .map { (key: $0.key, value: Self.text($0.value)) }
  }

  /// The entry as one readable line: the message, then `key=value` for each field.
  var line: String {
    var line = self.message.escaped
    for field in self.fields { line += " \(field.key.escaped)=\(Self.quotedIfNeeded(field.value))" }
    return line
  }

  private static func text(_ value: Logger.Metadata.Value) -> String {
    switch value {
    case .string(let text): return text
    case .stringConvertible(let value): return value.description
    case .array(let values): return "[\(values.map(Self.text).joined(separator: ", "))]"
    case .dictionary(let values):
      let pairs = values.sorted { $0.key < $1.key }.map { "\($0.key): \(Self.text($0.value))" }
      return "{\(pairs.joined(separator: ", "))}"
    }
  }

  private static func quotedIfNeeded(_ value: String) -> String {
    let special: Set<Unicode.Scalar> = [" ", "\"", "="]
    guard value.isEmpty || value.unicodeScalars.contains(where: special.contains) else {
      return value.escaped
    }
    let quoted = value.split(separator: "\"", omittingEmptySubsequences: false)
    return "\"\(quoted.joined(separator: "\\\"").escaped)\""
  }
}
