import Connectivity
import ConnectivityMonitor

/// The links that may have a default path, and the last path that connd reported for each.
struct UplinkTable: Sendable {
  /// A link in one address family.
  struct Key: Hashable, Sendable {
    var link: UInt32
    var family: AddressFamily
  }

  private var paths: [Key: NetworkPath] = [:]
  /// The links that connd has not reported yet.
  private var pending: Set<Key> = []
  private var defaults: [AddressFamily: NetworkPath] = [:]

  /// Whether connd has reported every path at least once.
  var isComplete: Bool {
    self.pending.isEmpty && self.defaults.count == AddressFamily.allCases.count
  }

  /// Replaces the links. A link that stays keeps its last path.
  mutating func replace(_ keys: Set<Key>) {
    self.paths = self.paths.filter { keys.contains($0.key) }
    self.pending = keys.subtracting(self.paths.keys)
  }

  mutating func note(_ path: NetworkPath, of key: Key) {
    // A report may arrive after its link was removed.
    guard self.pending.remove(key) != nil || self.paths[key] != nil else { return }
    self.paths[key] = path
  }

  mutating func note(_ path: NetworkPath, ofDefault family: AddressFamily) {
    self.defaults[family] = path
  }

  /// Returns the gateway of the path from an endpoint's place, or `nil` without one.
  func gateway(of place: EndpointPlan.Place) -> IPAddress? {
    let family = place.address.family
    return self.paths[Key(link: place.link, family: family)]?.path(family)?.gateway
  }

  /// Whether a default path is unknown, for example because connd does not answer.
  var isUnknown: Bool {
    AddressFamily.allCases.contains { self.defaults[$0]?.path($0) == nil }
  }

  var uplinks: [Uplink] {
    let isComplete = self.isComplete
    let known = self.paths.map { key, path in
      let objection = path.path(key.family)?.objection
      return Uplink(
        link: key.link, family: key.family, path.uplinkState(key.family),
        isDefault: self.defaults[key.family]?.path(key.family)?.chain.first?.index == key.link,
        objection: objection ?? (isComplete ? nil : .noDefaultPath))
    }
    return known + self.pending.map { Uplink(link: $0.link, family: $0.family, .unknown) }
  }
}

extension NetworkPath {
  fileprivate func path(_ family: AddressFamily) -> KernelPath? {
    family == .ipv4 ? self.ipv4 : self.ipv6
  }

  fileprivate func uplinkState(_ family: AddressFamily) -> Uplink.State {
    guard let path = self.path(family) else { return .unknown }
    // Table 0: the link has no route, so the kernel would treat every host as on-link.
    guard path.status == .satisfied, path.medium != .tunnel, path.table ?? 0 != 0,
      let source = path.source, !source.isLinkLocal
    else { return .lost }
    return .usable(
      source, isFree: path.isExpensive == false && !path.isConstrained,
      limps: path.quality == .minimal)
  }
}
