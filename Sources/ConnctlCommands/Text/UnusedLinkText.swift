import Connectivity
import ConnectivityProtocol

extension Connectivity_V1_Explanation {
  /// Returns the sentence that explains why the traffic uses this path.
  ///
  /// - Parameter asked: The only link that was compared, if the user named one.
  func summary(_ path: KernelPath, comparedWith asked: String? = nil) -> String {
    guard path.status == .satisfied, let link = path.interface else {
      return self.obstacle(path)
    }
    if path.medium == .loopback { return "The address belongs to this machine." }
    let medium = path.medium.phrase.map { " (\($0))" } ?? ""
    guard let why = self.unusedLinks.first.flatMap({ self.advantage(over: $0) }) else {
      // The other links are unknown.
      return "Traffic leaves by \(link)\(medium)"
        + (asked == nil ? ", the only link with a route." : ".")
    }
    return "Traffic leaves by \(link)\(medium) because \(why)."
  }

  private func obstacle(_ path: KernelPath) -> String {
    switch path.reason {
    case .noCarrier:
      let link = path.interface ?? "the link"
      return
        "Traffic is lost on \(link), which has no carrier: the kernel uses its route until it is "
        + "removed (sysctl ignore_routes_with_linkdown)."
    case let reason?: return "No traffic leaves: \(reason.text(of: path.interface))."
    case nil: return "connd does not know the path."
    }
  }

  /// Returns why the used route is preferred to another link's, or `nil` if that link has no route.
  private func advantage(over unused: Connectivity_V1_UnusedLink) -> String? {
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
    case .equalMetric: return "\(metric), loses: the kernel prefers another equal route"
    case .discarded: return "up, but the traffic is discarded"
    }
  }

  private var familyText: String { self.destination.contains(":") ? "IPv6" : "IPv4" }

  /// The route that another link lacks: a default route, or one to the destination itself.
  private var routeText: String {
    !self.hasRoutePrefix || self.routePrefix.hasSuffix("/0") ? "default route" : "route to it"
  }
}

extension Medium {
  /// The medium in a sentence, or `nil` if its name does not help users.
  fileprivate var phrase: String? {
    switch self {
    case .wifi: "Wi-Fi"
    case .wired, .cellular, .bluetooth: self.rawValue
    case .loopback, .tunnel, .unknown: nil
    @unknown default: nil
    }
  }
}
