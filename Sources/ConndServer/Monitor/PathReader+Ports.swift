import Connectivity
import ConnectivityRules

/// Which of the links below a stack carries the traffic, and what masters do with their ports (K6).
extension PathReader {
  /// The link below another one on the way to a next hop.
  struct PortChoice {
    /// `nil` if there is none.
    var link: LinkFacts?
    /// Whether the kernel says that it is this one; otherwise it is the likeliest of a switch's ports.
    var isKnown = true
    /// Why nothing passes, although the link carries.
    var missing: Path.Reason?
  }

  /// Returns why nothing passes by a link that is another one's port, or `nil` if traffic passes.
  ///
  /// A bridge holds back the frames of a port that does not forward. Most masters take what their ports receive, so that an
  /// address of the port itself, or a PPPoE session on it, gets no answer. A VRF leaves it to the port, unless the VRF is down.
  ///
  /// - Parameter above: the link that this one is below on the path; `nil` if it is the out-link.
  func missing(
    to link: LinkFacts, below above: LinkFacts?, _ view: KernelView
  ) throws(KernelUnavailable) -> Path.Reason? {
    guard let index = link.link.master else { return nil }
    if above?.link.index == index {
      return link.link.stateAsPort == link.link.state ? nil : .dormant
    }
    // The kernel looks for a VLAN before it asks for the master (__netif_receive_skb_core).
    guard above?.link.kind != "vlan", !(above?.isOpenVSwitch ?? false),
      let master = try view.link(index)
    else { return nil }
    if master.takesWhatPortsReceive { return .noSourceAddress }
    return master.link.kind == "vrf" && master.link.state == .down ? .linkDown : nil
  }

  /// Returns the link below that carries what goes to the next hop.
  func port(
    of link: LinkFacts, among indexes: [UInt32], towards nextHop: Gateway, _ view: KernelView
  ) throws(KernelUnavailable) -> PortChoice {
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
        $0.link.master == link.link.index ? $0 : nil
      }
      // Behind a port that the bridge does not have any more: what is sent goes out of all others now, and guests do not
      // pass it on.
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
    // An entry in the bridge's table lets the next hop through a locked port. One that is kept by VLAN is not found.
    if choice.link?.link.bridgePort?.isLocked ?? false, !(place?.isPresent ?? false),
      !link.link.filtersVLANs
    {
      choice.missing = .dormant
    }
    return choice
  }

  /// Returns the port of a bridge behind which the next hop is, or was when the bridge knew it last.
  private func place(
    of nextHop: Gateway, behind bridge: LinkFacts, _ view: KernelView
  ) throws(KernelUnavailable) -> Networks.Place? {
    let present = try view.neighbourNow(nextHop.address, on: nextHop.link)?.hardwareAddress
    let last = view.interests.networks.lastHardwareAddress(of: nextHop.address, on: nextHop.link)
    guard let address = present ?? last else { return nil }
    return try view.interests.networks.place(of: address, on: bridge.link.index, view)
  }

  /// Returns the port that most likely carries the traffic.
  private func likeliestPort(
    of link: LinkFacts, among indexes: [UInt32], _ view: KernelView
  ) throws(KernelUnavailable) -> LinkFacts? {
    var indexes = indexes
    if let active = link.link.activePort, try view.link(active)?.link.state != .up,
      !link.device.lowerLinks.isEmpty
    {
      // A bond that has not noticed yet fails over to another one.
      indexes = link.device.lowerLinks
    }
    return try self.best(of: indexes, view) { _ in true }
  }

  /// Returns the uplink of an Open vSwitch, which keeps to itself what is behind its ports. All its bridges share one set of
  /// ports, which holds the tunnels between its machines as well.
  private func uplink(
    among indexes: [UInt32], _ view: KernelView
  ) throws(KernelUnavailable) -> LinkFacts? {
    try self.best(of: indexes, view) { port in
      !port.isTunnel && !port.isOpenVSwitch && !self.isGuest(port) && !port.neverCarries
    }
  }

  private func best(
    of indexes: [UInt32], _ view: KernelView, where isCandidate: (LinkFacts) -> Bool
  ) throws(KernelUnavailable) -> LinkFacts? {
    var ports: [LinkFacts] = []
    // A bridge may have a thousand, most of them guests: the first that leaves no doubt will do.
    for index in indexes.sorted() {
      guard let port = try view.link(index), isCandidate(port) else { continue }
      if port.link.stateAsPort == .up, !self.isGuest(port), port.isPlaced { return port }
      ports.append(port)
    }
    func rank(_ port: LinkFacts) -> (Int, Int, Int, UInt32) {
      (
        port.neverCarries ? 2 : self.isGuest(port) ? 1 : 0,
        port.link.stateAsPort == .up ? 0 : 1,
        port.isPlaced ? 0 : 1, port.link.index
      )
    }
    return ports.min { rank($0) < rank($1) }
  }

  /// Whether a port leads to a virtual machine or a container; the configuration knows better.
  private func isGuest(_ port: LinkFacts) -> Bool {
    guard self.classifier.policy.rule(for: port.link)?.medium == nil else { return false }
    return port.link.kind == "tun" || port.link.kind == "veth" || port.link.kind == "netkit"
  }
}
