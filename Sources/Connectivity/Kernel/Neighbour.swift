/// What the kernel knows of a neighbour: the hardware address behind an address on a link.
public struct Neighbour: Hashable, Sendable {
  public var address: IPAddress
  /// The index of the link.
  public var link: UInt32
  /// Six octets on Ethernet and Wi-Fi; `nil` where it is not known, or not known any more.
  public var hardwareAddress: [UInt8]?

  public init(_ address: IPAddress, link: UInt32, hardwareAddress: [UInt8]? = nil) {
    self.address = address
    self.link = link
    self.hardwareAddress = hardwareAddress
  }
}
