/// What the kernel knows of a neighbour: the hardware address behind an address on a link.
public struct Neighbour: Hashable, Sendable {
  public var address: IPAddress
  /// The index of the link.
  public var link: UInt32
  /// Six octets on Ethernet and Wi-Fi; `nil` where it is not known, or not known any more.
  public var hardwareAddress: [UInt8]?
  /// The kernel has asked for it, and nobody answered (`NUD_FAILED`).
  public var isFailed: Bool

  public init(
    _ address: IPAddress, link: UInt32, hardwareAddress: [UInt8]? = nil, isFailed: Bool = false
  ) {
    self.address = address
    self.link = link
    self.hardwareAddress = hardwareAddress
    self.isFailed = isFailed
  }
}

/// By which port of a bridge a hardware address is reached, as the bridge has learnt it.
public struct BridgeEntry: Hashable, Sendable {
  public var hardwareAddress: [UInt8]
  /// The index of the port.
  public var port: UInt32
  /// The index of the bridge; `nil` where the kernel did not say.
  public var bridge: UInt32?

  public init(_ hardwareAddress: [UInt8], port: UInt32, bridge: UInt32? = nil) {
    self.hardwareAddress = hardwareAddress
    self.port = port
    self.bridge = bridge
  }
}
