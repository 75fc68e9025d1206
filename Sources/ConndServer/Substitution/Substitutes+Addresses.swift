import Connectivity

/// Addresses are replaced so that those which share their first bits do so afterwards, and share no more (Xu, Fan, Ammar and Moon,
/// "Prefix-preserving IP address anonymization"): routes and subnets hold what they held. Whether a bit is turned is decided by
/// the key and all bits before it.
///
/// Where a range means something, as link-local addresses do, no bit is turned that leads to it: an address of the range stays
/// there, and no other comes there. So of a public address some of the first bits stay, as many as it shares with such a range
/// and one; of IPv6's these are two or three.
extension Substitutes {
  func computed(_ address: IPAddress) -> IPAddress {
    let bytes = address.bytes
    var kept = 0
    for block in Self.blocks[address.family] ?? [] {
      let common = block.commonLength(with: bytes)
      guard common == block.length else {
        kept = max(kept, common + 1)
        continue
      }
      switch block.content {
      case .same: return address
      case .ipv4:
        let inner = self.address(IPAddress(bytes: bytes.suffix(4)) ?? .unspecified(.ipv4))
        return IPAddress(bytes: bytes.prefix(12) + inner.bytes) ?? address
      case .turned: kept = max(kept, block.length)
      }
    }
    return IPAddress(bytes: self.turned(bytes, address.family, from: kept)) ?? address
  }

  private func turned(_ bytes: [UInt8], _ family: AddressFamily, from first: Int) -> [UInt8] {
    var turned = bytes
    for place in first..<max(first, family.bitWidth) {
      let (octet, bit) = (place / 8, UInt8(0x80) >> UInt8(place % 8))
      // The bits before this one; those after it are none of its business.
      var before = bytes.prefix(octet + 1)
      before[octet] &= ~(bit << 1 &- 1)
      let sort: Sort = family == .ipv4 ? .ipv4 : .ipv6
      if self.hash(sort, [UInt8(place)] + before) & 1 == 1 { turned[octet] ^= bit }
    }
    return turned
  }

  /// A block of addresses that means something.
  private struct Block {
    enum Content {
      /// Its addresses stay as they are: they tell nothing of anybody.
      case same
      /// Its addresses are replaced by others of the block.
      case turned
      /// The last 32 bits are an IPv4 address.
      case ipv4
    }

    let bytes: [UInt8]
    let length: Int
    let content: Content

    init(_ text: String, _ length: Int, _ content: Content) {
      self.bytes = IPAddress(text)?.bytes ?? []
      (self.length, self.content) = (length, content)
    }

    /// Of the bits that tell the block, those that an address shares.
    func commonLength(with address: [UInt8]) -> Int {
      var common = 0
      for (own, other) in zip(self.bytes, address) {
        common += (own ^ other).leadingZeroBitCount
        if own != other { break }
      }
      return min(common, self.length)
    }
  }

  private static let blocks: [AddressFamily: [Block]] = [
    .ipv4: Substitutes.ipv4Blocks, .ipv6: Substitutes.ipv6Blocks + Substitutes.groups,
  ]

  private static let ipv4Blocks = [
    Block("0.0.0.0", 8, .same), Block("10.0.0.0", 8, .turned), Block("100.64.0.0", 10, .turned),
    Block("127.0.0.0", 8, .same), Block("169.254.0.0", 16, .turned),
    Block("172.16.0.0", 12, .turned), Block("192.168.0.0", 16, .turned),
    Block("224.0.0.0", 24, .same), Block("224.0.0.0", 4, .turned),
    Block("255.255.255.255", 32, .same),
  ]

  private static let ipv6Blocks = [
    Block("::", 127, .same), Block("::", 96, .ipv4), Block("::ffff:0.0.0.0", 96, .ipv4),
    Block("64:ff9b::", 96, .ipv4), Block("::", 8, .turned), Block("2000::", 3, .turned),
    Block("fc00::", 8, .turned), Block("fd00::", 8, .turned), Block("fe80::", 64, .turned),
    Block("fe80::", 10, .turned), Block("fec0::", 10, .turned), Block("ff00::", 8, .turned),
    // The last bits of an address are in that of the group by which its neighbours ask for it (RFC 4291, 2.7.1).
    Block("ff02::1:ff00:0", 104, .turned),
  ]

  /// The well-known groups of each scope.
  private static let groups = (0...15).map { scope in
    Block("ff0\(String(scope, radix: 16))::", 104, .same)
  }
}
