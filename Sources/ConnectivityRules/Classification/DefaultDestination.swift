package import Connectivity

/// The addresses that represent "the internet". The path to one of them is taken as the default
/// path.
///
/// Implements rule K2.
package struct DefaultDestination: Hashable, Sendable {
  /// The IPv4 probes. They are looked up, never contacted. Each family has at least one.
  package var ipv4: [IPAddress]
  package var ipv6: [IPAddress]

  package init(ipv4: [IPAddress], ipv6: [IPAddress]) {
    self.ipv4 = ipv4
    self.ipv6 = ipv6
  }

  package subscript(family: AddressFamily) -> [IPAddress] {
    family == .ipv4 ? self.ipv4 : self.ipv6
  }

  package var all: [IPAddress] { self.ipv4 + self.ipv6 }

  /// Returns the index of the answer that most probes agree on, or `nil` without answers. The
  /// earliest answer wins a tie.
  ///
  /// A host route that captures one probe, such as a VPN's route to a resolver, is outvoted by the
  /// others (T3). A probe without an answer from the kernel has no vote (K8).
  package static func majority(of answers: [RouteAnswer]) -> Int? {
    let votes = answers.map { answer in
      answer.isUnanswered ? 0 : answers.count { $0.usesRoute(of: answer) }
    }
    guard let most = votes.max() else { return nil }
    return votes.firstIndex(of: most)
  }
}

extension RouteAnswer {
  /// Whether two probes leave by the same path. Their source addresses may differ.
  package func usesRoute(of other: RouteAnswer) -> Bool {
    switch (self, other) {
    case (.noRoute(let reason), .noRoute(let otherReason)):
      reason == otherReason
    case (.route(let route), .route(let otherRoute)):
      route.kind == otherRoute.kind && route.outLink == otherRoute.outLink
        && route.gateway == otherRoute.gateway && route.table == otherRoute.table
    case (.unanswered, .unanswered):
      true
    case (.route, _), (.noRoute, _), (.unanswered, _):
      false
    }
  }
}
