package import Connectivity

extension Flow {
  /// Returns the flow with the link of its link-local address. Each link has that network, so
  /// without a link the address names no host (RFC 4007). If the client does not name the link, its
  /// own address may belong to exactly one.
  ///
  /// - Parameter links: Returns the links that have an address.
  /// - Returns: `nil` if the link is unknown.
  package func placed<Failure: Error>(
    linksOf links: (IPAddress) throws(Failure) -> Set<UInt32>
  ) throws(Failure) -> Flow? {
    let remote = self.destination
    guard remote.address.needsLink, remote.outLink == nil else { return self }
    guard let local = self.local, local.isLinkLocal else { return nil }
    let links = try links(local)
    // A connection whose address is gone is registered, so that its end is reported.
    guard let link = links.first else { return self }
    guard links.count == 1 else { return nil }
    var placed = self
    placed.destination.outLink = link
    return placed
  }
}

extension FlowRefusal {
  /// The refusal of a flow whose link is unknown.
  package static func needsLink(_ remote: IPAddress) -> Self {
    .invalid("add.interface: \(remote) is link-local: set its interface")
  }
}
