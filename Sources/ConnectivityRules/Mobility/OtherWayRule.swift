package import Connectivity

/// The rule for leaving the default way in favour of another link's default route.
///
/// Implements rules W5 and W6.
package struct OtherWayRule {
  /// A path to the destination, with the facts that a `KernelPath` does not contain.
  package struct Candidate: Hashable, Sendable {
    package var path: KernelPath
    /// The prefix length of the route to the destination, or `nil` if unknown.
    package var prefixLength: Int?
    /// The metric of that route.
    package var metric: UInt32
    /// Whether a link of the path is a tunnel.
    package var isTunnelled: Bool
    /// Whether a modem of the path is in another operator's network.
    package var isRoaming: Bool
    /// Whether the kernel drops replies that arrive on this path.
    package var dropsAnswers: Bool

    package init(
      _ path: KernelPath, prefixLength: Int?, metric: UInt32 = 0, isTunnelled: Bool = false,
      isRoaming: Bool = false, dropsAnswers: Bool = false
    ) {
      self.path = path
      self.prefixLength = prefixLength
      self.metric = metric
      self.isTunnelled = isTunnelled
      self.isRoaming = isRoaming
      self.dropsAnswers = dropsAnswers
    }

    /// Whether the path is satisfied and uses a default route, and no tunnel.
    fileprivate var isPlain: Bool {
      self.path.status == .satisfied && self.prefixLength == 0 && !self.isTunnelled
        && self.path.medium != .tunnel
    }
  }

  private let defaultPath: Candidate
  /// Whether the user allows other paths even if they cost money. `false` forbids all other paths,
  /// and `nil` allows only paths that cost nothing.
  private let assist: Bool?

  package init(leaving defaultPath: Candidate, assist: Bool? = nil) {
    self.defaultPath = defaultPath
    self.assist = assist
  }

  /// Returns why traffic to a destination may not take any other way, or `nil` if the answer
  /// depends on the other way.
  package static func objection(to destination: Destination) -> OtherWay.Reason? {
    if destination.outLink != nil { return .bound }
    if destination.mark != 0 { return .marked }
    return destination.address.isGlobal ? nil : .notGlobal
  }

  /// Why the default way may not be left, or `nil` if it may be left.
  package var objection: OtherWay.Reason? {
    if self.assist == false { return .switchedOff }
    return self.objectionToLeaving
  }

  private var objectionToLeaving: OtherWay.Reason? {
    let (candidate, path) = (self.defaultPath, self.defaultPath.path)
    if path.status != .satisfied { return .noDefaultPath }
    if candidate.isTunnelled || path.medium == .tunnel || path.medium == .unknown { return .tunnel }
    let isOfSystem = path.table.map(Self.systemTables.contains) ?? false
    return candidate.prefixLength == 0 && isOfSystem ? nil : .ownRoute
  }

  /// The tables `default` and `main` (rtnetlink(7)), which the system's own rules look up.
  private static let systemTables: Set<UInt32> = [253, 254]

  /// Returns the cheapest of the permitted other ways. If none is permitted, returns the best
  /// forbidden path, with the reason.
  package func choice(among candidates: [Candidate]) -> OtherWay {
    if let objection { return OtherWay(whyNot: objection) }
    let others = candidates.filter { $0.isPlain && !self.isDefault($0) }
    let sorted = others.sorted { self.rank($0) < self.rank($1) }
    guard let best = sorted.first else { return OtherWay(whyNot: .noOtherPath) }
    return self.objection(to: best).map { OtherWay(best.path, whyNot: $0) } ?? OtherWay(best.path)
  }

  /// Returns why connections may not use a path beside the default path, or `nil` if they may.
  /// Connections may always use the default path's own links, unless the default path is a tunnel,
  /// or has its own rule or route.
  package func objection(toUsing candidate: Candidate) -> OtherWay.Reason? {
    let objection = self.objectionToLeaving
    if let objection, objection != .noDefaultPath { return objection }
    guard !self.isDefault(candidate) else { return objection }
    if self.assist == false { return .switchedOff }
    guard candidate.isPlain else { return .noOtherPath }
    return self.objection(to: candidate) ?? objection
  }

  private func isDefault(_ candidate: Candidate) -> Bool {
    let links = self.defaultPath.path.chain.lazy.map(\.index)
    return candidate.path.chain.contains { links.contains($0.index) }
  }

  private func rank(_ candidate: Candidate) -> (Int, Int, UInt32) {
    (
      self.objection(to: candidate) == nil ? 0 : 1, candidate.path.isExpensive == false ? 0 : 1,
      candidate.metric
    )
  }

  private func objection(to candidate: Candidate) -> OtherWay.Reason? {
    if candidate.dropsAnswers { return .strictFilter }
    if candidate.isRoaming { return .roaming }
    if candidate.path.isConstrained { return .constrained }
    // An unknown cost is not free.
    return candidate.path.isExpensive == false || self.assist == true ? nil : .expensive
  }
}

extension IPAddress {
  /// Whether the address identifies the same host in all networks: the global unicast blocks of the
  /// IANA special-purpose registries (RFC 6890) without the blocks for documentation and NAT64.
  package var isGlobal: Bool {
    let local = self.family == .ipv4 ? Self.localIPv4 : Self.localIPv6
    let isUnicast = self.family == .ipv4 || Self.unicastIPv6?.contains(self) == true
    return isUnicast && !local.contains { $0.contains(self) }
  }

  private static func blocks(_ blocks: [(String, Int)]) -> [IPPrefix] {
    blocks.compactMap { text, length in
      IPAddress(text).flatMap { IPPrefix($0, length: length) }
    }
  }

  private static let unicastIPv6 = Self.blocks([("2000::", 3)]).first
  private static let localIPv6 = Self.blocks([("2001:db8::", 32), ("2001::", 23)])
  private static let localIPv4 = Self.blocks([
    ("0.0.0.0", 8), ("10.0.0.0", 8), ("100.64.0.0", 10), ("127.0.0.0", 8), ("169.254.0.0", 16),
    ("172.16.0.0", 12), ("192.0.0.0", 24), ("192.0.2.0", 24), ("192.168.0.0", 16),
    ("198.18.0.0", 15), ("198.51.100.0", 24), ("203.0.113.0", 24), ("224.0.0.0", 3),
  ])
}
