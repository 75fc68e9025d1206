import Connectivity
import ConnectivityProtocol
import Testing

@testable import ConnctlCommands

@Suite("Translated IPv4, as text")
struct TranslatedTextTests {
  private let style = Style.plain(width: .max)

  private static let path = KernelPath(
    status: .satisfied,
    chain: [KernelPath.Link(index: 5, name: "clat"), KernelPath.Link(index: 3, name: "wlan0")],
    medium: .wifi,
    source: IPAddress("192.0.0.1"), sourcePrefixLength: 32, table: 254)

  @Test("K9 status names translated IPv4")
  func status() {
    let status = ConnectivityStatus(ipv4: Self.path, ipv6: .stack, preferred: .ipv4)
    let lines = self.style.status(.sample(1, status), now: .sample)
    #expect(lines[1].hasSuffix("over wlan0 from 192.0.0.1, translated IPv4"))
    #expect(!lines[2].contains("translated"))
  }

  @Test("K9 explain names translated IPv4 and the link below, but not DS-Lite")
  func explain() throws {
    func lines(kind: String) throws -> [String] {
      var explanation = Connectivity_V1_Explanation.sample
      explanation.path = Connectivity_V1_Path(Self.path)
      explanation.links = [.stacked("clat", kind: kind), .stacked("wlan0")]
      explanation.links[0].medium = .tunnel
      return try self.style.explanation(explanation, host: nil)
    }
    let translated = try lines(kind: "tun")
    #expect(
      translated[0]
        == "Traffic leaves by clat, translated IPv4 over wlan0 (Wi-Fi), the only link with a route."
    )
    #expect(
      translated.contains(
        "  source    192.0.0.1, translated IPv4 (CLAT): this machine sends the packets by IPv6"))
    let encapsulated = try lines(kind: "ip6tnl")
    #expect(encapsulated[0].hasPrefix("Traffic leaves by clat, a tunnel over wlan0"))
    #expect(encapsulated.contains("  source    192.0.0.1"))
  }

  @Test("K9 links names the link that translates")
  func links() {
    func notes(_ kind: String, _ address: String) -> [String] {
      var link = Connectivity_V1_Link.stacked("x0", kind: kind)
      link.medium = kind == "vlan" ? .wired : .tunnel
      link.addresses = [address]
      return link.notes(withSignal: true)
    }
    #expect(notes("tun", "192.0.0.1/32") == ["translated IPv4"])
    #expect(notes("vlan", "192.0.0.2/32") == ["translated IPv4"])
    #expect(notes("ip6tnl", "192.0.0.2/29") == [])
    #expect(notes("tun", "192.0.2.1/32") == [])
  }
}
