package import Connectivity

/// A default path that channels may still be on: the present one of its family, or one that was.
///
/// What the stream says of a scope and what `Guard` says of a flow come from the same rules: it is followed as if it were a
/// flow.
package struct FollowedPath: Hashable, Sendable {
  package let id: UInt64
  package let family: AddressFamily
  var tracker: FlowTracker

  init(id: UInt64, _ family: AddressFamily, on path: Path, _ network: NetworkIdentity) {
    self.id = id
    self.family = family
    // As a connection that was made on it: it has the path's address.
    self.tracker = FlowTracker(
      Flow(Destination(.unspecified(family)), local: path.source), on: path, network: network)
  }

  /// The path as channels were made on it.
  package var path: Path { self.tracker.path }
  /// The address of those channels.
  package var source: IPAddress? { self.tracker.source }
  package var firstGateway: IPAddress? { self.tracker.firstGateway }

  /// Whether new connections on `path` are what this is about.
  func isSame(as path: Path) -> Bool {
    !self.tracker.isInDoubt && self.path.chain.first?.index == path.chain.first?.index
      && self.path.isOfSameSubnet(as: path)
  }
}

/// What new connections of a family get at the moment of a reading.
package struct PresentPath: Hashable, Sendable {
  package var path: Path
  package var network: NetworkIdentity

  package init(_ path: Path, network: NetworkIdentity = NetworkIdentity()) {
    self.path = path
    self.network = network
  }
}
