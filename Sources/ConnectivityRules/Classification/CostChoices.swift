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

  package var isConstrained: Bool?
  package var isExpensive: Bool?
  package var end: End?
  /// Who has said it.
  package var user: UInt32

  package init(
    isConstrained: Bool? = nil, isExpensive: Bool? = nil, end: End? = nil, user: UInt32
  ) {
    self.isConstrained = isConstrained
    self.isExpensive = isExpensive
    self.end = end
    self.user = user
  }

  /// It says nothing.
  package var isEmpty: Bool { self.isConstrained == nil && self.isExpensive == nil }
}

/// What users have said of links and of networks; of the same one the last holds.
package struct CostChoices: Hashable, Sendable {
  /// What is spoken of.
  package enum Subject: Hashable, Sendable {
    /// By its name.
    case link(String)
    case network(NetworkHash)
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
        switch choice.end {
        case .time(let time): self.nextEnd = min(self.nextEnd ?? time, time)
        case .left: self.endWithNetworks = true
        case .boot, nil: break
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

  /// Forgets what is over.
  ///
  /// - Parameter present: the networks that the traffic goes by; empty where it goes nowhere, which ends nothing.
  /// - Returns: what was forgotten.
  package mutating func end(at time: Timestamp, on present: Set<NetworkHash>) -> [Subject] {
    let over = self.all.filter { subject, choice in
      switch choice.end {
      case .time(let end): return end <= time
      case .left:
        guard case .network(let network) = subject else { return false }
        return !present.isEmpty && !present.contains(network)
      case .boot, nil: return false
      }
    }
    if !over.isEmpty { self.all = self.all.filter { over[$0.key] == nil } }
    return Array(over.keys)
  }

  /// What is said of a path: of the topmost of its links that somebody speaks of, else of the network behind them.
  package func said<Value>(
    of links: [String], on network: NetworkHash?, _ value: (CostChoice) -> Value?
  ) -> Value? {
    if self.all.isEmpty { return nil }
    for subject in links.map({ Subject.link($0) }) + (network.map { [.network($0)] } ?? []) {
      if let said = self.all[subject].flatMap(value) { return said }
    }
    return nil
  }
}
