import ArgumentParser

/// A time span as users type it: `500ms`, `5s`, `1.5s`, `2m`, `1h`. A number alone is in seconds.
struct Timeout: Hashable, Sendable {
  var duration: Duration
  /// The text as typed, with its unit.
  var words: String
}

extension Timeout {
  /// - Throws: `ValidationError` that names the problem.
  static func reading(_ text: String) throws -> Timeout {
    if text.hasPrefix("-") { throw ValidationError("it must not be negative") }
    guard let timeout = Timeout(argument: text) else {
      throw ValidationError("expected 500ms, 5s, 2m or 1h; a number alone is in seconds")
    }
    return timeout
  }

  init?(argument: String) {
    let number = argument.prefix { ("0"..."9").contains($0) || $0 == "." }
    let milliseconds: Int64
    switch argument.dropFirst(number.count) {
    case "ms": milliseconds = 1
    case "s", "": milliseconds = 1_000
    case "m": milliseconds = 60_000
    case "h": milliseconds = 3_600_000
    default: return nil
    }
    let parts = number.split(separator: ".", omittingEmptySubsequences: false)
    guard let first = parts.first, let whole = Int64(first), whole <= 1_000_000_000 else {
      return nil
    }
    var duration: Duration = .milliseconds(whole * milliseconds)
    switch parts.count {
    case 1: break
    case 2:
      guard let fraction = Int64(parts[1]), parts[1].count <= 9 else { return nil }
      let scale = (0..<parts[1].count).reduce(Int64(1)) { scale, _ in scale * 10 }
      duration += .milliseconds(fraction * milliseconds) / Int(scale)
    default: return nil
    }
    self.duration = duration
    self.words = argument.last?.isNumber == true ? argument + "s" : argument
  }
}
