import Connectivity
import Testing

@Suite("IP addresses")
struct IPAddressTests {
  @Test(
    "an address converts to text and bytes, and back",
    arguments: [
      ("192.0.2.7", [192, 0, 2, 7] as [UInt8]),
      ("2001:db8::1", [0x20, 1, 0x0d, 0xb8] + Array(repeating: 0, count: 11) + [1]),
      ("::", Array(repeating: 0, count: 16)),
      ("fe80::8000:0:0:1", [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 1]),
    ])
  func roundTrip(text: String, bytes: [UInt8]) throws {
    let address = try #require(IPAddress(text))
    #expect(address.bytes == bytes)
    #expect(IPAddress(bytes: bytes) == address)
    #expect(address.description == text)
  }

  @Test(
    "a text that is not an address is refused",
    arguments: ["", "localhost", "1.2.3", "1.2.3.4.5", "::1%lo", "fe80::1::2", "256.0.0.1"])
  func refused(text: String) {
    #expect(IPAddress(text) == nil)
  }

  @Test("a wrong number of bytes is refused")
  func wrongLength() {
    for count in 0...20 where count != 4 && count != 16 {
      #expect(IPAddress(bytes: [UInt8](repeating: 1, count: count)) == nil)
    }
  }

  @Test(
    "a prefix contains the addresses that share its bits",
    arguments: [
      ("192.0.2.77", 24, "192.0.2.1", true), ("192.0.2.77", 24, "192.0.3.1", false),
      ("10.0.0.0", 0, "255.1.2.3", true), ("10.0.0.1", 32, "10.0.0.1", true),
      ("10.0.0.1", 32, "10.0.0.0", false), ("128.0.0.0", 1, "127.255.255.255", false),
      ("2001:db8::", 32, "2001:db8:ffff::1", true), ("2001:db8::", 32, "2001:db9::", false),
      ("2001:db8::", 65, "2001:db8::7fff:0:0:1", true),
      ("2001:db8::", 65, "2001:db8::8000:0:0:1", false), ("::", 0, "fe80::1", true),
      ("::1", 128, "::1", true), ("::1", 128, "::2", false), ("::", 0, "1.2.3.4", false),
    ] as [(IPAddress, Int, IPAddress, Bool)])
  func contains(block: IPAddress, length: Int, address: IPAddress, expected: Bool) throws {
    let prefix = try #require(IPPrefix(block, length: length))
    #expect(prefix.contains(address) == expected)
  }

  @Test("a prefix length beyond the family's is refused")
  func badLength() {
    #expect(IPPrefix("10.0.0.1", length: 33) == nil)
    #expect(IPPrefix("10.0.0.1", length: -1) == nil)
    #expect(IPPrefix("::1", length: 129) == nil)
  }

  @Test(
    "scopes",
    arguments: [
      ("127.0.0.1", true, false), ("127.255.0.9", true, false), ("::1", true, false),
      ("169.254.3.4", false, true), ("fe80::1", false, true), ("febf::1", false, true),
      ("fec0::1", false, false), ("10.0.0.1", false, false), ("2001:db8::1", false, false),
    ] as [(IPAddress, Bool, Bool)])
  func scopes(address: IPAddress, loopback: Bool, linkLocal: Bool) {
    #expect(address.isLoopback == loopback)
    #expect(address.isLinkLocal == linkLocal)
  }

  @Test(
    "fc00::/7 is unique local",
    arguments: [
      ("fc00::1", true), ("fdff:ffff::1", true), ("fbff::1", false), ("fe00::1", false),
      ("fe80::1", false), ("2001:db8::1", false), ("10.0.0.1", false), ("252.0.0.1", false),
    ] as [(IPAddress, Bool)])
  func uniqueLocal(address: IPAddress, isUniqueLocal: Bool) {
    #expect(address.isUniqueLocal == isUniqueLocal)
  }

  @Test(
    "an IPv4-mapped IPv6 address converts to IPv4, and no other does",
    arguments: [
      ("::ffff:192.0.2.7", "192.0.2.7"), ("::ffff:c000:207", "192.0.2.7"),
      ("::ffff:0.0.0.0", "0.0.0.0"), ("::ffff:255.255.255.255", "255.255.255.255"),
      ("192.0.2.7", "192.0.2.7"), ("::192.0.2.7", "::192.0.2.7"),
      ("::fffe:192.0.2.7", "::fffe:c000:207"), ("::1:ffff:192.0.2.7", "::1:ffff:c000:207"),
      ("2001:db8::ffff:c000:207", "2001:db8::ffff:c000:207"), ("64:ff9b::1", "64:ff9b::1"),
    ] as [(IPAddress, IPAddress)])
  func unmapped(address: IPAddress, expected: IPAddress) {
    #expect(address.unmapped == expected)
  }

  @Test(
    "timestamps are formatted as in RFC 3339",
    arguments: [
      (1_795_224_300_123_456, "2026-11-21T01:25:00.123456Z"),
      (0, "1970-01-01T00:00:00.000000Z"), (-1, "1969-12-31T23:59:59.999999Z"),
      (951_782_400_000_007, "2000-02-29T00:00:00.000007Z"),
      (.max, "294247-01-10T04:00:54.775807Z"), (.min, "-290308-12-21T19:59:05.224192Z"),
    ] as [(Int64, String)])
  func timestamps(microseconds: Int64, text: String) {
    #expect(WallTime(microseconds: microseconds).description == text)
  }
}
