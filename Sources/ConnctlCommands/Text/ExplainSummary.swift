import Connectivity
import ConnectivityProtocol

// The first line of `connctl explain`.
extension Connectivity_V1_Explanation {
  /// Returns the sentence that answers the question: why the traffic uses this path, or why it does
  /// not use the link that the user named.
  ///
  /// - Parameters:
  ///   - asked: The only link that was compared, if the user named one.
  ///   - other: The default path of the other address family, if the question is about both.
  ///   - host: The host that the question is about, or `nil` if it is about all traffic.
  func summary(
    _ path: KernelPath, comparedWith asked: String? = nil, other: KernelPath? = nil,
    to host: String? = nil
  ) -> String {
    let difference = other.flatMap { self.difference(of: $0, from: path) }
    let differs = difference != nil
    let used = self.use(of: path, comparedWith: asked, isOneOfTwo: differs, to: host)
    var sentences = [used]
    if let difference { sentences.append("\(self.otherFamilyText) traffic \(difference).") }
    guard let unused = self.unusedLinks.first, asked != nil, let lack = self.lack(of: unused) else {
      return sentences.joined(separator: " ")
    }
    let name = unused.link.name
    let carriesOther = differs && other?.chain.contains { $0.name == name } == true
    sentences.insert(
      "\(name) is not used\(carriesOther ? " for \(self.familyText)" : ""): \(lack).", at: 0)
    return sentences.joined(separator: " ")
  }

  /// Returns how the other family's traffic differs: `leaves by wlan0 (Wi-Fi)`, or `does not leave:
  /// a prohibit rule or route`. Returns `nil` if it leaves by the same link, or has no route, as
  /// IPv6 in many networks.
  private func difference(of other: KernelPath, from path: KernelPath) -> String? {
    guard path.status == .satisfied else { return nil }
    if other.status == .satisfied {
      guard let link = other.interface, link != path.interface else { return nil }
      return "leaves by \(link)\(other.medium.note)"
    }
    guard let reason = other.reason, ![.noRoute, .unsupported].contains(reason) else { return nil }
    return "does not leave: \(reason.text(of: other.interface))"
  }

  private func use(
    of path: KernelPath, comparedWith asked: String?, isOneOfTwo: Bool, to host: String?
  ) -> String {
    guard path.status == .satisfied, let link = path.interface else {
      return self.obstacle(path, to: host)
    }
    if path.medium == .loopback { return "The address belongs to this machine." }
    let isTunnel = self.links.first.map { NetworkMedium($0.medium) == .tunnel } ?? false
    let below = path.chain.count > 1 ? "\(path.chainText.dropFirst(link.count))" : ""
    let kind =
      self.isTranslated ? ", translated IPv4\(below)" : isTunnel ? ", a tunnel\(below)" : ""
    let way = link + kind + path.medium.note
    let traffic = isOneOfTwo ? "\(self.familyText) traffic" : "Traffic"
    if let unused = self.unusedLinks.first, let why = self.advantage(over: unused),
      asked == nil || self.lack(of: unused) == nil
    {
      return "\(traffic) leaves by \(way) because \(why)."
    }
    // The other links are unknown, or the kernel does not look up their routes (multicast).
    guard asked == nil, !self.isMulticast else { return "\(traffic) leaves by \(way)." }
    let route = isOneOfTwo ? "an \(self.familyText) route" : "a route"
    return "\(traffic) leaves by \(way), the only link with \(route)."
  }

  /// Whether this machine translates the traffic to IPv6 (K9).
  var isTranslated: Bool {
    guard let path = try? KernelPath(self.path), let first = self.links.first else { return false }
    return path.isFromTranslator && first.isTranslator
  }

  private func obstacle(_ path: KernelPath, to host: String?) -> String {
    let traffic = "No traffic" + (host.map { " to \($0.printable)" } ?? "")
    if let discard = self.discardText { return "\(traffic) leaves: \(discard)." }
    switch path.reason {
    case .noCarrier:
      let link = path.interface ?? "the link"
      return
        "Traffic is lost on \(link), which has no carrier: the kernel uses its route until it is "
        + "removed (sysctl ignore_routes_with_linkdown)."
    case let reason?:
      var text = reason.text(of: path.interface)
      if reason == .noSourceAddress, let link = self.links.first, link.hasMaster {
        text += " (\(link.name) is a port of \(link.master))"
      }
      return "\(traffic) leaves: \(text)."
    case nil: return "connd does not know the path."
    }
  }

  private var otherFamilyText: String { self.destination.contains(":") ? "IPv4" : "IPv6" }

  var isMulticast: Bool {
    guard let first = IPAddress(self.destination)?.bytes.first else { return false }
    return self.destination.contains(":") ? first == 0xFF : (224..<240).contains(first)
  }
}

// MARK: - What discards the traffic

extension Connectivity_V1_Explanation {
  /// The text `rule 50 (from all) prohibits the traffic`, or `nil` if no rule or route is known to
  /// discard it.
  var discardText: String? {
    guard self.hasDiscard else { return nil }
    if let route = self.discardingRoute { return "the route “\(route)” discards the traffic" }
    let rule = self.discard.rule
    return "rule \(rule.priority) (\(rule.selector)) \(self.discardVerb) the traffic"
  }

  /// The text `unreachable default metric 50 in table 254 (main)`, or `nil` if a rule discards the
  /// traffic.
  private var discardingRoute: String? {
    guard self.hasDiscard, self.discard.hasRoutePrefix else { return nil }
    return "\(self.discardedRoute) in table \(RoutingTable.name(self.discard.routeTable))"
  }

  /// The text `unreachable default metric 50`, as ip-route(8) prints it.
  var discardedRoute: String {
    let prefix = self.discard.routePrefix
    let destination = prefix.hasSuffix("/0") ? "default" : prefix
    return "\(self.discardType) \(destination) metric \(self.discard.routePriority)"
  }

  /// The type of the rule or route, as ip(8) prints it.
  var discardType: String {
    switch (try? KernelPath(self.path))?.reason {
    case .prohibited: "prohibit"
    case .blackhole: "blackhole"
    default: "unreachable"
    }
  }

  private var discardVerb: String {
    switch self.discardType {
    case "prohibit": "prohibits"
    case "blackhole": "drops"
    default: "rejects"
    }
  }
}

extension NetworkMedium {
  /// The medium in a sentence: ` (Wi-Fi)`. Empty if its name does not help users.
  fileprivate var note: String {
    switch self {
    case .wifi: " (Wi-Fi)"
    case .wired, .cellular, .bluetooth: " (\(self.rawValue))"
    case .loopback, .tunnel, .unknown: ""
    @unknown default: ""
    }
  }
}
