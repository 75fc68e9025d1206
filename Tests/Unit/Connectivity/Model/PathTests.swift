import Testing

@testable import Connectivity

@Suite("Paths")
struct PathTests {
  private static func path(_ source: IPAddress?, _ length: Int?) -> KernelPath {
    KernelPath(status: .satisfied, source: source, sourcePrefixLength: length)
  }

  @Test(
    "I3 two prefixes are one subnet if one contains the other's address",
    arguments: [
      // A SLAAC /64 and a DHCPv6 /128.
      (path("2001:db8:1::7", 64), path("2001:db8:1::1234", 128), true),
      (path("2001:db8:1::7", 64), path("2001:db8:2::1234", 128), false),
      (path("2001:db8:1::7", 64), path("2001:db8:1::8", 64), true),
      (path("2001:db8:1::7", 128), path("2001:db8:1::8", 128), true),
      (path("2001:db8:1::7", 128), path("2001:db8:2::8", 128), false),
      (path("10.0.0.7", 32), path("10.0.0.8", 32), false),
      (path("2001:db8:1::7", 128), path("2001:db8:1::7", 128), true),
      (path("10.0.0.7", 24), path("10.0.0.8", 32), true),
      (path("10.0.0.7", 24), path("10.0.1.8", 24), false),
      (path("10.0.0.7", 24), path("10.0.1.8", 16), true),
      // Different families.
      (path("10.0.0.7", 0), path("2001:db8:1::7", 0), false),
      // If one length is unknown, the other's counts.
      (path("10.0.0.7", nil), path("10.0.0.8", 24), true),
      (path("10.0.0.7", nil), path("10.0.1.8", 24), false),
      (path("10.0.0.7", nil), path("10.0.0.8", nil), false),
      (path("10.0.0.7", nil), path("10.0.0.7", nil), true),
      (path("10.0.0.7", 33), path("10.0.0.8", nil), false),
      (path(nil, nil), path("10.0.0.8", 24), false), (path(nil, 24), path(nil, nil), true),
    ])
  func subnets(first: KernelPath, second: KernelPath, isSame: Bool) {
    #expect(first.isOfSameSubnet(as: second) == isSame)
    #expect(second.isOfSameSubnet(as: first) == isSame)
  }
}
