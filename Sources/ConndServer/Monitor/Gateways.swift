import Connectivity

/// What the kernel is to tell of because of where paths lead: the hardware addresses of the gateways in use, as it last knew
/// them, by which one network is told from another (I4); and the other ends of tunnels, the routes to which decide what is
/// below them (K6).
///
/// The kernel forgets a neighbour when its link loses the carrier, and has to ask again; what it finds then is compared with
/// what it had found before. Owned by the monitor's thread.
final class Gateways {
  private struct Key: Hashable {
    var link: UInt32
    var address: IPAddress
  }

  private var known: [Key: [UInt8]?] = [:]
  /// The gateway of each link's default path, for what is known of the link as a whole.
  private var ofLinks: [UInt32: [AddressFamily: IPAddress]] = [:]
  /// The other ends of the tunnels that paths lead into.
  private(set) var tunnelEnds: Set<IPAddress> = []
  /// Those of them that the kernel's filter does not know of.
  private var newTunnelEnds: Set<IPAddress> = []
  /// Whether the kernel's filter does not know of all that is here.
  private(set) var isNew = false

  /// A machine has a handful; whoever has more starts anew.
  private static let most = 64

  /// All of them, as the kernel's filter wants them.
  var all: [Neighbour] {
    self.known.map { Neighbour($0.key.address, link: $0.key.link, hardwareAddress: $0.value) }
      .sorted { ($0.link, $0.address) < ($1.link, $1.address) }
  }

  /// The gateway that default paths take on a link.
  func address(on link: UInt32, _ family: AddressFamily?) -> IPAddress? {
    family.flatMap { self.ofLinks[link]?[$0] }
  }

  /// The default path of a family has this gateway.
  func use(_ gateway: IPAddress?, on link: UInt32, _ family: AddressFamily) {
    self.ofLinks[link, default: [:]][family] = gateway
  }

  /// A path is made of these.
  func use(_ facts: PathFacts) {
    for case .destination(let end) in facts.links.map(\.below) where !self.tunnelEnds.contains(end)
    {
      if self.tunnelEnds.count >= Self.most { self.tunnelEnds = [] }
      self.tunnelEnds.insert(end)
      self.newTunnelEnds.insert(end)
      self.isNew = true
    }
  }

  /// What the kernel knows of a gateway, or knew last.
  func hardwareAddress(
    of gateway: IPAddress, on link: UInt32, from kernel: some Kernel
  ) throws(KernelUnavailable) -> [UInt8]? {
    let key = Key(link: link, address: gateway)
    if let known = self.known[key] { return known }
    let found = try kernel.neighbour(gateway, on: link)?.hardwareAddress
    if self.known.count >= Self.most { self.known = [:] }
    self.known[key] = .some(found)
    self.isNew = true
    return found
  }

  /// Takes note of what the kernel has told.
  func note(_ events: [KernelEvent]) {
    for event in events {
      switch event {
      case .neighbour(let neighbour):
        let key = Key(link: neighbour.link, address: neighbour.address)
        guard let known = self.known[key], let address = neighbour.hardwareAddress,
          known != address
        else { continue }
        self.known[key] = address
        self.isNew = true
      case .linkRemoved(let link):
        self.forget { $0.link == link.index }
        self.ofLinks[link.index] = nil
      case .overrun:
        // What was missed may be a gateway's message: what the kernel says now is compared.
        self.forget { _ in true }
      default: break
      }
    }
  }

  /// The kernel's filter knows of all; what it let pass before is read again.
  ///
  /// - Returns: the messages that would have told so, if the kernel knows another hardware address by now; `nil` where
  ///   nothing can have been missed. Of the routes to a tunnel's other end there is nothing to compare: the paths are to be
  ///   read again.
  func filterIsSet(_ kernel: some Kernel) throws(KernelUnavailable) -> [KernelEvent]? {
    self.isNew = false
    var events: [KernelEvent] = []
    let mustRead = !self.newTunnelEnds.isEmpty
    self.newTunnelEnds = []
    for (key, known) in self.known {
      guard let neighbour = try kernel.neighbour(key.address, on: key.link),
        let address = neighbour.hardwareAddress, address != known
      else { continue }
      events.append(.neighbour(neighbour))
    }
    return events.isEmpty && !mustRead ? nil : events
  }

  private func forget(where isForgotten: (Key) -> Bool) {
    let kept = self.known.filter { !isForgotten($0.key) }
    if kept.count != self.known.count { self.isNew = true }
    self.known = kept
  }
}
