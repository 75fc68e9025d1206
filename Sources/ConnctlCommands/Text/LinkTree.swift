import ConnectivityProtocol

/// Links as a tree. Below each link are its lower links: a VLAN's link, a bond's ports, or the link
/// that a tunnel's packets use.
struct LinkTree {
  struct Row {
    var link: Connectivity_V1_Link
    /// The tree branch before the link's name.
    var branch: String
  }

  private let links: [Connectivity_V1_Link]
  private let ports: [String: [Connectivity_V1_Link]]
  private let named: [String: Connectivity_V1_Link]

  /// The maximum depth, which ends cycles. Real stacks are shallower.
  private static let maxDepth = 16

  init(_ links: [Connectivity_V1_Link]) {
    self.links = links
    self.ports = Dictionary(grouping: links.filter(\.hasMaster), by: \.master)
    self.named = Dictionary(links.map { ($0.name, $0) }) { first, _ in first }
  }

  /// All links, each below the links that use it. Those with a default path come first, otherwise
  /// the order is the original one.
  var rows: [Row] {
    let carrying = Set(self.links.flatMap { self.below($0).map(\.name) })
    var roots = self.links.filter { !carrying.contains($0.name) }
    // In a cycle, no link is on top.
    if roots.isEmpty { roots = self.links }
    let trees = roots.map { self.rows(from: $0, branch: "", rest: "", above: []) }
    return (trees.filter(\.hasDefault) + trees.filter { !$0.hasDefault }).flatMap { $0 }
  }

  private func rows(
    from link: Connectivity_V1_Link, branch: String, rest: String, above: [String]
  ) -> [Row] {
    let path = above + [link.name]
    let below = self.below(link).filter { !path.contains($0.name) }
    guard path.count < Self.maxDepth else { return [Row(link: link, branch: branch)] }
    return [Row(link: link, branch: branch)]
      + below.enumerated().flatMap { place, lower in
        let isLast = place == below.count - 1
        return self.rows(
          from: lower, branch: rest + (isLast ? "└─" : "├─"), rest: rest + (isLast ? "  " : "│ "),
          above: path)
      }
  }

  private func below(_ link: Connectivity_V1_Link) -> [Connectivity_V1_Link] {
    if let ports = self.ports[link.name] { return ports }
    return link.hasLower ? [self.named[link.lower]].compactMap { $0 } : []
  }
}

extension [LinkTree.Row] {
  fileprivate var hasDefault: Bool {
    self.contains { $0.link.defaultIpv4 || $0.link.defaultIpv6 }
  }
}
