package import Connectivity

/// An entry of a routing table.
package struct ModelRoute: Hashable, Sendable {
  /// A next hop.
  package struct Leg: Hashable, Sendable {
    package var link: UInt32
    package var gateway: IPAddress?
    /// The source address of new connections, or `nil` if the link's addresses decide.
    package var source: IPAddress?

    package init(_ link: UInt32, via gateway: IPAddress? = nil, source: IPAddress? = nil) {
      (self.link, self.gateway, self.source) = (link, gateway, source)
    }
  }

  package var prefix: IPPrefix
  /// Matches only packets with a source in this prefix (IPv6, RFC 8043).
  package var from: IPPrefix?
  package var kind = Route.Kind.unicast
  package var table: UInt32
  package var metric: UInt32
  /// Each connection takes one.
  package var legs: [Leg] = []
  /// The reason why the route has no legs.
  package var refusal = KernelPath.Reason.noRoute

  package init(_ prefix: IPPrefix, table: UInt32 = 254, metric: UInt32, over legs: [Leg]) {
    (self.prefix, self.table, self.metric, self.legs) = (prefix, table, metric, legs)
  }

  package init(_ prefix: IPPrefix, metric: UInt32, refusal: KernelPath.Reason) {
    self.init(prefix, metric: metric, over: [])
    self.refusal = refusal
  }

  /// The only leg, or `nil` if there are others or none.
  private var leg: Leg? { self.legs.count == 1 ? self.legs[0] : nil }
  package var link: UInt32? { self.leg?.link }
  package var gateway: IPAddress? { self.leg?.gateway }

  package var matched: MatchedRoute {
    MatchedRoute(prefix: self.prefix, table: self.table, priority: self.metric)
  }
  package var change: RouteChange {
    RouteChange(self.matched, outLink: self.link, gateway: self.gateway)
  }

  /// The entry in the kernel's form, or `nil` if it carries no traffic.
  package var entry: RouteEntry? {
    guard !self.legs.isEmpty else { return nil }
    let links = self.legs.count > 1 ? self.legs.map(\.link) : []
    return RouteEntry(self.matched, outLink: self.link, legs: links)
  }

  fileprivate func matches(_ destination: Destination) -> Bool {
    guard self.prefix.contains(destination.address) else { return false }
    if let from = self.from, destination.source.map(from.contains) != true { return false }
    guard let link = destination.outLink else { return true }
    return self.legs.contains { $0.link == link }
  }

  /// Whether it precedes another route of its table that matches as well.
  package func isBetter(than other: ModelRoute) -> Bool {
    (-self.prefix.length, self.metric, self.link ?? 0)
      < (-other.prefix.length, other.metric, other.link ?? 0)
  }

  /// Returns the answer to a lookup that this entry decides.
  ///
  /// - Parameters:
  ///   - owner: The link with the source address. Since version 6.15, Linux chooses its leg;
  ///     before, or without one, Linux hashes on the ports.
  ///   - source: Chooses the source address on a leg.
  package func answer(
    to destination: Destination, owner: UInt32?, source: (Leg) -> IPAddress?
  ) -> RouteAnswer {
    let legs = self.legs.filter { destination.outLink == nil || $0.link == destination.outLink }
    guard !legs.isEmpty else { return .noRoute(self.refusal) }
    let leg =
      legs.first { $0.link == owner }
      ?? legs[Int(destination.transport?.localPort ?? 0) % legs.count]
    return .route(
      Route(
        kind: self.kind, outLink: leg.link, gateway: leg.gateway,
        source: destination.source ?? source(leg), table: self.table))
  }
}

extension [ModelRoute] {
  /// Returns the entry of a table that decides: the longest prefix, and then the lowest metric.
  /// This takes most of a simulation's time, so nothing is copied before it has won.
  package func best(in table: UInt32, for destination: Destination) -> ModelRoute? {
    var best: Int?
    for index in self.indices
    where self[index].table == table && self[index].matches(destination) {
      if let best, !self[index].isBetter(than: self[best]) { continue }
      best = index
    }
    return best.map { self[$0] }
  }
}
