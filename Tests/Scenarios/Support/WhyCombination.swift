import TestKit

/// Faults at the same time, and the verdicts that are true for them.
struct WhyCombination: CustomStringConvertible {
  typealias Family = WhyBench.Family

  /// A server of the traffic. The host after the last one is the neighbour on the link.
  struct End: Hashable {
    var family: Family
    var host: Int
    var port: UInt32

    var isBeyond: Bool { self.host < self.family.hosts.count }
    var address: String { self.isBeyond ? self.family.hosts[self.host] : self.family.neighbour }
  }

  /// One fault.
  enum Part: Equatable {
    /// A local firewall drops or rejects the packets of a user, to some hosts or to all.
    case blocked(user: UInt32, verb: String, hosts: [Int])
    /// A local firewall drops the answers to a user.
    case answersDropped(user: UInt32)
    /// A percentage of packets is lost in the router.
    case loss(Int)
    /// Nothing beyond the link answers in this family.
    case network(Family)
    case names
    case host(Int)
    case port
    case largePackets
    case route(Family)
  }

  static let secondPort: UInt32 = 7001

  let seed: UInt64
  var families: [Family]
  var parts: [Part] = []
  var description: String { "seed \(self.seed), \(self.families): \(self.parts)" }

  init(seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    self.seed = seed
    self.families = random.oneIn(3) ? Family.allCases : [random.pick(Family.allCases)]
    for _ in 0..<random.number(0...3) {
      let part = self.part(&random)
      // Two equal rules are one fault.
      if !self.parts.contains(part) { self.parts.append(part) }
    }
  }

  private func part(_ random: inout SeededGenerator) -> Part {
    let user = random.oneIn(2) ? WhyBench.user : WhyBench.other
    switch random.number(1...9) {
    case 1:
      let hosts = random.oneIn(2) ? [] : [random.number(0...1), random.number(2...3)]
      return .blocked(user: user, verb: random.oneIn(2) ? "drop" : "reject", hosts: hosts)
    case 2: return .answersDropped(user: user)
    case 3: return .loss(random.number(30...60))
    case 4: return .network(random.pick(self.families))
    case 5: return .names
    case 6: return .host(random.number(0...3))
    case 7: return .port
    case 8: return .largePackets
    default: return .route(random.pick(self.families))
    }
  }

  var ports: [UInt32] { self.parts.contains(.port) ? [7000, Self.secondPort] : [7000] }

  func cause(on bench: WhyBench) throws {
    for part in self.parts {
      switch part {
      case .blocked(let user, let verb, let hosts):
        let rules =
          hosts.isEmpty
          ? [""] : self.families.flatMap { family in hosts.map { "\(family.to($0)) " } }
        for rule in rules { try bench.filterHere("output", "meta skuid \(user) \(rule)\(verb)") }
      case .answersDropped(let user):
        for family in self.families {
          try bench.filterHere("input", "meta skuid \(user) \(family.fromBeyond) drop")
        }
      case .loss(let percentage):
        for family in self.families {
          try bench.filterOutside(
            "numgen random mod 100 < \(percentage) \(family.toBeyond) drop")
        }
      case .network(let family): try bench.filterOutside("\(family.toBeyond) drop")
      case .names: try bench.filterOutside("udp dport 53 drop")
      case .host(let host):
        for family in self.families { try bench.filterOutside("\(family.to(host)) drop") }
      case .port: try bench.filterOutside("tcp dport \(Self.secondPort) drop")
      case .largePackets: try bench.filterOutside("meta length > 1300 drop")
      case .route(let family): try bench.lab.namespace.ip("\(family.option) route del default")
      }
    }
  }

  // MARK: - What is true

  private var ends: [End] {
    self.families.flatMap { family in
      (0...family.hosts.count).flatMap { host in
        self.ports.map { End(family: family, host: host, port: $0) }
      }
    }
  }

