import ArgumentParser
import Connectivity

/// A time span as users type it: `500ms`, `5s`, `2m`, `1h`, `1d`. A number alone is in seconds.
struct Timeout: Hashable, Sendable {
  var duration: Duration
  /// The text as typed, with its unit.
  var text: String
}

extension Timeout {
  /// - Throws: `ValidationError` that names the problem.
  static func reading(_ text: String) throws -> Timeout {
    if text.hasPrefix("-") { throw ValidationError("it must not be negative") }
    guard let timeout = Timeout(argument: text) else {
      throw ValidationError("expected \(Duration.notation)")
    }
    return timeout
  }

  init?(argument: String) {
    guard let duration = Duration(text: argument) else { return nil }
    self.duration = duration
    self.text = argument.last?.isNumber == true ? argument + "s" : argument
  }
}
