package import Connectivity

/// NetworkManager's connectivity checks for a device, one in each family. `nil` if it has not
/// checked.
package struct ConnectivityChecks: Hashable, Sendable {
  package var ipv4: Validation.State?
  package var ipv6: Validation.State?

  package init(ipv4: Validation.State? = nil, ipv6: Validation.State? = nil) {
    self.ipv4 = ipv4
    self.ipv6 = ipv6
  }

  package subscript(_ family: AddressFamily) -> Validation.State? {
    family == .ipv4 ? self.ipv4 : self.ipv6
  }
}

/// The reports of sources other than the kernel about the way to the internet, by link.
///
/// Implements rule V1.
package struct ValidationReports: Hashable, Sendable {
  /// NetworkManager's checks, by the names of links.
  package var checks: [String: ConnectivityChecks] = [:]
  /// The portals in systemd-networkd's state files, by the names of links.
  package var portals: [String: String] = [:]
  /// The portals that routers advertise, by the indices of links.
  package private(set) var advertised: [UInt32: String] = [:]

  /// A machine does not have more networks with a portal.
  private static let maxAdvertised = 256

  package init() {}

  /// Notes the last advertisement on a link.
  package mutating func note(_ advertisement: PortalAdvertisement) {
    guard
      self.advertised.count < Self.maxAdvertised || self.advertised[advertisement.link] != nil
    else { return }
    self.advertised[advertisement.link] = advertisement.portal
  }

  /// Forgets advertisements on links that may have another network now. The next network repeats
  /// its own.
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

  /// Returns the validation of a path in a family: that of its topmost link with one.
  package func validation(of chain: [PathLink], _ family: AddressFamily) -> Validation {
    if self.checks.isEmpty, self.portals.isEmpty, self.advertised.isEmpty { return .unknown }
    for link in chain {
      let validation = self.validation(of: link, family)
      if validation.state != .unknown { return validation }
    }
    return .unknown
  }

  /// A check knows more than an advertisement: a network keeps advertising its portal after the
  /// user has logged in.
  private func validation(of link: PathLink, _ family: AddressFamily) -> Validation {
    let (source, portal) = self.portal(on: link)
    switch self.checks[link.name]?[family] {
    case .portal: return Validation(.portal, .networkManager, portal: portal)
    case let state?: return Validation(state, .networkManager)
    case nil: return portal == nil ? .unknown : Validation(.portal, source, portal: portal)
    }
  }

  private func portal(on link: PathLink) -> (Validation.Source, String?) {
    let (source, portal): (Validation.Source, String?) =
      self.advertised[link.index].map { (.routerAdvertisement, $0) }
      ?? (.networkd, self.portals[link.name])
    return (source, portal == PortalAdvertisement.unrestricted ? nil : portal)
  }
}
