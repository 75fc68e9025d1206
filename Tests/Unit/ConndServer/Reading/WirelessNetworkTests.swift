import Connectivity
import ConnectivityProtocol
import ConnectivityRules
import Testing

@testable import ConndServer

@Suite("Wi-Fi networks")
struct WirelessNetworkTests {
  private static let home = WirelessNetwork(ssid: Array("home".utf8), security: .personal)
  private static let cafe = WirelessNetwork(ssid: Array("cafe".utf8), security: .open)

  /// Everything goes over eth0, which is a Wi-Fi link with a known router.
  private func loop(on network: WirelessNetwork?) throws -> TestLoop {
    try TestLoop.started { kernel in
      kernel.linkTable[2]?.device.hasPhy80211 = true
      kernel.wirelessLinks[2] = WirelessLink(role: .station, network: network)
      let router = try IPAddress(spelt: "192.0.2.1")
      kernel.neighbours[router] = Neighbour(router, link: 2, hardwareAddress: [2, 0, 0, 0, 0, 7])
    }
  }

  /// The link leaves its network and joins another access point. The kernel keeps the address and
  /// the route, and does not report the carrier.
  private func join(
    _ network: WirelessNetwork?, _ loop: inout TestLoop, by kind: WirelessChange.Kind = .joined
  ) -> [String] {
    loop.kernel.wirelessLinks[2]?.network = network
    return loop.tell([.wireless(WirelessChange(kind, on: 2))])
  }

  @Test(
    "I4 another SSID is another network immediately, even with the same address, route and router")
  func otherName() throws {
    var loop = try self.loop(on: Self.home)
    #expect(try loop.guardFlow(1) == ["1 path eth0"])
    #expect(self.join(Self.cafe, &loop) == ["1 destroy networkChanged"])
    #expect(loop.invalidations == ["destroy networkChanged"])
    // A new flow there stays.
    #expect(try loop.guardFlow(2) == ["2 path eth0"])
    #expect(loop.turn() == [])
  }

  @Test(
    "A listing of links contains the SSID and the access point, unless they are hidden",
    arguments: Identification.allCases)
  func listed(identify: Identification) throws {
    let kernel = try self.loop(on: Self.home).kernel
    kernel.wirelessLinks[2]?.accessPoint = AccessPoint(
      bssid: [2, 0, 0, 0, 0xAB, 7], frequency: 2437, isMetered: true)
    kernel.wirelessSignals[2] = WirelessSignal(strength: -52, retries: 3)
    let queries = KernelQueries(
      kernel: kernel, view: KernelView(kernel),
      reader: PathReader(destinations: .spread, classifier: PathClassifier()),
      preferred: .ipv4, identify: identify)
    for reports in [try queries.listLinks(), try queries.explain(nil).links] {
      let links = reports.map { Connectivity_V1_Link($0) }
      let link = try #require(links.first { $0.index == 2 })
      #expect(link.wireless.hasSsid == (identify == .shown))
      #expect(link.wireless.ssid == (identify == .shown ? "home" : ""))
      #expect(link.wireless.bssid == (identify == .shown ? "02:00:00:00:ab:07" : ""))
      #expect(link.wireless.security == [.personal])
      #expect(link.wireless.frequency == 2437)
      #expect(link.wireless.signal == -52)
      #expect(!link.wireless.hasTransmitRate)
      #expect(link.wireless.metered)
      #expect(links.allSatisfy { $0.index == 2 || !$0.hasWireless })
    }
  }

  @Test(
    "An SSID is shown as iw and wpa_cli write it",
    arguments: [
      ("home", "home"), ("Gäste", "Gäste"), ("a\\b", #"a\\b"#),
    ] as [(String, String)])
  func name(ssid: String, name: String) {
    #expect(WirelessNetwork(ssid: Array(ssid.utf8)).name == name)
  }

  @Test("Octets of an SSID that are not text are shown as octets")
  func octets() {
    #expect(WirelessNetwork(ssid: [0xFF, 65, 0xC3, 0x03]).name == "\\xffA\\xc3\u{3}")
    // An overlong form and half of a surrogate pair are not UTF-8 (RFC 3629).
    #expect(WirelessNetwork(ssid: [0xC0, 0xAF]).name == #"\xc0\xaf"#)
    #expect(WirelessNetwork(ssid: [0xED, 0xA0, 0x80]).name == #"\xed\xa0\x80"#)
    #expect(WirelessNetwork(ssid: [0xF0, 0x9F, 0x8F, 0xA0]).name == "🏠")
  }

  @Test("I4 a network in between, or none, does not matter")
  func left() throws {
    var loop = try self.loop(on: Self.home)
    #expect(try loop.guardFlow(1) == ["1 path eth0"])
    #expect(self.join(nil, &loop, by: .left) == [])
    #expect(self.join(Self.home, &loop) == [])
    #expect(self.join(nil, &loop, by: .left) == [])
    #expect(self.join(Self.cafe, &loop) == ["1 destroy networkChanged"])
  }

  @Test("I4 a roam within one network is not a change, whatever else its access points offer")
  func roam() throws {
    var loop = try self.loop(on: Self.home)
    #expect(try loop.guardFlow(1) == ["1 path eth0"])
    let securities: [WirelessSecurity?] = [
      .personal, [.personal, .enterprise], nil, .personal,
    ]
    for security in securities {
      let network = WirelessNetwork(ssid: Self.home.ssid, security: security)
      #expect(self.join(network, &loop, by: .roamed) == [])
    }
    #expect(loop.invalidations == [])
  }

  @Test("I4 an open network and one with a passphrase differ, even with the same SSID")
  func sameName() throws {
    var loop = try self.loop(on: Self.home)
    #expect(try loop.guardFlow(1) == ["1 path eth0"])
    // Unknown security does not make another network of it.
    #expect(self.join(WirelessNetwork(ssid: Self.home.ssid), &loop) == [])
    let twin = WirelessNetwork(ssid: Self.home.ssid, security: .open)
    #expect(self.join(twin, &loop) == ["1 destroy networkChanged"])
  }

  @Test("I4 nl80211 gives no network → the router identifies it as before")
  func unknown() throws {
    var loop = try self.loop(on: nil)
    #expect(try loop.guardFlow(1) == ["1 path eth0"])
    // All earlier flows are taken to be on the first SSID that is read.
    #expect(self.join(Self.home, &loop) == [])
    #expect(self.join(Self.cafe, &loop) == ["1 destroy networkChanged"])
  }

  @Test("D7 a link is queried only after an nl80211 message about it")
  func questions() throws {
    var loop = try self.loop(on: Self.home)
    func asked() -> Int { loop.kernel.asked.count { $0.hasPrefix("wireless") } }
    #expect(asked() == 1)
    _ = loop.tell()
    _ = loop.tell()
    #expect(asked() == 1)
    _ = self.join(Self.home, &loop, by: .roamed)
    #expect(asked() == 2)
    _ = loop.tell([.overrun])
    #expect(asked() == 3)
    _ = loop.tell([.wireless(WirelessChange(.joined, on: 9))])
    #expect(asked() == 3)
  }

  @Test("D7 a wired link is not queried for an SSID")
  func cable() throws {
    var loop = try TestLoop.started()
    #expect(try loop.guardFlow(1) == ["1 path eth0"])
    #expect(!loop.kernel.asked.contains { $0.hasPrefix("wireless") })
  }
}
