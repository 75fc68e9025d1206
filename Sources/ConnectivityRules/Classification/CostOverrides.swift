package import Connectivity

/// A keyed hash that identifies a network. Without the machine's key it does not reveal which
/// network it is.
package struct NetworkHash: Hashable, Sendable, CustomStringConvertible {
  package var value: UInt64

  package init(_ value: UInt64) { self.value = value }

  /// Sixteen hexadecimal digits.
  package var description: String {
    let digits = String(self.value, radix: 16)
    return String(repeating: "0", count: 16 - digits.count) + digits
  }

  /// Parses sixteen hexadecimal digits. Returns `nil` for any other text.
  package init?(_ text: String) {
    guard text.utf8.count == 16 else { return nil }
    self.value = 0
    // connd may parse a thousand hashes when it starts, and Swift's own number parsing takes thirty
    // times as long.
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

/// A user's cost override for a link, network or the machine. connd determines `nil` properties.
package struct CostOverride: Hashable, Sendable {
  /// When an override ends by itself.
  package enum End: Hashable, Sendable {
    /// At a wall-clock time.
    case time(WallTime)
    /// At the machine's next boot.
    case boot
    /// When the traffic uses another network.
    case left
  }

  /// The override of one property.
  package struct Setting: Hashable, Sendable {
    package var isOn: Bool
    /// When the setting ends, or `nil` if it lasts until a user changes it.
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
  /// Whether connections may leave a poor network for one that costs money (W6). `false` forbids
  /// all moves. Only for ``CostOverrides/Subject/machine``.
  package var assist: Setting?
  /// The user who last changed the override.
  package var user: UInt32
  /// The network's name as `user` wrote it, or `nil` if `user` did not name the network.
  package var name: String?

  package init(
    constrained: Setting? = nil, expensive: Setting? = nil, assist: Setting? = nil, user: UInt32,
    name: String? = nil
  ) {
    self.constrained = constrained
    self.expensive = expensive
    self.assist = assist
    self.user = user
    self.name = name
  }

  /// Whether the override sets no property.
  package var isEmpty: Bool {
    self.constrained == nil && self.expensive == nil && self.assist == nil
  }

  /// The ends of all settings that end by themselves.
  package var ends: [End] {
    [self.constrained?.end, self.expensive?.end, self.assist?.end].compactMap { $0 }
  }

  /// Returns the override without the settings that have ended.
  fileprivate func ending(_ isOver: (End) -> Bool) -> CostOverride {
    func rest(_ setting: Setting?) -> Setting? {
      setting.flatMap { $0.end.map(isOver) ?? false ? nil : $0 }
    }
    return CostOverride(
      constrained: rest(self.constrained), expensive: rest(self.expensive),
      assist: rest(self.assist), user: self.user, name: self.name)
  }
}

/// The cost overrides of all users. For each link, each network and the machine, only the most
/// recent change counts.
package struct CostOverrides: Hashable, Sendable {
  /// The link or network that an override is for.
  package enum Subject: Hashable, Sendable, CustomStringConvertible {
    case link(String)
    case network(NetworkHash)
    case machine

    package var description: String {
      switch self {
      case .link(let name): name
      case .network(let network): network.description
      case .machine: "machine"
      }
    }
  }

  package private(set) var all: [Subject: CostOverride] {
    didSet { self.summary = Summary(self.all) }
  }
  /// Cached, so that the cost of a read does not depend on the number of overrides.
  private var summary: Summary

  package init(_ all: [Subject: CostOverride] = [:]) {
    self.all = all
    self.summary = Summary(all)
  }

  private struct Summary: Hashable {
    var concernNetworks = false
    var endWithNetworks = false
    var nextEnd: WallTime?

    init(_ all: [Subject: CostOverride]) {
      for (subject, override) in all {
        if case .network = subject { self.concernNetworks = true }
        for end in override.ends {
          switch end {
          case .time(let time): self.nextEnd = min(self.nextEnd ?? time, time)
          case .left: self.endWithNetworks = true
          case .boot: break
          }
        }
      }
    }
  }

  /// Whether there is an override for a network. If not, networks need not be identified.
  package var concernNetworks: Bool { self.summary.concernNetworks }

  /// The setting for the use of the other way (W6), or `nil` if the other way must cost nothing.
  package var assist: CostOverride.Setting? { self.all[.machine]?.assist }

  package subscript(subject: Subject) -> CostOverride? {
    get { self.all[subject] }
    set { self.all[subject] = newValue.flatMap { $0.isEmpty ? nil : $0 } }
  }

  /// Whether any override ends by itself.
  package var hasEnds: Bool { self.summary.endWithNetworks || self.summary.nextEnd != nil }

  /// Whether any override ends when the traffic leaves a network.
  package var endWithNetworks: Bool { self.summary.endWithNetworks }

  /// The earliest wall-clock time at which an override ends, or `nil` if none ends by time.
  package var nextEnd: WallTime? { self.summary.nextEnd }

  /// Shifts the ends of overrides after the wall clock was set. The remaining time stays the same.
  ///
  /// - Parameter subjects: The subjects with end times that were computed in this run of connd. All
  ///   other end times were computed with the correct clock.
  package mutating func shiftEnds(of subjects: Set<Subject>, by step: Duration) {
    func shifted(_ setting: CostOverride.Setting?) -> CostOverride.Setting? {
      guard var setting, case .time(let time)? = setting.end else { return setting }
      setting.end = .time(time.advanced(by: step))
      return setting
    }
    for subject in subjects {
      guard let override = self.all[subject] else { continue }
      self.all[subject] = CostOverride(
        constrained: shifted(override.constrained), expensive: shifted(override.expensive),
        assist: shifted(override.assist), user: override.user, name: override.name)
    }
  }

  /// Removes overrides that have ended.
  ///
  /// - Parameter present: The networks that the traffic uses. If empty, no override ends because
  ///   its network was left.
  /// - Returns: The subjects that have lost an override or a part of it.
  package mutating func end(at time: WallTime, on present: Set<NetworkHash>) -> [Subject] {
    var rest = self.all
    var over: [Subject] = []
    for (subject, override) in self.all where !override.ends.isEmpty {
      let left = override.ending { end in
        switch end {
        case .time(let end): return end <= time
        case .left:
          guard case .network(let network) = subject else { return false }
          return !present.isEmpty && !present.contains(network)
        case .boot: return false
        }
      }
      guard left != override else { continue }
      rest[subject] = left.isEmpty ? nil : left
      over.append(subject)
    }
    if !over.isEmpty { self.all = rest }
    return over
  }

  /// Returns the value for a path from the topmost link with an override, or else from the network
  /// behind the links. Returns `nil` without an override.
  package func stated<Value>(
    of links: [LinkFacts], on network: NetworkHash?, _ value: (CostOverride) -> Value?
  ) -> Value? {
    if self.all.isEmpty { return nil }
    let names = links.flatMap(\.link.names)
    for subject in names.map({ Subject.link($0) }) + (network.map { [.network($0)] } ?? []) {
      if let stated = self.all[subject].flatMap(value) { return stated }
    }
    return nil
  }
}
