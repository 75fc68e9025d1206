import Connectivity
import ConnectivityMonitor

/// The links that may have a default path, and the last path that connd reported for each.
struct UplinkTable: Sendable {
  /// A link in one address family.
  struct Key: Hashable, Sendable {
    var link: UInt32
    var name: String
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

  /// Replaces the links.
  ///
  /// - Returns: The links to begin following, and the links to stop following.
  mutating func replace(_ keys: Set<Key>) -> (added: Set<Key>, removed: Set<Key>) {
    let known = self.pending.union(self.paths.keys)
    let (added, removed) = (keys.subtracting(known), known.subtracting(keys))
    self.pending = self.pending.intersection(keys).union(added)
    for key in removed { self.paths[key] = nil }
    return (added, removed)
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
    return self.paths.first { $0.key.link == place.link && $0.key.family == family }?
      .value.path(family)?.gateway
  }

  /// The families in which a default path exists or is in doubt.
  var usedFamilies: [AddressFamily] {
    AddressFamily.allCases.filter { family in
      self.defaults[family]?.path(family).map { $0.status != .unsatisfied } ?? true
    }
  }

  /// Whether a default path is unknown, for example because connd does not answer.
  var isUnknown: Bool {
    AddressFamily.allCases.contains { self.defaults[$0]?.path($0) == nil }
  }

  var uplinks: [Uplink] {
    let known = self.paths.map { key, path in
      Uplink(
        link: key.link, family: key.family, path.uplinkState(key.family),
        isDefault: self.defaults[key.family]?.path(key.family)?.chain.first?.index == key.link)
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
      source, isFree: path.costsMoney == false && !path.isConstrained,
      limps: path.quality == .minimal)
  }
}
