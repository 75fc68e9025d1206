package import Connectivity

/// Implements rule K6.
extension OpenEnd {
  /// Returns the destination of a tunnel's own packets, or `nil` if the kernel drops them or the
  /// destination is unknown.
  ///
  /// - Parameters:
  ///   - destination: The address that the inner packets go to.
  ///   - nextHop: The gateway of the route into the tunnel, or the destination if the route has
  ///     none.
  ///   - hardwareAddress: The hardware address of the next hop on the tunnel's link.
  package func end(
    of destination: IPAddress, by nextHop: IPAddress, hardwareAddress: [UInt8]? = nil
  ) -> Destination? {
    let end: IPAddress? =
      switch self.rule {
      case .nextHop(let family): nextHop.family == family ? nextHop : nil
      case .hardwareAddress(let family):
        hardwareAddress.flatMap { $0.count * 8 == family.bitWidth ? IPAddress(bytes: $0) : nil }
      case .embedded(let domain): domain?.address(in: destination) ?? nextHop.compatibleIPv4
      }
    // For a neighbour without a hardware address, the kernel uses the link's own address.
    guard let end, end != self.source, !end.isUnspecified else { return nil }
    return Destination(end, mark: self.mark, source: self.source)
  }
}

extension EmbeddedIPv4 {
  /// Returns the IPv4 address inside an address of the domain, or `nil` if the address is outside
  /// the domain (check_6rd of net/ipv6/sit.c).
  func address(in address: IPAddress) -> IPAddress? {
    guard self.prefix.contains(address), self.relay.length <= 32 else { return nil }
    let bits = 32 - self.relay.length
    let number = address.bytes.reduce(UInt128(0)) { $0 << 8 | UInt128($1) }
    let suffix = bits == 0 ? 0 : UInt32((number << self.prefix.length) >> (128 - bits))
    let relay = self.relay.address.bytes.reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
    return IPAddress(
      bytes: stride(from: 24, through: 0, by: -8).map { shift in
        UInt8(truncatingIfNeeded: (relay | suffix) >> UInt32(shift))
      })
  }
}

extension IPAddress {
  /// The IPv4 address in an IPv4-compatible address (`::192.0.2.1`), or `nil` for other addresses.
  fileprivate var compatibleIPv4: IPAddress? {
    let bytes = self.bytes
    guard bytes.count == 16, bytes.prefix(12).allSatisfy({ $0 == 0 }), !self.isLoopback,
      !self.isUnspecified
    else { return nil }
    return IPAddress(bytes: bytes.suffix(4))
  }
}
