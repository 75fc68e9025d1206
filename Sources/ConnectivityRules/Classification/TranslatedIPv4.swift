package import Connectivity

/// IPv4 that this machine translates to IPv6 for an IPv6-only network (CLAT, RFC 6877). It is not a
/// tunnel: connections depend on the IPv6 path that carries the translated packets.
///
/// Implements rule K9.
extension PathFacts {
  /// Whether this machine translates the path's packets. The translator is a tun link with the
  /// source address, or works inside the link itself. DS-Lite uses the same addresses in an
  /// `ip6tnl` link (RFC 6333). With an IPv4 gateway, this machine translates nothing.
  package var isTranslated: Bool {
    guard self.source?.address.isOfTranslator == true, let first = self.links.first,
      case .route(let route) = self.answer, route.gateway?.family != .ipv4
    else { return false }
    return !first.isTunnel || first.link.kind == "tun"
  }

  /// The number of links at the top of the chain that only translate.
  private var translators: Int {
    self.isTranslated && self.links.first?.isTunnel == true ? 1 : 0
  }

  /// The index of the first tunnel in the chain, or `nil` without a tunnel.
  package var firstTunnel: Int? {
    self.links.dropFirst(self.translators).firstIndex(where: \.isTunnel)
  }

  /// The link that the translated packets leave by, or `nil` if it is unknown.
  package var translatedLink: LinkFacts? { self.links.dropFirst(self.translators).first }

  /// Adds the IPv6 path that carries the translated packets. Its failure is a failure of this path.
  package mutating func add(_ below: PathFacts, _ path: KernelPath) {
    if self.translators > 0 {
      let links = below.links.filter { !self.links.contains($0) }
      self.knownLinks = below.knownLinks.map { $0 + self.links.count }
      self.links += links
      (self.guess, self.gatewayBelow) = (below.guess, below.lowestGateway)
      self.tunnelEnds += below.tunnelEnds
    }
    guard path.status != .satisfied, path.status != .unknown else { return }
    self.brokenBelow = self.brokenBelow ?? path.reason ?? .noRoute
  }

  /// Returns the path and its facts as seen below the translator, for the identity of the network.
  package func belowTranslator(_ path: KernelPath) -> (KernelPath, PathFacts) {
    guard self.translators > 0, self.links.count > 1 else { return (path, self) }
    var (path, facts) = (path, self)
    facts.links.removeFirst()
    let gateway = self.gatewayBelow.flatMap { $0.link == facts.links[0].link.index ? $0 : nil }
    (path.gateway, path.source, path.sourcePrefixLength) = (gateway?.address, nil, nil)
    return (path, facts)
  }
}

/// The global IPv6 prefixes on which translated IPv4 depends (K9). The translator's IPv6 address
/// has one of these prefixes, but the kernel does not show which.
package struct TranslationPrefixes: Hashable, Sendable {
  /// The prefixes of the link that the translated packets leave by.
  package var ofLink: Set<IPPrefix> = []
  /// The prefixes of all links.
  package var ofMachine: Set<IPPrefix> = []

  package init(_ addresses: [Address], on link: UInt32?) {
    for address in addresses where address.isOfGlobalIPv6 {
      // Addresses from DHCPv6 have no subnet (RFC 4291, 2.5.4).
      guard let prefix = IPPrefix(address.address, length: min(address.prefixLength, 64)) else {
        continue
      }
      self.ofMachine.insert(prefix)
      if address.link == link { self.ofLink.insert(prefix) }
    }
  }
}

extension FlowReading {
  /// Returns the reading with a lost source address if all prefixes are gone that a translated flow
  /// was made with. The IPv4 address stays, but the translator cannot send from the old IPv6
  /// address.
  func losingPrefixes(of made: NetworkIdentity) -> FlowReading {
    guard self.sourceLoss == nil, let former = made.translation?.ofLink, !former.isEmpty,
      let present = self.network.translation, former.isDisjoint(with: present.ofMachine)
    else { return self }
    var reading = self
    reading.sourceLoss = present.ofLink.isEmpty ? .mayReturn : .final
    return reading
  }
}

extension KernelEvent {
  /// Whether the message says that an IPv6 address below a translated path is gone.
  func removesPrefix(below path: KernelPath) -> Bool {
    guard case .addressRemoved(let address) = self else { return false }
    return path.isFromTranslator && address.isOfGlobalIPv6
      && path.chain.contains { $0.index == address.link }
  }
}

extension Address {
  /// Whether a translator may take its IPv6 address from the same prefix.
  package var isOfGlobalIPv6: Bool {
    self.address.family == .ipv6 && !self.address.isLinkLocal && !self.address.isLoopback
      && !self.address.isUniqueLocal
  }
}
