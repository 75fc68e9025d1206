import Connectivity
import ConnectivityProtocol

extension Connectivity_V1_Explanation {
  /// Returns why the used route is preferred to another link's, or `nil` if that link has no route.
  func advantage(over unused: Connectivity_V1_UnusedLink) -> String? {
    guard unused.hasRoutePrefix else { return nil }
    let name = unused.link.name
    switch UnusedReason(unused.reason) {
    case .higherMetric:
      return "its route has the lower metric (\(self.routePriority) < \(unused.routePriority))"
    case .lessSpecific: return "its route is more specific (\(self.routePrefix))"
    case .laterRule:
      return self.rules.first.map { "a rule for it comes first (\($0.priority): \($0.selector))" }
        ?? "a rule for it comes first"
    case .equalMetric where unused.routePrefix.hasSuffix("/0"):
      let others = self.unusedLinks.count { $0.reason == .equalMetric }
      return "the kernel prefers it among \(others == 1 ? "two" : "\(others + 1)") equal defaults"
    case .equalMetric: return "the kernel prefers it among equal routes"
    case .down: return "\(name) is down"
    case .noCarrier: return "\(name) has no carrier"
    case .dormant: return "\(name) is dormant"
    case .noRoute, .noAddress, .port, .discarded: return nil
    }
  }

  /// Returns `metric 600, loses: 100 is lower` for a link that the traffic does not use.
  func text(_ unused: Connectivity_V1_UnusedLink) -> String {
    let metric = "metric \(unused.routePriority)"
    switch UnusedReason(unused.reason) {
    case .down: return "down"
    case .noCarrier: return "no carrier"
    case .dormant: return "dormant"
    case .port: return "a port" + (unused.link.hasMaster ? " of \(unused.link.master)" : "")
    case .noAddress: return "up, no \(self.familyText) address, no \(self.routeText)"
    case .noRoute: return "up, no \(self.routeText)"
    case .laterRule:
      let table = RoutingTable.name(unused.routeTable)
      let later = unused.hasRule ? "rule \(unused.rule.priority)" : "a later rule"
      let first = self.rules.first.map { "rule \($0.priority) comes" } ?? "another rule comes"
      return "\(metric) in table \(table), loses: \(first) before \(later)"
    case .lessSpecific: return "\(unused.routePrefix), loses: \(self.routePrefix) is more specific"
    case .higherMetric: return "\(metric), loses: \(self.routePriority) is lower"
    case .equalMetric:
      return "\(metric), loses: the kernel prefers another equal route for this destination"
    case .discarded: return "up, but \(self.discardText ?? "the traffic is discarded")"
    }
  }

  /// Returns `it has no carrier` for a link that the traffic does not use, or `nil` if another link
  /// is preferred.
  func lack(of unused: Connectivity_V1_UnusedLink) -> String? {
    switch UnusedReason(unused.reason) {
    case .down: "it is down"
    case .noCarrier: "it has no carrier"
    case .dormant: "it is dormant"
    case .port: "it is a port" + (unused.link.hasMaster ? " of \(unused.link.master)" : "")
    case .noAddress: "it has no \(self.familyText) address and no \(self.routeText)"
    case .noRoute: "it has no \(self.routeText)"
    case .discarded: self.discardText ?? "the traffic is discarded"
    case .laterRule, .lessSpecific, .higherMetric, .equalMetric: nil
    }
  }

  var familyText: String { self.destination.contains(":") ? "IPv6" : "IPv4" }

  /// The route that another link lacks: a default route, or one to the destination itself.
  private var routeText: String {
    !self.hasRoutePrefix || self.routePrefix.hasSuffix("/0") ? "default route" : "route to it"
  }
}
