package import Connectivity
package import Netlink

/// The path of traffic that is bound to a link, in one address family.
package struct Uplink: Hashable, Sendable {
  package enum State: Hashable, Sendable {
    /// connd has not reported the path, or is not running. The link's endpoints stay unchanged.
    case unknown
    /// The link has no default path.
    case lost
    /// A satisfied default path from this address.
    ///
    /// - isFree: Whether the path is known to be neither metered nor constrained.
    /// - limps: Whether connections over other links work, but not those over this link (Q2).
    case usable(IPAddress, isFree: Bool, limps: Bool = false)
  }

  package var link: UInt32
  package var family: AddressFamily
  package var state: State
  /// Whether traffic that is not bound to a link uses this link.
  package var isDefault: Bool

  package init(
    link: UInt32, family: AddressFamily = .ipv4, _ state: State, isDefault: Bool = false
  ) {
    self.link = link
    self.family = family
    self.state = state
    self.isDefault = isDefault
  }
}

/// The changes that leave one endpoint for each link with a satisfied default path, with the flag
/// `backup` unless the link is the best.
///
/// Implements rules M2, M3, M4, M5 and M6.
package struct EndpointPlan: Hashable, Sendable {
  /// The address and link of an endpoint. They stay the same while the kernel's number for it
  /// changes.
  package struct Place: Hashable, Sendable {
    package var address: IPAddress
    package var link: UInt32

    package init(_ address: IPAddress, link: UInt32) {
      self.address = address
      self.link = link
    }
  }

  /// Whether endpoints may be used at all.
  package enum Permission: Hashable, Sendable {
    case granted
    /// The default path is lost, or not all links are known yet. Lost endpoints are deleted, and
    /// none is added.
    case postponed
    /// Traffic uses a tunnel, or has its own rule or route. Other links would bypass it.
    case denied
  }

  package enum Action: Hashable, Sendable {
    case delete(MultipathEndpoint)
    case add(MultipathEndpoint)
    case setBackup(Bool, MultipathEndpoint)
  }

  /// The changes in the order in which they are made. Lost endpoints are deleted first, and new
  /// endpoints may pass traffic before old endpoints become backups.
  package private(set) var actions: [Action] = []
  /// Endpoints that other programs made without the flag `backup`, although their links are not the
  /// best.
  package private(set) var unflagged: [MultipathEndpoint] = []

  /// The maximum number of endpoints in the kernel (MPTCP_PM_ADDR_MAX).
  package static let maxEndpoints = 8

  /// - Parameters:
  ///   - uplinks: All links that may have a default path.
  ///   - endpoints: The present endpoints.
  ///   - own: The places of this program's endpoints.
  ///   - adopts: Whether to set the flag `backup` of other endpoints.
  package init(
    _ uplinks: [Uplink], _ endpoints: [MultipathEndpoint], own: Set<Place>, adopts: Bool = false,
    _ permission: Permission = .granted
  ) {
    let candidates = permission == .denied ? [] : Self.candidates(uplinks)
    let stale = endpoints.filter { endpoint in
      guard own.contains(endpoint.place) else { return false }
      if permission == .denied { return true }
      // A connection keeps its last endpoint (M6).
      return !candidates.isEmpty && Self.isLost(endpoint, uplinks)
    }
    let present = endpoints.filter { !stale.contains($0) }
    self.actions = stale.map(Action.delete)
    var (added, flagged): ([Action], [Action]) = ([], [])
    for candidate in candidates {
      let found = present.first {
        $0.address == candidate.place.address && !$0.flags.contains(.implicit)
      }
      guard let found else {
        guard permission == .granted, present.count + added.count < Self.maxEndpoints else {
          continue
        }
        let flags: MultipathEndpoint.Flags = candidate.isBackup ? [.subflow, .backup] : .subflow
        added.append(
          .add(MultipathEndpoint(candidate.place.address, link: candidate.place.link, flags)))
        continue
      }
      guard found.flags.contains(.backup) != candidate.isBackup else { continue }
      if own.contains(found.place) || adopts && found.flags.contains(.subflow) {
        flagged.append(.setBackup(candidate.isBackup, found))
      } else if candidate.isBackup {
        self.unflagged.append(found)
      }
    }
    self.actions += flagged.filter { !$0.setsBackup } + added + flagged.filter(\.setsBackup)
  }

  private struct Candidate {
    var place: Place
    var isBackup: Bool
  }

  /// Returns the links with a default path by family, best first. Free links come before others.
  /// Among these, links that do not limp come first, and then the kernel's own choice.
  private static func candidates(_ uplinks: [Uplink]) -> [Candidate] {
    AddressFamily.allCases.flatMap { family -> [Candidate] in
      let usable = uplinks.compactMap { uplink -> (rank: Int, isFree: Bool, place: Place)? in
        guard uplink.family == family,
          case .usable(let address, let isFree, let limps) = uplink.state
        else { return nil }
        let rank = (isFree ? 0 : 4) + (limps ? 2 : 0) + (uplink.isDefault ? 0 : 1)
        return (rank, isFree, Place(address, link: uplink.link))
      }
      let sorted = usable.sorted { ($0.rank, $0.place.link) < ($1.rank, $1.place.link) }
      return sorted.enumerated().map { Candidate(place: $1.place, isBackup: $0 > 0 || !$1.isFree) }
    }
  }

  /// Whether the endpoint's link is gone, or has no path from its address.
  private static func isLost(_ endpoint: MultipathEndpoint, _ uplinks: [Uplink]) -> Bool {
    let uplink = uplinks.first {
      $0.link == endpoint.link && $0.family == endpoint.address.family
    }
    switch uplink?.state {
    case .unknown: return false
    case .usable(let address, _, _): return address != endpoint.address
    case .lost, nil: return true
    }
  }
}

extension EndpointPlan.Action {
  fileprivate var setsBackup: Bool { if case .setBackup(true, _) = self { true } else { false } }
}

extension MultipathEndpoint {
  package var place: EndpointPlan.Place { .init(self.address, link: self.link) }
}