  /// Whether a part cuts a server off from a user.
  ///
  /// - Parameter isForAll: Whether only parts that concern all users count.
  private func isDead(_ end: End, for user: UInt32, isForAll: Bool = false) -> Bool {
    self.parts.contains { part in
      switch part {
      case .blocked(let blocked, _, let hosts):
        !isForAll && blocked == user && (hosts.isEmpty || hosts.contains(end.host))
      case .answersDropped(let blocked): !isForAll && blocked == user && end.isBeyond
      case .network(let family), .route(let family): end.family == family && end.isBeyond
      case .host(let host): end.host == host
      case .port: end.port == Self.secondPort
      case .loss, .names, .largePackets: false
      }
    }
  }

  /// Whether the queries of the second user's program to the first family's server are lost.
  private var areNamesDead: Bool {
    self.parts.contains { part in
      switch part {
      case .names: true
      case .blocked(WhyBench.other, _, let hosts): hosts.isEmpty
      case .answersDropped(WhyBench.other): true
      case .network(let family), .route(let family): family == self.families[0]
      case .blocked, .answersDropped, .loss, .host, .port, .largePackets: false
      }
    }
  }

  private var hasLoss: Bool {
    self.parts.contains { if case .loss = $0 { true } else { false } }
  }

  /// Whether something is wrong for a user.
  func concerns(_ user: UInt32) -> Bool {
    // A query that cannot leave the machine leaves no socket that connd could read.
    let areNamesSeen = !self.parts.contains { part in
      if case .blocked(WhyBench.other, _, hosts: []) = part { true } else { false }
    }
    return self.hasLoss || self.areNamesDead && areNamesSeen || self.parts.contains(.largePackets)
      || self.ends.contains { self.isDead($0, for: user) }
  }

  /// Whether the answer to a user is true. The verdict `unknown` is always true.
  func isTrue(_ report: WhyBench.Report, for user: UInt32) -> Bool {
    let dead = self.ends.filter { self.isDead($0, for: user) }
    let live = self.ends.filter { !self.isDead($0, for: user) }
    switch report.verdict {
    case "unknown": return true
    case "nothingWrong": return !self.concerns(user)
    case "noPath": return self.parts.contains { if case .route = $0 { true } else { false } }
    case "notLetOut":
      // Several parts may block the same user. Without hosts, a part blocks everything.
      let blocked = self.parts.compactMap { part -> [Int]? in
        if case .blocked(user, _, let hosts) = part { hosts } else { nil }
      }
      let names = Set(
        self.families.flatMap { family in blocked.joined().map { family.hosts[$0] } })
      return blocked.contains([]) || !blocked.isEmpty && names.isSuperset(of: report.hosts)
    case "packetsLost": return self.hasLoss
    case "namesUnresolved": return self.areNamesDead
    case "largePacketsLost": return self.parts.contains(.largePackets)
    case "onlyUser":
      return dead.contains { !self.isDead($0, for: user, isForAll: true) }
    case "onlyDestination":
      let dead = dead.filter { self.isDead($0, for: user, isForAll: true) }
      return !live.isEmpty && !report.hosts.isEmpty
        && report.hosts.allSatisfy { name in dead.contains { $0.address == name } }
        && self.isTrue(portOf: report, dead, live) && self.isTrue(familyOf: report, dead, live)
    case "nothingAnswers":
      let other = user == WhyBench.user ? WhyBench.other : WhyBench.user
      return self.areNamesDead
        && self.ends.filter(\.isBeyond).allSatisfy {
          self.isDead($0, for: user) && self.isDead($0, for: other)
        }
    default: return false
    }
  }

  private func isTrue(portOf report: WhyBench.Report, _ dead: [End], _ live: [End]) -> Bool {
    guard let port = report.port else { return true }
    return live.allSatisfy { $0.port != port } && dead.contains { $0.port == port }
  }

  private func isTrue(familyOf report: WhyBench.Report, _ dead: [End], _ live: [End]) -> Bool {
    guard let family = report.family else { return true }
    return live.allSatisfy { !$0.isBeyond || $0.family.rawValue != family }
      && dead.contains { $0.family.rawValue == family }
  }
}
