package import Connectivity

/// A default path that channels may use: the current one of its address family, or a former one.
///
/// Such a path is tracked like a flow, so that the scopes of `Watch` and the flows of `Guard`
/// follow the same rules.
package struct TrackedDefaultPath: Hashable, Sendable {
  package let id: UInt64
  package let family: AddressFamily
  var tracker: FlowTracker

  init(id: UInt64, _ family: AddressFamily, on path: KernelPath, _ network: NetworkIdentity) {
    self.id = id
    self.family = family
    // The path is tracked as a connection that was made on it and has its source address.
    self.tracker = FlowTracker(
      Flow(Destination(.unspecified(family)), local: path.source), on: path, network: network)
  }

  /// The path on which the channels were made.
  package var path: KernelPath { self.tracker.path }
  /// The source address of the channels.
  package var source: IPAddress? { self.tracker.source }
  package var firstGateway: IPAddress? { self.tracker.firstGateway }

  /// Whether new connections on `path` are equivalent to these channels.
  func isSame(as path: KernelPath) -> Bool {
    !self.tracker.isInDoubt && self.path.chain.first?.index == path.chain.first?.index
      && self.path.isOfSameSubnet(as: path)
  }
}
