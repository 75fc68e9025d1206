import Connectivity
import ConnectivityRules

/// What is known of a gateway's hardware address, and of the times when another network may have come behind its link.
struct KnownGateway {
  /// As the kernel had it last, also if it has forgotten it since.
  private(set) var hardwareAddress: [UInt8]?
  /// As the kernel has told it last: its filter goes by that.
  var heard: Neighbour
  /// Something happened that may have changed it, or made the kernel forget it, and that a message does not tell.
  var isInDoubt = true
  /// The links below the gateway's, and that one.
  var links: Set<UInt32>
  private(set) var stage: UInt64
  /// What was made at an earlier stage was made on another network.
  private(set) var firstStage: UInt64 = 0
  /// `nil` as long as the hardware address is known for certain.
  private(set) var suspicion: Suspicion?
  private var source: Source?

  /// The link went, or its address, since the hardware address was known for certain.
  struct Suspicion {
    /// The first stage since then.
    var stage: UInt64
    /// When connd learnt last that it went.
    var since: Instant
    /// The kernel has forgotten the hardware address, so what it has now it learnt after that.
    var isForgotten: Bool
    /// The kernel has told of the same hardware address since.
    var isHeard = false
  }

  /// The address that new connections by the gateway have, and the lengths of the prefixes that the link has it with.
  private struct Source {
    var address: IPAddress
    var prefixLengths: Set<Int>
  }

  init(_ gateway: Gateway, behind links: Set<UInt32>, stage: UInt64, at now: Instant) {
    self.heard = Neighbour(gateway.address, link: gateway.link)
    self.links = links
    self.stage = stage
    self.suspicion = Suspicion(stage: stage, since: now, isForgotten: true)
  }

  /// Whether the kernel still has the hardware address of before, and nothing shows that it is right.
  var isUnconfirmed: Bool { self.suspicion.map { !$0.isForgotten } ?? false }

  /// Takes note of what the kernel answers about it; `nil` if it has no entry.
  mutating func learn(_ neighbour: Neighbour?, at now: Instant) {
    guard let neighbour, let address = neighbour.hardwareAddress else {
      self.suspicion?.isForgotten = true
      return
    }
    if let suspicion, let before = self.hardwareAddress {
      if address != before {
        if !suspicion.isOver(at: now) { self.firstStage = suspicion.stage }
      } else if !suspicion.isRefuted(by: neighbour, at: now) {
        return
      }
    }
    (self.hardwareAddress, self.suspicion, self.isInDoubt) = (address, nil, false)
  }

  /// Takes note of a message about it.
  mutating func hear(_ neighbour: Neighbour, at now: Instant) {
    // The first that is heard of is the one that all were made by so far.
    if self.hardwareAddress == nil {
      self.learn(neighbour, at: now)
    } else if neighbour.hardwareAddress == nil {
      self.suspicion?.isForgotten = true
    } else if neighbour.hardwareAddress == self.hardwareAddress {
      self.suspicion?.isHeard = true
    }
    self.isInDoubt = true
  }

  /// Another network may be behind the link from now on.
  ///
  /// - Parameter forgets: whether the kernel has forgotten its neighbours on the link.
  mutating func begin(stage: UInt64, at now: Instant, forgets: Bool) {
    self.stage = stage
    self.suspicion = Suspicion(
      stage: self.suspicion?.stage ?? stage, since: now, isForgotten: forgets)
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

  /// Takes note that an entry of an address was removed.
  ///
  /// - Returns: Whether new connections have lost their address by that, as far as it is known.
  mutating func note(removed address: Address) -> Bool {
    guard self.source != nil else { return true }
    guard self.source?.address == address.address else { return false }
    self.source?.prefixLengths.remove(address.prefixLength)
    return self.source?.prefixLengths.isEmpty ?? true
  }
}

extension KnownGateway.Suspicion {
  /// Whether the kernel has confirmed the hardware address since the link went. If it does not say when, it is believed.
  fileprivate func isRefuted(by neighbour: Neighbour, at now: Instant) -> Bool {
    guard !self.isForgotten, let confirmed = neighbour.confirmed else { return true }
    return self.since.duration(to: now) > confirmed + Neighbour.precision
  }

  /// Whether traffic must have confirmed the hardware address since. The kernel tells when it stops to believe in an entry,
  /// and without a confirmation it believes for 45 s at most (base_reachable_time).
  fileprivate func isOver(at now: Instant) -> Bool {
    !self.isHeard && self.since.duration(to: now) > .seconds(60)
  }
}
