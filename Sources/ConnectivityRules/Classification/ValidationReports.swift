package import Connectivity

/// NetworkManager's connectivity checks for a device, one in each family; `nil` if not checked.
package struct ConnectivityChecks: Hashable, Sendable {
  package var ipv4: KernelPath.Validation.State?
  package var ipv6: KernelPath.Validation.State?

  package init(ipv4: KernelPath.Validation.State? = nil, ipv6: KernelPath.Validation.State? = nil) {
    self.ipv4 = ipv4
    self.ipv6 = ipv6
  }

  package subscript(_ family: AddressFamily) -> KernelPath.Validation.State? {
    family == .ipv4 ? self.ipv4 : self.ipv6
  }
}

/// Reports of sources other than the kernel on whether links reach the internet.
///
/// Implements rule V1.
package struct ValidationReports: Hashable, Sendable {
  /// NetworkManager's checks, by the names of links.
  package var checks: [String: ConnectivityChecks] = [:]
  /// The portals in systemd-networkd's state files, by the names of links.
  package var portals: [String: String] = [:]
  /// The portals that routers advertise, by link index.
  package private(set) var advertised: [UInt32: String] = [:]

  /// The maximum number of advertised portals. No machine has more networks with a portal.
  private static let maxAdvertised = 256

  package init() {}

  /// Stores the latest advertisement on a link.
  package mutating func note(_ advertisement: PortalAdvertisement) {
    guard
      self.advertised.count < Self.maxAdvertised || self.advertised[advertisement.link] != nil
    else { return }
    self.advertised[advertisement.link] = advertisement.portal
  }

  /// Forgets advertisements on links that may be on another network now. That network sends its
  /// own.
  package mutating func forget(after events: [KernelEvent]) {
    guard !self.advertised.isEmpty else { return }
    for event in events {
      switch event {
      case .link(let link) where link.state != .up: self.advertised[link.index] = nil
      case .linkRemoved(let link): self.advertised[link.index] = nil
      case .wireless(let change) where change.kind != .roamed:
        self.advertised[change.link] = nil
      case .overrun: self.advertised = [:]
      default: break
      }
    }
  }

  /// Returns a path's validation in a family: the first known state, from the topmost link down. If
  /// no link has a state, returns the first portal.
  package func validation(of chain: [KernelPath.Link], _ family: AddressFamily)
    -> KernelPath.Validation
  {
    if self.checks.isEmpty, self.portals.isEmpty, self.advertised.isEmpty { return .unknown }
    let all = chain.map { self.validation(of: $0, family) }
    return all.first { $0.state != .unknown } ?? all.first { $0 != .unknown } ?? .unknown
  }

  /// An advertised portal does not tell the state, because a network keeps advertising it after the
  /// user has logged in.
  private func validation(of link: KernelPath.Link, _ family: AddressFamily)
    -> KernelPath.Validation
  {
    let (source, portal) = self.portal(on: link)
    switch self.checks[link.name]?[family] {
    case .portal: return KernelPath.Validation(.portal, .networkManager, portal: portal)
    case let state?: return KernelPath.Validation(state, .networkManager)
    case nil:
      return portal == nil ? .unknown : KernelPath.Validation(.unknown, source, portal: portal)
    }
  }

  private func portal(on link: KernelPath.Link) -> (KernelPath.Validation.Source, String?) {
    let (source, portal): (KernelPath.Validation.Source, String?) =
      self.advertised[link.index].map { (.routerAdvertisement, $0) }
      ?? (.networkd, self.portals[link.name])
    return (source, portal == PortalAdvertisement.unrestricted ? nil : portal)
  }
}
