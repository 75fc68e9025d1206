package import Connectivity

/// The addresses that stand for "the internet", and the one whose path is taken for the default path.
package struct DefaultDestination: Hashable, Sendable {
  /// Looked up, never contacted; at least one of each family.
  package var ipv4: [IPAddress]
  package var ipv6: [IPAddress]

  package init(ipv4: [IPAddress], ipv6: [IPAddress]) {
    self.ipv4 = ipv4
    self.ipv6 = ipv6
  }

  /// The probes of a family.
  package subscript(family: AddressFamily) -> [IPAddress] {
    family == .ipv4 ? self.ipv4 : self.ipv6
  }

  /// The probes of both families.
  package var all: [IPAddress] { self.ipv4 + self.ipv6 }

  /// The place of the answer that most probes agree on, at a tie of the one that is earliest; `nil` of no answers.
  ///
  /// A host route that captures one probe, such as a resolver's through a VPN, is outvoted by the others (T3). A probe that
  /// the kernel gives no answer about has no vote (K8).
  package static func majority(of answers: [RouteAnswer]) -> Int? {
    let votes = answers.map { answer in
      answer.isUnanswered ? 0 : answers.count { $0.goesTheWay(of: answer) }
    }
    guard let most = votes.max() else { return nil }
    return votes.firstIndex(of: most)
  }
}

extension RouteAnswer {
  /// Whether two probes leave by the same way: their source addresses may differ.
  package func goesTheWay(of other: RouteAnswer) -> Bool {
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
