import Connectivity

/// Replaces addresses so that two of them share exactly as many leading bits as before (Xu, Fan,
/// Ammar and Moon, "Prefix-preserving IP address anonymization"). So routes and subnets keep their
/// contents. The key and all earlier bits decide whether a bit is inverted.
///
/// Some ranges have a meaning, such as link-local addresses. The bits of such a range's prefix are
/// not inverted, so addresses neither leave nor enter the range. Therefore a public address keeps
/// as many leading bits as it shares with such a range, plus one. For IPv6 these are two or three.
extension Anonymizer {
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
      // Only the bits before this bit decide whether it is inverted.
      var before = bytes.prefix(octet + 1)
      before[octet] &= ~(bit << 1 &- 1)
      let sort: Sort = family == .ipv4 ? .ipv4 : .ipv6
      if self.hash(sort, [UInt8(place)] + before) & 1 == 1 { turned[octet] ^= bit }
    }
    return turned
  }

  /// A block of addresses with a meaning.
  private struct Block {
    enum Content {
      /// Addresses stay unchanged, because they do not identify a machine or user.
      case same
      /// Addresses are replaced by other addresses of the block.
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

    /// Returns how many bits of the block's prefix an address shares.
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
    .ipv4: Anonymizer.ipv4Blocks, .ipv6: Anonymizer.ipv6Blocks + Anonymizer.groups,
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
    // The group address for neighbour solicitation ends with the last bits of the neighbour's
    // address (RFC 4291, 2.7.1).
    Block("ff02::1:ff00:0", 104, .turned),
  ]

  /// The well-known multicast groups of each scope.
  private static let groups = (0...15).map { scope in
    Block("ff0\(String(scope, radix: 16))::", 104, .same)
  }
}
