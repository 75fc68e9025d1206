import Connectivity
import ConnectivityRules

/// The MAC address of a gateway, and the epoch of the network behind it. An epoch begins whenever
/// another network may have appeared behind the gateway's link.
///
/// Implements rule I4.
struct KnownGateway {
  /// The last MAC address that the kernel had for the gateway, even if it was forgotten since.
  private(set) var hardwareAddress: [UInt8]?
  /// The neighbour entry that the kernel reported last. The socket filter compares with it.
  var heard: Neighbour
  /// Whether the MAC address may have changed, or the kernel may have forgotten it, without a
  /// message.
  var isInDoubt = true
  /// The gateway's link and the links below it.
  var links: Set<UInt32>
  private(set) var epoch: UInt64
  /// Flows made before this epoch were made on another network.
  private(set) var oldestValidEpoch: UInt64 = 0
  /// `nil` while the MAC address is known for certain.
  private(set) var suspicion: Suspicion?
  private var source: Source?

  /// A doubt about the MAC address because the link or its address was lost.
  struct Suspicion {
    /// The first epoch after the loss.
    var epoch: UInt64
    /// The time at which connd last learnt of a loss of the link or its address.
    var since: Instant
    /// Whether the kernel has forgotten the MAC address, so that it learnt the current one later.
    var isForgotten: Bool
    /// Whether the kernel has reported the old MAC address again since the loss.
    var isHeard = false
  }

  /// The source address of new connections through the gateway, and its prefix lengths on the link.
  private struct Source {
    var address: IPAddress
    var prefixLengths: Set<Int>
  }

  init(_ gateway: Gateway, behind links: Set<UInt32>, epoch: UInt64, at now: Instant) {
    self.heard = Neighbour(gateway.address, link: gateway.link)
    self.links = links
    self.epoch = epoch
    self.suspicion = Suspicion(epoch: epoch, since: now, isForgotten: true)
  }

  /// Whether the kernel still has the old MAC address without any confirmation that it is correct.
  var isUnconfirmed: Bool { self.suspicion.map { !$0.isForgotten } ?? false }

  /// Updates from the kernel's answer about the gateway, which is `nil` without an entry.
  mutating func learn(_ neighbour: Neighbour?, at now: Instant) {
    guard let neighbour, let address = neighbour.hardwareAddress else {
      self.suspicion?.isForgotten = true
      return
    }
    if let suspicion, let before = self.hardwareAddress {
      if address != before {
        if !suspicion.isOver(at: now) { self.oldestValidEpoch = suspicion.epoch }
      } else if !suspicion.isRefuted(by: neighbour, at: now) {
        return
      }
    }
    (self.hardwareAddress, self.suspicion, self.isInDoubt) = (address, nil, false)
  }

  /// Updates from a kernel message about the gateway.
  mutating func hear(_ neighbour: Neighbour, at now: Instant) {
    // The first reported MAC address belongs to the gateway that all flows have used so far.
    if self.hardwareAddress == nil {
      self.learn(neighbour, at: now)
    } else if neighbour.hardwareAddress == nil {
      self.suspicion?.isForgotten = true
    } else if neighbour.hardwareAddress == self.hardwareAddress {
      self.suspicion?.isHeard = true
    }
    self.isInDoubt = true
  }

  /// Begins an epoch: another network may be behind the link from now on.
  ///
  /// - Parameter forgets: Whether the kernel has forgotten its neighbours on the link.
  mutating func begin(epoch: UInt64, at now: Instant, forgets: Bool) {
    self.epoch = epoch
    self.suspicion = Suspicion(
      epoch: self.suspicion?.epoch ?? epoch, since: now, isForgotten: forgets)
    self.isInDoubt = true
  }

  // MARK: - The address of new connections

  mutating func use(_ source: IPAddress?, prefixLengths: Set<Int>) {
    self.source = source.map { Source(address: $0, prefixLengths: prefixLengths) }
  }

  mutating func note(added address: Address) {
    guard self.source?.address == address.address else { return }
    self.source?.prefixLengths.insert(address.prefixLength)
  }

  /// Notes that the kernel removed an entry of an address.
  ///
  /// - Returns: Whether new connections have lost their address, as far as connd knows.
  mutating func note(removed address: Address) -> Bool {
    guard self.source != nil else { return true }
    guard self.source?.address == address.address else { return false }
    self.source?.prefixLengths.remove(address.prefixLength)
    return self.source?.prefixLengths.isEmpty ?? true
  }
}

extension KnownGateway.Suspicion {
  /// Whether the kernel has confirmed the MAC address after the loss. An entry without a time of
  /// confirmation counts as confirmed.
  fileprivate func isRefuted(by neighbour: Neighbour, at now: Instant) -> Bool {
    guard !self.isForgotten, let confirmed = neighbour.confirmed else { return true }
    return self.since.duration(to: now) > confirmed + Neighbour.precision
  }

  /// Whether traffic must have confirmed the MAC address by now. The kernel sends a message when it
  /// stops trusting an entry. Without confirmation it trusts an entry for at most 45 s
  /// (base_reachable_time).
  fileprivate func isOver(at now: Instant) -> Bool {
    !self.isHeard && self.since.duration(to: now) > .seconds(60)
  }
}
