#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#else
  import Darwin
#endif

/// An address family.
public enum AddressFamily: String, Hashable, Sendable, CaseIterable {
  case ipv4
  case ipv6

  /// The number of bits in an address: 32 or 128.
  public var bitWidth: Int { self == .ipv4 ? 32 : 128 }
}

/// An IPv4 or IPv6 address, without a zone.
///
/// Its text is that of RFC 5952 (`2001:db8::1`), or dotted decimal for IPv4.
public struct IPAddress: Hashable, Sendable, Comparable {
  public let family: AddressFamily
  /// The bits in network order; an IPv4 address is in the lowest 32.
  let high: UInt64
  let low: UInt64

  /// Creates an address from its bytes in network order. Returns `nil` unless there are 4 or 16
  /// bytes.
  public init?(bytes: some Collection<UInt8>) {
    switch bytes.count {
    case 4: self.family = .ipv4
    case 16: self.family = .ipv6
    default: return nil
    }
    var (high, low): (UInt64, UInt64) = (0, 0)
    for byte in bytes {
      high = high << 8 | low >> 56
      low = low << 8 | UInt64(byte)
    }
    self.high = high
    self.low = low
  }

  /// The bytes in network order: 4 or 16.
  public var bytes: [UInt8] {
    withUnsafeBytes(of: (self.high.bigEndian, self.low.bigEndian)) { bytes in
      Array(bytes.suffix(self.family.bitWidth / 8))
    }
  }

  /// Whether the address is 127.0.0.0/8 or ::1.
  public var isLoopback: Bool {
    switch self.family {
    case .ipv4: self.low >> 24 == 127
    case .ipv6: self.high == 0 && self.low == 1
    }
  }

  /// Whether the address is only valid on its link: 169.254.0.0/16 (RFC 3927) or fe80::/10 (RFC
  /// 4291).
  public var isLinkLocal: Bool {
    switch self.family {
    case .ipv4: self.low >> 16 == 0xA9FE
    case .ipv6: self.high >> 54 == 0x3FA
    }
  }

  /// Whether the address is in fc00::/7, which routers on the internet do not forward (RFC 4193).
  package var isUniqueLocal: Bool { self.family == .ipv6 && self.high >> 57 == 0x7E }

  /// Whether the address is in 192.0.0.0/29, which hosts on IPv6-only networks use for IPv4 that
  /// they translate to IPv6 (RFC 7335).
  package var isOfTranslator: Bool { self.family == .ipv4 && self.low >> 3 == 0xC000_0000 >> 3 }

  /// Whether the address is ambiguous without a link (RFC 4007). connect(2) then binds the socket
  /// to the given link.
  package var needsLink: Bool { self.family == .ipv6 && self.isLinkLocal }

  /// The IPv4 address of an IPv4-mapped IPv6 address, as shown by a dual-stack socket
  /// (`::ffff:192.0.2.7`, RFC 4291, 2.5.5.2). Other addresses are returned unchanged.
  public var unmapped: IPAddress {
    guard self.family == .ipv6, self.high == 0, self.low >> 32 == 0xFFFF else { return self }
    return IPAddress(family: .ipv4, high: 0, low: self.low & 0xFFFF_FFFF)
  }

  /// Returns 0.0.0.0 or ::.
  public static func unspecified(_ family: AddressFamily) -> IPAddress {
    IPAddress(family: family, high: 0, low: 0)
  }

  /// Whether the address is 0.0.0.0 or ::.
  public var isUnspecified: Bool { self.high == 0 && self.low == 0 }

  public static func < (lhs: Self, rhs: Self) -> Bool {
    if lhs.family != rhs.family { return lhs.family.bitWidth < rhs.family.bitWidth }
    return lhs.high == rhs.high ? lhs.low < rhs.low : lhs.high < rhs.high
  }
}

extension IPAddress: LosslessStringConvertible, CustomStringConvertible {
  /// Parses an address as `inet_pton(3)` does. Returns `nil` for anything else, including names and
  /// zones.
  public init?(_ description: String) {
    var ipv4 = in_addr()
    if inet_pton(AF_INET, description, &ipv4) == 1 {
      self.init(bytes: withUnsafeBytes(of: ipv4) { Array($0) })
      return
    }
    var ipv6 = in6_addr()
    guard inet_pton(AF_INET6, description, &ipv6) == 1 else { return nil }
    self.init(bytes: withUnsafeBytes(of: ipv6) { Array($0) })
  }

  public var description: String {
    let capacity = Int(INET6_ADDRSTRLEN)
    return String(unsafeUninitializedCapacity: capacity) { text in
      guard self.family == .ipv6 else { return self.writeDotted(text) }
      return text.withMemoryRebound(to: CChar.self) { text in
        withUnsafeBytes(of: (self.high.bigEndian, self.low.bigEndian)) { bytes in
          _ = inet_ntop(AF_INET6, bytes.baseAddress, text.baseAddress, socklen_t(capacity))
        }
        return text.firstIndex(of: 0) ?? 0
      }
    }
  }

  /// Writes the address in dotted decimal, ten times as fast as inet_ntop(3), which uses printf(3).
  /// Speed matters, because each change contains several addresses.
  private func writeDotted(_ text: UnsafeMutableBufferPointer<UInt8>) -> Int {
    var count = 0
    func write(_ character: UInt8) {
      text[count] = character
      count += 1
    }
    for shift in [24, 16, 8, 0] {
      let byte = UInt8(truncatingIfNeeded: self.low >> UInt64(shift))
      if byte >= 100 { write(UInt8(ascii: "0") + byte / 100) }
      if byte >= 10 { write(UInt8(ascii: "0") + byte / 10 % 10) }
      write(UInt8(ascii: "0") + byte % 10)
      if shift > 0 { write(UInt8(ascii: ".")) }
    }
    return count
  }
}

/// A prefix: the destination of a route, or the subnet of an address.
package struct IPPrefix: Hashable, Sendable, CustomStringConvertible {
  /// The address with all bits after `length` zero.
  package let address: IPAddress
  /// The number of significant leading bits, up to 32 or 128.
  package let length: Int

  /// Creates the prefix of `length` bits that contains `address`. Returns `nil` if the family does
  /// not allow the length.
  package init?(_ address: IPAddress, length: Int) {
    guard (0...address.family.bitWidth).contains(length) else { return nil }
    self.length = length
    self.address = address.masked(to: length)
  }

  /// Returns whether the prefix contains the address. False for another family.
  package func contains(_ address: IPAddress) -> Bool {
    address.family == self.address.family && address.masked(to: self.length) == self.address
  }

  package var description: String { "\(self.address)/\(self.length)" }
}

extension IPAddress {
  private init(family: AddressFamily, high: UInt64, low: UInt64) {
    self.family = family
    self.high = high
    self.low = low
  }

  fileprivate func masked(to length: Int) -> IPAddress {
    let leading = length + (128 - self.family.bitWidth)
    let highMask: UInt64 = leading >= 64 ? .max : ~(.max >> UInt64(leading))
    let lowMask: UInt64 =
      leading <= 64 ? 0 : leading == 128 ? .max : ~(.max >> UInt64(leading - 64))
    return IPAddress(family: self.family, high: self.high & highMask, low: self.low & lowMask)
  }
}
