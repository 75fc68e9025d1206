import ConnectivityProtocol

/// Hides the virtual ports of bridges, such as the veths of containers, behind their bridge.
///
/// Ports of the default paths and hardware ports are shown.
struct LinkFolding {
  let links: [Connectivity_V1_Link]
  /// The number of hidden ports, by the name of the bridge.
  let ports: [String: Int]

  init(_ all: [Connectivity_V1_Link]) {
    let bridges = Set(all.filter { ["bridge", "openvswitch"].contains($0.kind) }.map(\.name))
    func isHidden(_ link: Connectivity_V1_Link) -> Bool {
      link.hasKind && link.hasMaster && bridges.contains(link.master)
        && !link.defaultIpv4 && !link.defaultIpv6
    }
    self.links = all.filter { !isHidden($0) }
    self.ports = Dictionary(grouping: all.filter(isHidden), by: \.master).mapValues(\.count)
  }

  /// Returns the text `2 ports`, or `nil` if no port of the link is hidden.
  func portText(of link: Connectivity_V1_Link) -> String? {
    self.ports[link.name].map { "\($0) \($0 == 1 ? "port" : "ports")" }
  }
}
