import Connectivity
import ConnectivityRules
import LinuxSupport
import ModelRoutes
import Netlink

@testable import ConndServer

/// The machine of a recording, as far as connd asked about it: its links, their addresses, and the
/// default route of each family. The other ends of the links are the model's.
extension ModelNetwork {
  /// Links with a higher index are not found.
  private static let maxLinks: UInt32 = 4096

  init(_ recording: Recording) throws {
    self.init(.laptop)
    let tape = RecordingCursor(recording) { _ in }
    let kernel = try NetlinkKernel(
      watching: FilterSpec(), on: ReplayedSockets(tape: tape),
      devices: DeviceReader(from: ReplayedFiles(tape: tape)))
    let configuration = try Configuration.parse(recording.header.configuration, file: "")
    self.links = self.links.filter { $0.sort == .loopback }
    self.routes = []
    for index in 2...Self.maxLinks {
      guard let facts = try kernel.link(index) else { continue }
      var link = ModelLink(
        index: index, name: facts.link.name,
        sort: facts.sort(configuration.links.rule(for: facts.link.name)?.medium))
      link.isUp = facts.link.flags.contains(.up)
      link.hasCarrier = facts.link.carrier ?? facts.link.flags.contains(.lowerUp)
      link.isDormant = facts.link.state == .dormant
      (link.lower, link.master) = (facts.link.lower, facts.link.master)
      if link.sort != .vlan { link.lower = nil }
      if link.sort == .tunnel { link.remote = facts.link.outer?.address ?? Self.tunnelRemote }
      switch link.sort {
      case .wired, .vlan, .bridge, .bond: link.network = 6
      case .wifi: link.network = 2
      case .cellular: link.network = 20
      case .loopback, .tunnel, .container: link.network = 0
      }
      link.addresses = try kernel.addresses(with: .unspecified(.ipv4), on: index)
      self.links.append(link)
    }
    self.lastIndex = max(self.lastIndex, self.links.map(\.index).max() ?? 0)
    for family in AddressFamily.allCases {
      try self.takeRoute(family, configuration.destinations[family], kernel)
    }
    for link in self.links { _ = self.learnRouters(link.index) }
  }

  /// Takes the default route that most probes use, and their source address.
  private mutating func takeRoute(
    _ family: AddressFamily, _ probes: [IPAddress], _ kernel: NetlinkKernel
  ) throws {
    let answers = try kernel.routes(to: probes.map { Destination($0) })
    guard let place = DefaultDestination.majority(of: answers),
      case .route(let route) = answers[place], let link = self[route.outLink]
    else { return }
    if let source = route.source, !self.has(source, on: link.index) {
      let found = try kernel.addresses(with: source, on: link.index)
      for address in found { _ = self.addAddress(address) }
    }
    self.routes.append(
      ModelRoute(
        .all(family), metric: link.metric, over: [.init(link.index, via: route.gateway)]))
  }
}

extension LinkFacts {
  /// - Parameter medium: the configured medium.
  fileprivate func sort(_ medium: NetworkMedium?) -> ModelLink.Sort {
    switch medium {
    case .wired: return .wired
    case .wifi: return .wifi
    case .cellular: return .cellular
    default: break
    }
    switch self.link.kind {
    case "vlan" where self.link.lower != nil: return .vlan
    case "bridge": return .bridge
    case "bond": return .bond
    case let kind? where ["gre", "ipip", "sit", "vxlan", "wireguard", "tun"].contains(kind):
      return .tunnel
    case .some: return .container
    case nil: break
    }
    if self.isWireless { return .wifi }
    return self.device.type == "wwan" ? .cellular : .wired
  }
}
