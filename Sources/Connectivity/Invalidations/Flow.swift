/// One connection that somebody wants to be told about.
public struct Flow: Hashable, Sendable {
  /// The other end, whose traffic it is, and what it is bound to. Its `source` is not set: `local` says what is known.
  public var destination: Destination
  /// The connection's own address; `nil` before it is known, and then the kernel's choice is taken for it.
  public var local: IPAddress?
  /// It must not use a path that costs money (I8).
  public var forbidsExpensive: Bool
  /// It must not use a path on which the user asked to save data (I8).
  public var forbidsConstrained: Bool

  public init(
    _ destination: Destination, local: IPAddress? = nil, forbidsExpensive: Bool = false,
    forbidsConstrained: Bool = false
  ) {
    self.destination = destination
    self.local = local
    self.forbidsExpensive = forbidsExpensive
    self.forbidsConstrained = forbidsConstrained
  }
}

/// What is known of the network behind a link (I4). What is not known distinguishes nothing.
public struct NetworkIdentity: Hashable, Sendable {
  public var gateway: IPAddress?
  /// The gateway's hardware address; `nil` as long as the kernel does not know it.
  public var gatewayHardwareAddress: [UInt8]?
  /// Whether neighbours have hardware addresses on the link. Where they have none (a modem, a tunnel), gateway and prefix
  /// tell the network.
  public var hasHardwareAddresses: Bool
  /// The subnet of the source address.
  public var prefix: IPPrefix?
  /// What the medium itself calls the network, such as the SSID.
  public var name: [UInt8]?

  public init(
    gateway: IPAddress? = nil, gatewayHardwareAddress: [UInt8]? = nil,
    hasHardwareAddresses: Bool = true, prefix: IPPrefix? = nil, name: [UInt8]? = nil
  ) {
    self.gateway = gateway
    self.gatewayHardwareAddress = gatewayHardwareAddress
    self.hasHardwareAddresses = hasHardwareAddresses
    self.prefix = prefix
    self.name = name
  }

  /// Whether both are known well enough to say that they are not the same network.
  ///
  /// A second prefix or address of the same router is the same network; another access point of it, too.
  func isOther(than earlier: NetworkIdentity) -> Bool {
    if let name, let earlierName = earlier.name, name != earlierName { return true }
    if self.hasHardwareAddresses || earlier.hasHardwareAddresses {
      guard let now = self.gatewayHardwareAddress, let before = earlier.gatewayHardwareAddress
      else { return false }
      return now != before
    }
    return self.gateway != earlier.gateway || self.prefix != earlier.prefix
  }

  /// This identity, and of an earlier one of the same network what is not known now: a link that lost its carrier
  /// forgets its neighbours.
  func completed(by earlier: NetworkIdentity) -> NetworkIdentity {
    var identity = self
    identity.name = self.name ?? earlier.name
    identity.gatewayHardwareAddress =
      self.gatewayHardwareAddress ?? earlier.gatewayHardwareAddress
    return identity
  }
}

/// What one reading of the kernel shows of a flow.
public struct FlowReading: Hashable, Sendable {
  /// The way to the remote address now. Of a flow inside a tunnel the status is that of the way into the tunnel: what is
  /// below may move (I5).
  public var path: Path
  public var network: NetworkIdentity
  /// The hardware address that the network's gateway was first told to have since the last look, if none was known before:
  /// who had yet to learn it is on the network of that one, whatever took its place since (I4).
  public var firstHardwareAddress: [UInt8]?
  /// The flow's own address is not there any more.
  public var isSourceGone: Bool
  /// A link of the path that the flow was made on is gone, or set down.
  public var isLinkLost: Bool
  /// The remote address is this machine's own.
  public var isLocal: Bool
  /// The path leads into a tunnel.
  public var isInTunnel: Bool
  /// A rule sends what comes from the flow's own address still by its old link, although others go elsewhere.
  public var isPinned: Bool

  public init(
    _ path: Path, network: NetworkIdentity = NetworkIdentity(),
    firstHardwareAddress: [UInt8]? = nil, isSourceGone: Bool = false, isLinkLost: Bool = false,
    isLocal: Bool = false, isInTunnel: Bool = false, isPinned: Bool = false
  ) {
    self.path = path
    self.network = network
    self.firstHardwareAddress = firstHardwareAddress
    self.isSourceGone = isSourceGone
    self.isLinkLost = isLinkLost
    self.isLocal = isLocal
    self.isInTunnel = isInTunnel
    self.isPinned = isPinned
  }
}
