import Logging

/// A log event with all metadata that belongs to it, in the order in which it is shown.
struct LogEntry {
  let level: Logger.Level
  let message: String
  let fields: [(key: String, value: String)]

  /// Where a key is given more than once, the statement beats the provider, which beats the logger.
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

  /// The entry as one line for a person: the message, then `key=value` for each field.
  var line: String {
    var line = Self.visible(self.message)
    for field in self.fields {
      line += " \(Self.visible(field.key))=\(Self.quotedWhereNeeded(field.value))"
    }
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

  private static func quotedWhereNeeded(_ value: String) -> String {
    let special: Set<Unicode.Scalar> = [" ", "\"", "="]
    guard value.isEmpty || value.unicodeScalars.contains(where: special.contains) else {
      return Self.visible(value)
    }
    return "\"\(Self.visible(value, inQuotes: true))\""
  }

  /// Control characters as escapes: what others named (links, clients) must neither forge a line
  /// nor speak to the terminal.
  private static func visible(_ text: String, inQuotes: Bool = false) -> String {
    text.unicodeScalars.reduce(into: "") { result, scalar in
      switch scalar.value {
      case 0..<0x20, 0x7f...0x9f: result += scalar.escaped(asASCII: true)
      case 0x22 where inQuotes: result += "\\\""
      default: result.unicodeScalars.append(scalar)
      }
    }
  }
}
