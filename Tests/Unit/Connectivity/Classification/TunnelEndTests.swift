import Connectivity
import Testing

@testable import ConnectivityRules

@Suite("Remote ends that the route determines")
struct TunnelEndTests {
  private static let inside: IPAddress = "2001:db8:99::1"

  @Test(
    "K6 6rd and 6to4 embed the IPv4 address in the destination",
    arguments: [
      // RFC 5969, 4: the domain's prefix, the relay's prefix, a destination, the remote end.
      ("2001:db8::", 32, "0.0.0.0", 0, "2001:db8:c000:204::1", "192.0.2.4"),
      ("2001:db8::", 32, "10.0.0.0", 8, "2001:db8:6464:100::1", "10.100.100.1"),
      ("2001:d00::", 24, "0.0.0.0", 0, "2001:dc0:2:400::1", "192.0.2.4"),
      ("2002::", 16, "0.0.0.0", 0, "2002:c000:204::1", "192.0.2.4"),
      ("2001:db8::", 32, "192.0.2.4", 32, "2001:db8:ffff::1", "192.0.2.4"),
      ("2002::", 16, "0.0.0.0", 0, "2001:db8::1", nil),
    ] as [(IPAddress, Int, IPAddress, Int, IPAddress, IPAddress?)])
  func embedded(
    prefix: IPAddress, length: Int, relay: IPAddress, relayLength: Int, destination: IPAddress,
    end: IPAddress?
  ) throws {
    let domain = EmbeddedIPv4(
      prefix: try #require(IPPrefix(prefix, length: length)),
      relay: try #require(IPPrefix(relay, length: relayLength)))
    let open = OpenEnd(.embedded(domain), source: "198.51.100.1", mark: 7)
    let found = open.end(of: destination, by: destination)
    #expect(found == end.map { Destination($0, mark: 7, source: "198.51.100.1") })
  }

  @Test("K6 sit embeds the IPv4 address in the gateway")
  func gateway() {
    let open = OpenEnd(.embedded(nil))
    #expect(open.end(of: Self.inside, by: "::192.0.2.4")?.address == "192.0.2.4")
    for nextHop in ["::", "::1", "fe80::192.0.2.4", "2001:db8::1"] as [IPAddress] {
      #expect(open.end(of: Self.inside, by: nextHop) == nil)
    }
  }

  @Test(
    "K6 the end of ipip is its gateway; the end of multipoint gre is the gateway's link-layer address"
  )
  func others() {
    let gateway: IPAddress = "192.0.2.4"
    #expect(OpenEnd(.nextHop(.ipv4)).end(of: "17.0.0.1", by: gateway)?.address == gateway)
    #expect(OpenEnd(.nextHop(.ipv6)).end(of: "17.0.0.1", by: gateway) == nil)
    let gre = OpenEnd(.hardwareAddress(.ipv4), source: "198.51.100.1")
    #expect(
      gre.end(of: "17.0.0.1", by: "10.0.0.1", hardwareAddress: [192, 0, 2, 4])?.address == gateway)
    #expect(gre.end(of: "17.0.0.1", by: "10.0.0.1") == nil)
    #expect(gre.end(of: "17.0.0.1", by: "10.0.0.1", hardwareAddress: [2, 0, 0, 0, 0, 1]) == nil)
    // For a neighbour without an entry, the kernel reports the link's own address.
    #expect(gre.end(of: "17.0.0.1", by: "10.0.0.1", hardwareAddress: [198, 51, 100, 1]) == nil)
  }
}
