package import Connectivity

extension Flow {
  /// Returns the flow with the link of its link-local remote address. Each link has such addresses,
  /// so the address alone does not identify a host (RFC 4007). If the client names no link, the
  /// only link that has the flow's local address is used.
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
    // A connection is registered even if its address is gone, so that connd reports its end.
    guard let link = links.first else { return self }
    guard links.count == 1 else { return nil }
    var placed = self
    placed.destination.outLink = link
    return placed
  }
}

extension FlowRefusal {
  /// The refusal of a flow with an unknown link.
  package static func needsLink(_ remote: IPAddress) -> Self {
    .invalid("add.interface: \(remote) is link-local: set its interface")
  }
}
