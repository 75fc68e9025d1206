import Connectivity
import ConnectivityRules

/// Finds the lower link that passes the traffic of a stack of links (K6), and ports that pass none
/// because of their master.
///
/// Implements rule K3.
extension PathReader {
  /// The link below another link on the path to a next hop.
  struct PortChoice {
    /// `nil` if no link is below.
    var link: LinkFacts?
    /// Whether the kernel names this link. If not, the link is the most likely port of a switch.
    var isKnown = true
    /// The reason why no traffic passes even if the link is up, or `nil` if traffic passes.
    var missing: KernelPath.Reason?
  }

  /// Returns why no traffic passes through a link that is a port of another link, or `nil` if
  /// traffic passes.
  ///
  /// A bridge blocks the frames of a port that does not forward. Most masters take all frames that
  /// their ports receive, so an address of the port itself, or a PPPoE session on it, gets no
  /// replies. A VRF leaves traffic to the port, unless the VRF is down.
  ///
  /// - Parameter above: The link above this one on the path, or `nil` if this is the out-link.
  func missing(
    to link: LinkFacts, below above: LinkFacts?, _ view: KernelView
  ) throws(KernelUnavailable) -> KernelPath.Reason? {
    guard let index = link.link.master else { return nil }
    // The path reached this link from one of its ports. The link's own master does not affect that.
    if let above, above.link.master == link.link.index { return nil }
    if above?.link.index == index || link.isPeer(of: above) {
      return link.link.stateAsPort == link.link.state ? nil : .dormant
    }
    // The kernel handles VLANs before the master (__netif_receive_skb_core).
    guard above?.link.kind != "vlan", !(above?.isOpenVSwitch ?? false),
      let master = try view.link(index)
    else { return nil }
    if master.takesWhatPortsReceive { return .noSourceAddress }
    return master.link.kind == "vrf" && master.link.state == .down ? .linkDown : nil
  }

  /// Returns the next link of a path through a pair of links. After the first end this is the other
  /// end, and then the switch that has the other end as a port. Returns `nil` if the path does not
  /// continue in this namespace.
  func acrossPair(
    _ link: LinkFacts, below above: LinkFacts?, _ view: KernelView
  ) throws(KernelUnavailable) -> LinkFacts? {
    guard let peer = link.peer else { return nil }
    guard link.isPeer(of: above) else { return try view.link(peer) }
    guard let index = link.link.master, let master = try view.link(index), master.isSwitch else {
      return nil
    }
    return master
  }

  /// Returns the lower link that passes traffic to the next hop.
  ///
  /// - Parameter above: The link above this one on the path. If it is a port of this link, the
  ///   traffic leaves through another port.
  func port(
    of link: LinkFacts, among ports: [UInt32], below above: LinkFacts?,
    towards nextHop: Gateway, _ view: KernelView
  ) throws(KernelUnavailable) -> PortChoice {
    let entry = above.flatMap { $0.link.master == link.link.index ? $0.link.index : nil }
    let indexes = ports.filter { $0 != entry }
    if link.isOpenVSwitch {
      return PortChoice(link: try self.uplink(among: indexes, view), isKnown: false)
    }
    guard link.link.kind == "bridge" else {
      return PortChoice(link: try self.likeliestPort(of: link, among: indexes, view))
    }
    let place = try self.place(of: nextHop, behind: link, view)
    var choice = PortChoice(isKnown: place?.port != nil)
    if let index = place?.port {
      choice.link = try view.link(index).flatMap {
        $0.link.master == link.link.index && index != entry ? $0 : nil
      }
      // The port has left the bridge, or the traffic came from it. The bridge then floods its other
      // ports, but virtual machines and containers do not forward.
      if choice.link == nil {
        choice.link = try self.likeliestPort(of: link, among: indexes, view).flatMap {
          self.isGuest($0) ? nil : $0
        }
        choice.isKnown = false
        if choice.link == nil { choice.missing = .noCarrier }
      }
    } else {
      choice.link = try self.likeliestPort(of: link, among: indexes, view)
    }
    // An entry in the bridge's table lets the next hop through a locked port. Entries per VLAN are
    // not found here.
    if choice.link?.link.bridgePort?.isLocked ?? false, !(place?.isPresent ?? false),
      !link.link.filtersVLANs
    {
      choice.missing = .dormant
    }
    return choice
  }

