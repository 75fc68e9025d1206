package import Connectivity
package import Netlink

/// The changes after which each link that connections may use has one endpoint. All endpoints have
/// the flag `backup`, except the best link's.
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

  /// An established subflow.
  package struct Subflow: Hashable, Sendable {
    /// Identifies a connection.
    package enum Connection: Hashable, Sendable {
      /// The kernel's number of the connection.
      case token(UInt32)
      /// The inode number of the connection's socket.
      case inode(UInt64)
      /// The connection is unknown, so the subflow counts as a connection of its own.
      case unknown(Destination)
    }

    package var connection: Connection
    /// This machine's address.
    package var address: IPAddress

    package init(of connection: Connection, from address: IPAddress) {
      self.connection = connection
      self.address = address
    }
  }

  package enum Action: Hashable, Sendable {
    case delete(MultipathEndpoint)
    case add(MultipathEndpoint)
    case setBackup(Bool, MultipathEndpoint)
  }

  /// Why a link with a default path has no endpoint.
  package enum Exclusion: Hashable, Sendable {
    /// Better links use all of the kernel's endpoints.
    case noMoreEndpoints
    /// Connections may not use the link beside the default path.
    case objection(OtherWay.Reason)
  }

  /// In the order in which they are made. Lost endpoints are deleted first, and new ones may pass
  /// traffic before old ones become backups.
  package private(set) var actions: [Action] = []
  /// Endpoints that other programs made without the flag `backup`, although their links are not the
  /// best.
  package private(set) var unflagged: [MultipathEndpoint] = []
  package private(set) var excluded: [Place: Exclusion] = [:]
  /// Whether traffic uses a tunnel, or has its own rule or route. Other links would bypass the
  /// tunnel, rule or route.
  package let isDenied: Bool
  /// Whether endpoints are kept only because their subflows are unknown.
  package private(set) var needsSubflows = false
  /// Whether endpoints are kept only because connections need them. The kernel does not report when
  /// it has sent the last data of a closed connection.
  package private(set) var mustLookAgain = false

  /// The maximum number of endpoints in the kernel (MPTCP_PM_ADDR_MAX).
  package static let maxEndpoints = 8

  /// - Parameters:
  ///   - uplinks: All links that may have a default path.
  ///   - endpoints: The present endpoints.
  ///   - own: This program's endpoints, as it made them (``MultipathEndpoint/asMade``).
  ///   - adopts: Whether to set the flag `backup` of other endpoints.
  ///   - subflows: All established subflows, or `nil` if unknown. If unknown, no connection loses a
  ///     subflow.
  package init(
    _ uplinks: [Uplink], _ endpoints: [MultipathEndpoint], own: Set<MultipathEndpoint>,
    adopts: Bool = false, subflows: [Subflow]? = nil
  ) {
    self.isDenied = uplinks.contains { [.tunnel, .ownRoute].contains($0.objection) }
    let isOwn = { (endpoint: MultipathEndpoint) in own.contains(endpoint.asMade) }
    if self.isDenied {
      self.actions = endpoints.filter(isOwn).map(Action.delete)
      return
    }
    let candidates = Candidate.all(uplinks)
    let foreign = endpoints.filter { endpoint in
      let isReplaced =
        endpoint.flags.contains(.implicit)
        && candidates.contains { $0.place.address == endpoint.address }
      return !isOwn(endpoint) && !isReplaced
    }
    let foreignAddresses = Set(foreign.lazy.map(\.address))
    let best = candidates.filter { !foreignAddresses.contains($0.place.address) }
      .sorted { $0.position < $1.position }
      .prefix(max(0, Self.maxEndpoints - foreign.count))
    let wanted = Set(best.map(\.place))
    self.excluded = Self.exclusions(uplinks, candidates, wanted, foreignAddresses)

    let stale = endpoints.filter {
      isOwn($0) && !wanted.contains($0.place)
        && Self.isStale($0, uplinks, mayBeLast: candidates.isEmpty)
    }
    let needed = Self.needed(stale, uplinks, subflows)
    self.needsSubflows = subflows == nil && !stale.isEmpty
    let kept = stale.filter { needed.contains($0.address) }
    let deleted = stale.filter { !needed.contains($0.address) }
    self.mustLookAgain = !kept.isEmpty
    // If an address has moved to another link, its candidate determines the flag.
    let addresses = Set(candidates.lazy.map(\.place.address))
    var flagged = kept.filter { endpoint in
      !endpoint.flags.contains(.backup) && !candidates.isEmpty
        && !addresses.contains(endpoint.address)
    }.map { Action.setBackup(true, $0) }
    let present = endpoints.filter { !deleted.contains($0) }
    var added: [Action] = []
    for candidate in candidates {
      // A backup carries nothing while another subflow seems to work, even on a lost link.
      let isBackup =
        candidate.isBackup
        && !(candidate.position == 0
          && kept.contains { Self.isLinkLost($0, candidate.place.address.family, uplinks) })
      let address = candidate.place.address
      guard let found = present.first(where: { $0.address == address && !$0.isImplicit }) else {
        guard wanted.contains(candidate.place), candidate.mayBegin,
          foreign.count + present.filter(isOwn).count + added.count < Self.maxEndpoints
        else { continue }
        let flags: MultipathEndpoint.Flags = isBackup ? [.subflow, .backup] : .subflow
        added.append(.add(MultipathEndpoint(address, link: candidate.place.link, flags)))
        continue
      }
      guard found.flags.contains(.backup) != isBackup else { continue }
      if isOwn(found) || adopts && found.flags.contains(.subflow) {
        flagged.append(.setBackup(isBackup, found))
      } else if isBackup {
        self.unflagged.append(found)
      }
    }
    self.actions =
      deleted.map(Action.delete) + flagged.filter { !$0.setsBackup } + added
      + flagged.filter(\.setsBackup)
  }

  /// A link that connections may use, in one address family.
  private struct Candidate {
    var place: Place
    var isBackup: Bool
    /// The number of better links of the family.
    var position: Int
    /// Whether an endpoint may be added now.
    var mayBegin: Bool

    /// Returns the links by family, best first. Free links come first, then links that do not limp,
    /// and then the kernel's own choice.
    static func all(_ uplinks: [Uplink]) -> [Candidate] {
      AddressFamily.allCases.flatMap { family -> [Candidate] in
        let usable = uplinks.compactMap {
          uplink -> (rank: Int, isFree: Bool, place: Place, mayBegin: Bool)? in
          guard uplink.family == family, uplink.objection == nil || uplink.isPostponed,
            case .usable(let address, let isFree, let limps) = uplink.state
          else { return nil }
          let rank = (isFree ? 0 : 4) + (limps ? 2 : 0) + (uplink.isDefault ? 0 : 1)
          return (rank, isFree, Place(address, link: uplink.link), !uplink.isPostponed)
        }
        let sorted = usable.sorted { ($0.rank, $0.place.link) < ($1.rank, $1.place.link) }
        return sorted.enumerated().map { position, link in
          Candidate(
            place: link.place, isBackup: position > 0 || !link.isFree, position: position,
            mayBegin: link.mayBegin)
        }
      }
    }
  }

  private static func exclusions(
    _ uplinks: [Uplink], _ candidates: [Candidate], _ wanted: Set<Place>,
    _ foreignAddresses: Set<IPAddress>
  ) -> [Place: Exclusion] {
    var excluded: [Place: Exclusion] = [:]
    for place in candidates.lazy.map(\.place)
    where !wanted.contains(place) && !foreignAddresses.contains(place.address) {
      excluded[place] = .noMoreEndpoints
    }
    for uplink in uplinks where !uplink.isPostponed {
      guard let objection = uplink.objection, case .usable(let address, _, _) = uplink.state else {
        continue
      }
      excluded[Place(address, link: uplink.link)] = .objection(objection)
    }
    return excluded
  }

  /// Whether to delete one of this program's endpoints that no candidate wants.
  ///
  /// - Parameter mayBeLast: Whether no other link is usable. A connection then keeps the endpoints
  ///   of lost links (M6).
  private static func isStale(
    _ endpoint: MultipathEndpoint, _ uplinks: [Uplink], mayBeLast: Bool
  ) -> Bool {
    let state = Self.uplink(of: endpoint, uplinks)?.state
    if state == .unknown { return false }
    return Self.isLost(endpoint, uplinks) ? !mayBeLast : true
  }

  /// Whether the endpoint's link is gone, or has no path from its address.
  private static func isLost(_ endpoint: MultipathEndpoint, _ uplinks: [Uplink]) -> Bool {
    switch Self.uplink(of: endpoint, uplinks)?.state {
    case .unknown: false
    case .usable(let address, _, _): address != endpoint.address
    case .lost, nil: true
    }
  }

  /// Whether the endpoint belongs to the family, and its link has no path at all.
  private static func isLinkLost(
    _ endpoint: MultipathEndpoint, _ family: AddressFamily, _ uplinks: [Uplink]
  ) -> Bool {
    guard endpoint.address.family == family else { return false }
    return switch Self.uplink(of: endpoint, uplinks)?.state {
    case .lost, nil: true
    case .unknown, .usable: false
    }
  }

  private static func uplink(of endpoint: MultipathEndpoint, _ uplinks: [Uplink]) -> Uplink? {
    uplinks.first { $0.link == endpoint.link && $0.family == endpoint.address.family }
  }

  /// Returns the addresses of endpoints that a connection needs, because it has no other subflow.
  /// If the subflows are unknown, returns the addresses of all `stale` endpoints.
  private static func needed(
    _ stale: [MultipathEndpoint], _ uplinks: [Uplink], _ subflows: [Subflow]?
  ) -> Set<IPAddress> {
    let leaving = Set(stale.map(\.address))
    guard let subflows else { return leaving }
    let staying = Set(
      uplinks.compactMap { uplink -> IPAddress? in
        guard case .usable(let address, _, _) = uplink.state else { return nil }
        return leaving.contains(address) ? nil : address
      })
    let safe = Set(subflows.lazy.filter { staying.contains($0.address) }.map(\.connection))
    return Set(subflows.lazy.filter { !safe.contains($0.connection) }.map(\.address))
  }
}

extension EndpointPlan.Action {
  fileprivate var setsBackup: Bool { if case .setBackup(true, _) = self { true } else { false } }
}

extension EndpointPlan.Subflow {
  /// Returns the subflow of a socket, or `nil` if its own address is unknown.
  package init?(_ socket: OpenConnection) {
    guard let address = socket.destination.source else { return nil }
    // The subflows of a connection that waits for accept(2), or is closed, have no inode.
    let connection: Connection =
      if let token = socket.token {
        .token(token)
      } else if socket.inode != 0 {
        .inode(socket.inode)
      } else {
        .unknown(socket.destination)
      }
    self.init(of: connection, from: address)
  }
}

extension MultipathEndpoint {
  package var place: EndpointPlan.Place { .init(self.address, link: self.link) }

  /// The endpoint without the flag `backup`, because that flag changes.
  package var asMade: MultipathEndpoint {
    var endpoint = self
    endpoint.flags.remove(.backup)
    return endpoint
  }

  fileprivate var isImplicit: Bool { self.flags.contains(.implicit) }
}
