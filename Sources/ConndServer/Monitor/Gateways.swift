import Connectivity

/// A gateway by its address, on the link behind which it is.
struct Gateway: Hashable {
  var link: UInt32
  var address: IPAddress
}

/// What the kernel is to tell of because of where paths lead: the hardware addresses of the gateways in use, as it last knew
/// them, by which one network is told from another (I4); and the other ends of tunnels, the routes to which decide what is
/// below them (K6).
///
/// The kernel forgets a neighbour when its link loses the carrier, and has to ask again; flows remember what it had found
/// before, and those that begin in between know of none. Owned by the monitor's thread.
final class Gateways {
  private struct Known {
    /// As it was last; `nil` if it never was.
    var hardwareAddress: [UInt8]?
    /// Something happened that may have made the kernel forget it, of which it does not tell.
    var isInDoubt = false
  }

  private struct TunnelEnd: Hashable {
    var link: UInt32
    var address: IPAddress
  }

  /// The links that paths do not lead to.
  let bystanders = Bystanders()
  private var known: [Gateway: Known] = [:]
  /// The gateway of each link's default path, for what is known of the link as a whole.
  private var ofLinks: [UInt32: [AddressFamily: IPAddress]] = [:]
  /// The other ends of the tunnels that paths lead into.
  var tunnelEnds: Set<IPAddress> { Set(self.endsOfTunnels.map(\.address)) }
  /// By the tunnel's link.
  private var endsOfTunnels: Set<TunnelEnd> = []
  /// There is one that the kernel's filter does not know of.
  private var hasNewTunnelEnd = false
  /// Whether the kernel's filter does not know of all that is here.
  private(set) var isNew = false

  /// A machine has a handful; whoever has more starts anew.
  private static let most = 64
  /// A hub of tunnels may have many. What is below one more is read, but not followed.
  private static let mostTunnels = 1024

  /// All of them, as the kernel's filter wants them.
  var all: [Neighbour] {
    self.known.map {
      Neighbour($0.key.address, link: $0.key.link, hardwareAddress: $0.value.hardwareAddress)
    }
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
    self.bystanders.use(facts.links.lazy.map(\.link.index))
    for facts in facts.links {
      guard case .destination(let end) = facts.below, self.endsOfTunnels.count < Self.mostTunnels,
        self.endsOfTunnels.insert(TunnelEnd(link: facts.link.index, address: end)).inserted
      else { continue }
      self.hasNewTunnelEnd = true
      self.isNew = true
    }
  }

  /// What the kernel knows of a gateway.
  func hardwareAddress(
    of gateway: Gateway, from kernel: some Kernel
  ) throws(KernelUnavailable) -> [UInt8]? {
    let known = self.known[gateway]
    if let known, !known.isInDoubt { return known.hardwareAddress }
    let found = try kernel.neighbour(gateway.address, on: gateway.link)?.hardwareAddress
    // The kernel's filter goes by what was there last.
    if let known, found == nil || found == known.hardwareAddress {
      self.known[gateway]?.isInDoubt = found == nil
      return found
    }
    if known == nil, self.known.count >= Self.most { self.known = [:] }
    self.known[gateway] = Known(hardwareAddress: found)
    self.isNew = true
    return found
  }

  /// Somebody begins now, and must not be compared with what was before.
  func doubt() {
    for key in self.known.keys { self.known[key]?.isInDoubt = true }
  }

  /// Takes note of what the kernel has told.
  ///
  /// - Returns: of the gateways of which nothing was known for certain, the hardware addresses that were told first.
  @discardableResult
  func note(_ events: [KernelEvent]) -> [Gateway: [UInt8]] {
    var learnt: [Gateway: [UInt8]] = [:]
    for event in events {
      switch event {
      case .neighbour(let neighbour):
        let key = Gateway(link: neighbour.link, address: neighbour.address)
        guard let known = self.known[key], let address = neighbour.hardwareAddress else {
          continue
        }
        if known.hardwareAddress == nil || known.isInDoubt {
          learnt[key] = learnt[key] ?? address
        }
        self.known[key] = Known(hardwareAddress: address)
        if known.hardwareAddress != address { self.isNew = true }
      case .link(let link):
        for key in self.known.keys where key.link == link.index {
          self.known[key]?.isInDoubt = true
        }
      case .linkRemoved(let link):
        self.forget { $0.link == link.index }
        self.ofLinks[link.index] = nil
        self.endsOfTunnels = self.endsOfTunnels.filter { $0.link != link.index }
      case .overrun:
        // What was missed may be a gateway's message: what the kernel says now is compared.
        self.forget { _ in true }
        // So may those of links that are gone by now. Who is in use is found again by the reading that follows.
        self.endsOfTunnels = []
        self.isNew = true
      default: break
      }
    }
    return learnt
  }

  /// The kernel's filter knows of all; what it let pass before is read again.
  ///
  /// - Returns: the messages that would have told so, if the kernel knows another hardware address by now; `nil` where
  ///   nothing can have been missed. Of the routes to a tunnel's other end, and of links, there is nothing to compare: the
  ///   paths are to be read again.
  func filterIsSet(_ kernel: some Kernel) throws(KernelUnavailable) -> [KernelEvent]? {
    self.isNew = false
    var events: [KernelEvent] = []
    let heardTooLittle = self.bystanders.filterIsSet()
    let mustRead = self.hasNewTunnelEnd || heardTooLittle
    self.hasNewTunnelEnd = false
    for known in self.all {
      guard let neighbour = try kernel.neighbour(known.address, on: known.link),
        let address = neighbour.hardwareAddress, address != known.hardwareAddress
      else { continue }
      events.append(.neighbour(neighbour))
    }
    return events.isEmpty && !mustRead ? nil : events
  }

  private func forget(where isForgotten: (Gateway) -> Bool) {
    let kept = self.known.filter { !isForgotten($0.key) }
    if kept.count != self.known.count { self.isNew = true }
    self.known = kept
  }
}
