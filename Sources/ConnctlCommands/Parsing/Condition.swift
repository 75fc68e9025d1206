import ArgumentParser
import Connectivity

/// A condition of `is`, `wait`, `run` and `keep`: a word, or `not-` and a word.
///
/// Implements rule I8.
struct Condition: Hashable, Sendable {
  enum Subject: String, Hashable, Sendable, CaseIterable {
    case online, none, wifi, cellular, wired, other, ipv4, ipv6, metered, constrained, ultra
    case validated
    /// The API's word for `metered`, which scripts may use.
    case expensive

    /// The subjects to show to users, without aliases.
    static let shown = Self.allCases.filter { $0 != .expensive }
  }

  var subject: Subject
  var negated = false

  /// Returns whether the condition holds. If the cost is unknown, neither `metered` nor
  /// `not-metered` holds. The same applies to `validated` if no source has checked the path.
  func holds(for status: ConnectivityStatus) -> Bool {
    self.subject.isMet(by: status).map { $0 != self.negated } ?? false
  }

  /// Why a condition does not hold.
  struct Obstacle: Hashable {
    var text: String
    /// Whether only the user can change it: nothing else decides the condition.
    var needsDecision = false
  }

  /// Returns why the condition does not hold, and how to decide one that is unknown.
  func obstacle(in status: ConnectivityStatus) -> Obstacle {
    guard self.subject.isMet(by: status) == nil else {
      let portal = self.subject == .validated ? status.path.validation.text : ""
      return Obstacle(text: status.summary + portal)
    }
    if self.subject == .validated {
      let text = "\(status.summary), not checked\(status.path.validation.text)"
      guard status.category.isOnline else { return Obstacle(text: text) }
      return Obstacle(
        text: text + ": only NetworkManager's connectivity check decides it", needsDecision: true)
    }
    guard status.category.isOnline, let interface = status.interface else {
      return Obstacle(text: status.summary + ", cost unknown")
    }
    let choice = self.negated ? "off" : "on"
    return Obstacle(
      text:
        "\(status.summary), cost unknown: decide it with “connctl metered \(interface) \(choice)”",
      needsDecision: true)
  }

  /// The text `online, none, …`.
  static let choice = Subject.shown.map(\.rawValue).joined(separator: ", ")

  static let all: [Condition] = [false, true].flatMap { negated in
    Subject.shown.map { Condition(subject: $0, negated: negated) }
  }
}

extension Condition.Subject {
  /// Returns whether the status matches the subject, or `nil` if unknown.
  fileprivate func isMet(by status: ConnectivityStatus) -> Bool? {
    switch self {
    // Also true if the kernel cannot be queried: most machines are online even then (K8).
    case .online: status.category.isOnline
    case .none: status.category == .offline
    case .wifi: status.category == .wifi
    case .cellular: status.category == .cellular
    case .wired: status.category == .wired
    case .other: status.category == .other
    case .ipv4: status.ipv4.status == .satisfied
    case .ipv6: status.ipv6.status == .satisfied
    case .metered, .expensive: status.path.isExpensive
    case .constrained: status.isConstrained
    case .ultra: status.path.constraint == .ultra
    case .validated: status.path.validation.isValidated
    }
  }
}

extension Condition: CustomStringConvertible {
  init?(argument: String) {
    self.negated = argument.hasPrefix("not-")
    guard let subject = Subject(rawValue: String(argument.dropFirst(self.negated ? 4 : 0))) else {
      return nil
    }
    self.subject = subject
  }

  /// - Throws: `ValidationError` that names the word, a similar condition and all conditions.
  static func reading(_ text: String) throws -> Condition {
    if let condition = Condition(argument: text) { return condition }
    let meant = self.hint(for: text) ?? text.nearest(of: self.allNames)
    let suggestion = meant.map { ". Did you mean '\($0)'?" } ?? "."
    throw ValidationError(
      "unknown condition '\(text)'\(suggestion) Conditions: \(self.choice). Put not- before one to negate it."
    )
  }

  /// Parses several conditions, separated by commas.
  static func readingAll(_ text: String) throws -> [Condition] {
    try text.split(separator: ",", omittingEmptySubsequences: false).map {
      try self.reading(String($0))
    }
  }

  /// Returns the condition that a word means, such as `none` for `offline`, or `nil` if unknown.
  static func hint(for word: String) -> String? {
    if Condition(argument: word) != nil { return word }
    return switch word {
    case "offline", "disconnected": "none"
    case "internet": "validated"
    case "portal", "captive": "not-validated"
    case "up", "connected": "online"
    case "unmetered", "free": "not-metered"
    case "ethernet", "cable", "lan": "wired"
    case "wlan", "wireless": "wifi"
    case "mobile", "wwan", "lte": "cellular"
    case "ultraconstrained", "ultra-constrained", "satellite", "2g": "ultra"
    default: nil
    }
  }

  static var allNames: [String] { Self.all.map(\.description) }

  var description: String { (self.negated ? "not-" : "") + self.subject.rawValue }
}