  /// Returns the bridge port behind which the next hop is, or was when the bridge last knew it.
  private func place(
    of nextHop: Gateway, behind bridge: LinkFacts, _ view: KernelView
  ) throws(KernelUnavailable) -> BridgePorts.Place? {
    let present = try view.neighbourNow(nextHop.address, on: nextHop.link)?.hardwareAddress
    let last = view.subscriptions.gateways.lastHardwareAddress(of: nextHop)
    guard let address = present ?? last else { return nil }
    return try view.place(of: address, on: bridge.link.index)
  }

  /// Returns the port that most likely passes the traffic.
  private func likeliestPort(
    of link: LinkFacts, among indexes: [UInt32], _ view: KernelView
  ) throws(KernelUnavailable) -> LinkFacts? {
    var indexes = indexes
    if let active = link.link.activePort, try view.link(active)?.link.state != .up,
      !link.device.lowerLinks.isEmpty
    {
      // A bond that has not noticed the failure yet will fail over to another port.
      indexes = link.device.lowerLinks
    }
    return try self.best(of: indexes, view) { _ in true }
  }

  /// Returns the uplink of an Open vSwitch, which does not reveal what is behind its ports. All its
  /// bridges share one set of ports, including the tunnels between its machines.
  private func uplink(
    among indexes: [UInt32], _ view: KernelView
  ) throws(KernelUnavailable) -> LinkFacts? {
    try self.best(of: indexes, view) { port in
      !port.isTunnel && !port.isOpenVSwitch && !self.isGuest(port) && !self.isOfPair(port)
        && !port.neverCarries
    }
  }

  private func best(
    of indexes: [UInt32], _ view: KernelView, where isCandidate: (LinkFacts) -> Bool
  ) throws(KernelUnavailable) -> LinkFacts? {
    var ports: [LinkFacts] = []
    // A bridge may have a thousand ports, most of them guests. The first unambiguous port is
    // enough.
    for index in indexes.sorted() {
      guard let port = try view.link(index), isCandidate(port) else { continue }
      if port.link.stateAsPort == .up, !self.isGuest(port), port.isPlaced { return port }
      ports.append(port)
    }
    func rank(_ port: LinkFacts) -> (Int, Int, Int, UInt32) {
      (
        port.neverCarries ? 3 : self.isGuest(port) ? 2 : self.isOfPair(port) ? 1 : 0,
        port.link.stateAsPort == .up ? 0 : 1,
        port.isPlaced ? 0 : 1, port.link.index
      )
    }
    return ports.min { rank($0) < rank($1) }
  }

  /// Whether a port leads to a virtual machine or a container. A medium in the configuration takes
  /// precedence.
  private func isGuest(_ port: LinkFacts) -> Bool { port.isGuest && !self.hasSetMedium(port) }

  /// Whether a port leads to another link of this machine, such as a port of another bridge. A
  /// medium in the configuration takes precedence.
  private func isOfPair(_ port: LinkFacts) -> Bool {
    port.peer != nil && !self.hasSetMedium(port)
  }

  private func hasSetMedium(_ port: LinkFacts) -> Bool {
    self.classifier.policy.rule(for: port.link)?.medium != nil
  }
}

extension LinkFacts {
  /// Whether this link receives what the other one sends.
  fileprivate func isPeer(of other: LinkFacts?) -> Bool {
    other.map { self.peer == $0.link.index } ?? false
  }
}
