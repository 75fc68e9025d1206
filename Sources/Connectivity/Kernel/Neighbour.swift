/// What the kernel knows of a neighbour: the hardware address behind an address on a link.
package struct Neighbour: Hashable, Sendable {
  package var address: IPAddress
  /// The index of the link.
  package var link: UInt32
  /// Six octets on Ethernet and Wi-Fi; `nil` where it is not known, or not known any more.
  package var hardwareAddress: [UInt8]?
  /// The kernel has asked for it, and nobody answered (`NUD_FAILED`).
  package var isFailed: Bool
  /// How long ago the kernel had it confirmed by an answer or by traffic; `nil` if it did not say. An age makes no neighbour another
  /// one, so it is not compared.
  package var confirmed: Duration?

  /// How exactly the kernel says that (USER_HZ).
  package static let precision = Duration.milliseconds(10)

  package init(
    _ address: IPAddress, link: UInt32, hardwareAddress: [UInt8]? = nil, isFailed: Bool = false,
    confirmed: Duration? = nil
  ) {
    self.address = address
    self.link = link
    self.hardwareAddress = hardwareAddress
    self.isFailed = isFailed
    self.confirmed = confirmed
  }
}

extension Neighbour {
  package static func == (left: Self, right: Self) -> Bool {
    left.address == right.address && left.link == right.link
      && left.hardwareAddress == right.hardwareAddress && left.isFailed == right.isFailed
  }

  package func hash(into hasher: inout Hasher) {
    hasher.combine(self.address)
    hasher.combine(self.link)
    hasher.combine(self.hardwareAddress)
    hasher.combine(self.isFailed)
  }
}

/// By which port of a bridge a hardware address is reached, as the bridge has learnt it.
package struct BridgeEntry: Hashable, Sendable {
  package var hardwareAddress: [UInt8]
  /// The index of the port.
  package var port: UInt32
  /// The index of the bridge; `nil` where the kernel did not say.
  package var bridge: UInt32?

  package init(_ hardwareAddress: [UInt8], port: UInt32, bridge: UInt32? = nil) {
    self.hardwareAddress = hardwareAddress
    self.port = port
    self.bridge = bridge
  }
}
