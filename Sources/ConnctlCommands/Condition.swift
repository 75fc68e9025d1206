import ArgumentParser
import Connectivity

/// What `is` and `wait` ask about: a word, or `not-` and a word.
struct Condition: Hashable, Sendable {
  enum Subject: String, Hashable, Sendable, CaseIterable {
    case online, none, wifi, cellular, wired, other, ipv4, ipv6, expensive, constrained
  }

  var subject: Subject
  var negated = false

  func holds(for status: Status) -> Bool {
    self.subject.holds(for: status) != self.negated
  }

  static let all: [Condition] = [false, true].flatMap { negated in
    Subject.allCases.map { Condition(subject: $0, negated: negated) }
  }
}

extension Condition.Subject {
  fileprivate func holds(for status: Status) -> Bool {
    switch self {
    // Also where the kernel cannot be asked: a script that gives up then would be wrong on most machines (K8).
    case .online: status.category.isOnline
    case .none: status.category == .none
    case .wifi: status.category == .wifi
    case .cellular: status.category == .cellular
    case .wired: status.category == .wired
    case .other: status.category == .other
    case .ipv4: status.ipv4.status == .satisfied
    case .ipv6: status.ipv6.status == .satisfied
    case .expensive: status.expensive
    case .constrained: status.constrained
    }
  }
}

extension Condition: ExpressibleByArgument, CustomStringConvertible {
  init?(argument: String) {
    self.negated = argument.hasPrefix("not-")
    guard let subject = Subject(rawValue: String(argument.dropFirst(self.negated ? 4 : 0))) else {
      return nil
    }
    self.subject = subject
  }

  static var allValueStrings: [String] { Self.all.map(\.description) }
  static var defaultCompletionKind: CompletionKind { .list(Self.allValueStrings) }

  var description: String { (self.negated ? "not-" : "") + self.subject.rawValue }
}
