package import Connectivity

/// What tells one network from another for whoever has no more than this: a keyed hash, by which nobody without the machine's key
/// finds out which network it is.
package struct NetworkHash: Hashable, Sendable, CustomStringConvertible {
  package var value: UInt64

  package init(_ value: UInt64) { self.value = value }

  /// Sixteen hexadecimal digits.
  package var description: String {
    let digits = String(self.value, radix: 16)
    return String(repeating: "0", count: 16 - digits.count) + digits
  }

  /// `nil` for anything but sixteen hexadecimal digits.
  package init?(_ text: String) {
    guard text.utf8.count == 16 else { return nil }
    self.value = 0
    // A start reads a thousand: Swift's own reading of a number takes thirty times as long.
    for octet in text.utf8 {
      switch octet {
      case UInt8(ascii: "0")...UInt8(ascii: "9"): self.add(octet - UInt8(ascii: "0"))
      case UInt8(ascii: "a")...UInt8(ascii: "f"): self.add(octet - UInt8(ascii: "a") + 10)
      case UInt8(ascii: "A")...UInt8(ascii: "F"): self.add(octet - UInt8(ascii: "A") + 10)
      default: return nil
      }
    }
  }

  private mutating func add(_ digit: UInt8) { self.value = self.value << 4 | UInt64(digit) }
}

/// What a user has said of a link or a network. What is `nil` is left to connd.
package struct CostChoice: Hashable, Sendable {
  /// When it is over by itself.
  package enum End: Hashable, Sendable {
    /// By the wall clock.
    case time(Timestamp)
    /// When the machine starts anew.
    case boot
    /// When the traffic goes by another network.
    case left
  }

  /// What is said of one property.
  package struct Setting: Hashable, Sendable {
    package var isOn: Bool
    /// `nil`: it holds until somebody says otherwise.
    package var end: End?

    package init(_ isOn: Bool, until end: End? = nil) {
      self.isOn = isOn
      self.end = end
    }

    package static let on = Setting(true)
    package static let off = Setting(false)
  }

  package var constrained: Setting?
  package var expensive: Setting?
  /// Who has said it last.
  package var user: UInt32

  package init(constrained: Setting? = nil, expensive: Setting? = nil, user: UInt32) {
    self.constrained = constrained
    self.expensive = expensive
    self.user = user
  }

  /// It says nothing.
  package var isEmpty: Bool { self.constrained == nil && self.expensive == nil }

  /// When the parts of it end.
  package var ends: [End] { [self.constrained?.end, self.expensive?.end].compactMap { $0 } }

  /// What is left of it when some ends have come.
  fileprivate func ending(_ isOver: (End) -> Bool) -> CostChoice {
    func rest(_ setting: Setting?) -> Setting? {
      setting.flatMap { $0.end.map(isOver) ?? false ? nil : $0 }
    }
    return CostChoice(
      constrained: rest(self.constrained), expensive: rest(self.expensive), user: self.user)
  }
}

/// What users have said of links and of networks; of the same one the last holds.
package struct CostChoices: Hashable, Sendable {
  /// What is spoken of.
  package enum Subject: Hashable, Sendable, CustomStringConvertible {
    /// By its name.
    case link(String)
    case network(NetworkHash)

    package var description: String {
      switch self {
      case .link(let name): name
      case .network(let network): network.description
      }
    }
  }

  package private(set) var all: [Subject: CostChoice] {
    didSet { self.summary = Summary(self.all) }
  }
  /// What every turn asks for, which does not depend on how many there are.
  private var summary: Summary

  package init(_ all: [Subject: CostChoice] = [:]) {
    self.all = all
    self.summary = Summary(all)
  }

  private struct Summary: Hashable {
    var concernNetworks = false
    var endWithNetworks = false
    var nextEnd: Timestamp?

    init(_ all: [Subject: CostChoice]) {
      for (subject, choice) in all {
        if case .network = subject { self.concernNetworks = true }
        for end in choice.ends {
          switch end {
          case .time(let time): self.nextEnd = min(self.nextEnd ?? time, time)
          case .left: self.endWithNetworks = true
          case .boot: break
          }
        }
      }
    }
  }

  /// Whether anything is said of a network: else nobody need know which it is.
  package var concernNetworks: Bool { self.summary.concernNetworks }

  package subscript(subject: Subject) -> CostChoice? {
    get { self.all[subject] }
    set { self.all[subject] = newValue.flatMap { $0.isEmpty ? nil : $0 } }
  }

  /// Whether anything ends by itself.
  package var hasEnds: Bool { self.summary.endWithNetworks || self.summary.nextEnd != nil }

  /// Whether anything ends when a network is left.
  package var endWithNetworks: Bool { self.summary.endWithNetworks }

  /// The earliest time by the wall clock at which something is over.
  package var nextEnd: Timestamp? { self.summary.nextEnd }

  /// The wall clock was set: what is to hold for a time holds for as long as before.
  ///
  /// - Parameter subjects: those whose time was counted from a moment of this run. Any other time is one of the right clock.
  package mutating func shiftEnds(of subjects: Set<Subject>, by step: Duration) {
    func shifted(_ setting: CostChoice.Setting?) -> CostChoice.Setting? {
      guard var setting, case .time(let time)? = setting.end else { return setting }
      setting.end = .time(time.advanced(by: step))
      return setting
    }
    for subject in subjects {
      guard let choice = self.all[subject] else { continue }
      self.all[subject] = CostChoice(
        constrained: shifted(choice.constrained), expensive: shifted(choice.expensive),
        user: choice.user)
    }
  }

  /// Forgets what is over.
  ///
  /// - Parameter present: the networks that the traffic goes by; empty where it goes nowhere, which ends nothing.
  /// - Returns: of what something was forgotten.
  package mutating func end(at time: Timestamp, on present: Set<NetworkHash>) -> [Subject] {
    var rest = self.all
    var over: [Subject] = []
    for (subject, choice) in self.all where !choice.ends.isEmpty {
      let left = choice.ending { end in
        switch end {
        case .time(let end): return end <= time
        case .left:
          guard case .network(let network) = subject else { return false }
          return !present.isEmpty && !present.contains(network)
        case .boot: return false
        }
      }
      guard left != choice else { continue }
      rest[subject] = left.isEmpty ? nil : left
      over.append(subject)
    }
    if !over.isEmpty { self.all = rest }
    return over
  }

  /// What is said of a path: of the topmost of its links that somebody speaks of, else of the network behind them.
  package func said<Value>(
    of links: [LinkFacts], on network: NetworkHash?, _ value: (CostChoice) -> Value?
  ) -> Value? {
    if self.all.isEmpty { return nil }
    let names = links.flatMap(\.link.names)
    for subject in names.map({ Subject.link($0) }) + (network.map { [.network($0)] } ?? []) {
      if let said = self.all[subject].flatMap(value) { return said }
    }
    return nil
  }
}
