import Connectivity
import ConnectivityRules
import Logging
import TestKit
import Testing

@testable import ConndServer

/// nl80211 cannot be asked, or its dump is incomplete because the list kept changing. Everything
/// goes over eth0, which is a Wi-Fi link.
@Suite("Wi-Fi with incomplete nl80211 answers")
struct IncompleteWirelessTests {
  private static let home = WirelessNetwork(ssid: Array("home".utf8), security: .open)
  private static let cafe = WirelessNetwork(ssid: Array("cafe".utf8), security: .personal)

  private let directory: TemporaryDirectory
  private var loop: TestLoop

  init() throws {
    self.directory = try TemporaryDirectory()
    let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
    self.loop = try TestLoop(
      overrideStore: OverrideStore(
        OverrideFile(path: "\(self.directory.path)/networks", boot: "a", logger: logger)))
    let kernel = self.loop.kernel
    kernel.linkTable[2]?.device.hasPhy80211 = true
    kernel.wirelessLinks[2] = Self.member(of: Self.home)
    let router = try IPAddress(spelt: "192.0.2.1")
    kernel.neighbours[router] = Neighbour(router, link: 2, hardwareAddress: [2, 0, 0, 0, 0, 7])
  }

  /// Access points announce a metered network.
  private static func member(of network: WirelessNetwork?) -> WirelessLink {
    WirelessLink(
      role: .station, network: network,
      accessPoint: network.map {
        AccessPoint(bssid: [2, 0, 0, 0, 0, 8], isMetered: $0 == Self.home)
      })
  }

  private mutating func join(
    _ network: WirelessNetwork?, by kind: WirelessChange.Kind = .joined,
    incomplete: ((UInt32) -> WirelessLink?)? = nil
  ) -> [String] {
    self.loop.kernel.wirelessLinks[2] = Self.member(of: network)
    self.loop.kernel.incompleteWireless = incomplete
    defer { self.loop.kernel.incompleteWireless = nil }
    return self.loop.tell([.wireless(WirelessChange(kind, on: 2))])
  }

  private mutating func markHome() throws {
    let request = CostRequest.CostOverrideRequest(
      target: .network("home"), constrained: .on, expensive: nil, end: nil, user: 1000)
    _ = try self.loop.answer(.set(request)).get()
  }

  private var status: ConnectivityStatus { self.loop.loop.feed.store.snapshot.status }
  private var published: Int { self.loop.loop.feed.store.past.count }
  private var asked: Int { self.loop.kernel.asked.count { $0.hasPrefix("wireless") } }

  @Test(
    "I4 the joined network becomes known with the next reading; until then nothing is reported")
  mutating func nothing() throws {
    self.loop.loop.start()
    #expect(try self.loop.guardFlow(1) == ["1 path eth0"])
    #expect(self.join(Self.cafe) { _ in nil } == [])
    // It may already be on the other network.
    #expect(try self.loop.guardFlow(2) == ["2 path eth0"])
    // For that flow it is news that this network is not metered.
    #expect(self.loop.tell() == ["2 path eth0", "1 destroy networkChanged"])
    #expect(self.loop.tell() == [])
  }

  @Test("I4 an SSID alone shows a change of network, but never makes another network of the same")
  mutating func name() throws {
    self.loop.loop.start()
    #expect(try self.loop.guardFlow(1) == ["1 path eth0"])
    let named = { (network: WirelessNetwork) in
      { (_: UInt32) -> WirelessLink? in
        WirelessLink(role: .station, network: WirelessNetwork(ssid: network.ssid))
      }
    }
    #expect(self.join(Self.home, incomplete: named(Self.home)) == [])
    #expect(self.loop.tell() == [])
    #expect(self.join(Self.cafe, incomplete: named(Self.cafe)) == ["1 destroy networkChanged"])
    #expect(try self.loop.guardFlow(2) == ["2 path eth0"])
    #expect(self.loop.tell() == [])
  }

  @Test(
    "I8 a network's cost is known with the next complete reading, whatever failed on joining"
  )
  mutating func costs() throws {
    self.loop.loop.start()
    try self.markHome()
    #expect(self.join(nil, by: .left) == [])
    #expect(!self.status.isMetered && !self.status.isConstrained)
    // Linux 6.1 reports the network only in scan results.
    _ = self.join(Self.home) { _ in WirelessLink(role: .station) }
    #expect(!self.status.isMetered && !self.status.isConstrained)
    _ = self.loop.tell()
    #expect(self.status.isMetered && self.status.isConstrained)
  }

  @Test(
    "T3 an incomplete answer changes neither the cost nor the medium"
  )
  mutating func kept() throws {
    // A sandbox hides sysfs, so that only nl80211 knows which links are Wi-Fi.
    self.loop.kernel.linkTable[2]?.device = .unknown
    self.loop.loop.start()
    try self.markHome()
    let published = self.published
    let isAll = { (status: ConnectivityStatus) in
      status.category == .wifi && status.isMetered && status.isConstrained
    }
    #expect(isAll(self.status))
    #expect(self.join(Self.home, by: .roamed) { _ in nil } == [])
    self.loop.kernel.incompleteWireless = { _ in WirelessLink(role: .station) }
    #expect(self.loop.tell([.overrun]) == [])
    #expect(self.loop.tell() == [])
    self.loop.kernel.incompleteWireless = nil
    #expect(self.loop.tell() == [])
    #expect(isAll(self.status))
    #expect(self.published == published)
  }

  @Test("I4 another, partly known network does not keep the last one's costs")
  mutating func otherCosts() throws {
    self.loop.loop.start()
    try self.markHome()
    _ = self.join(Self.cafe) { _ in
      WirelessLink(role: .station, network: WirelessNetwork(ssid: Self.cafe.ssid))
    }
    #expect(!self.status.isMetered && !self.status.isConstrained)
    self.loop.kernel.incompleteWireless = { _ in nil }
    _ = self.loop.tell()
    #expect(!self.status.isMetered && !self.status.isConstrained)
    // A network of this name that is not known to be open may not be the one that was meant.
    _ = self.join(Self.home) { _ in
      WirelessLink(role: .station, network: WirelessNetwork(ssid: Self.home.ssid))
    }
    #expect(!self.status.isConstrained)
    _ = self.loop.tell()
    #expect(self.status.isConstrained)
  }

  @Test(
    "D7 nl80211 never answers → it is asked once per step, however many flows there are")
  mutating func never() throws {
    self.loop.kernel.incompleteWireless = { _ in nil }
    self.loop.loop.start()
    try self.loop.guardFlows(1000)
    let before = self.asked
    for step in 1...3 {
      // A published change causes an evaluation of all flows.
      self.loop.kernel.setState(of: 2, step.isMultiple(of: 2) ? .up : .down)
      _ = self.loop.tell()
      #expect(self.asked == before + step)
    }
  }

  @Test("D7 in a sandbox, a link that is not Wi-Fi is asked once, until messages are lost")
  mutating func cable() throws {
    self.loop.kernel.linkTable[2]?.device = .unknown
    self.loop.kernel.wirelessLinks = [:]
    self.loop.loop.start()
    let before = self.asked
    _ = self.loop.tell()
    _ = self.loop.tell([.wireless(WirelessChange(.joined, on: 9))])
    #expect(self.asked == before)
    _ = self.loop.tell([.overrun])
    #expect(self.asked == before + 1)
    #expect(self.status.category == .wired)
  }

  @Test(
    "networks and links listed while nl80211 is incomplete → name, medium and cost of its last answer"
  )
  func listed() throws {
    let kernel = self.loop.kernel
    let before = KernelView(kernel)
    _ = try before.link(2)
    var known = before.wireless
    known.note(.overrun)
    kernel.incompleteWireless = { _ in WirelessLink(role: .station) }
    let queries = KernelQueries(
      kernel: kernel, view: KernelView(kernel, ReadingContext(wireless: known)),
      reader: PathReader(destinations: .spread, classifier: PathClassifier()),
      preferred: .ipv4, identify: .shown)
    #expect(try queries.presentNetworks().map(\.name) == ["home"])
    let link = try #require(try queries.listLinks().first { $0.facts.link.index == 2 })
    #expect(link.evidence.medium == .wifi)
    #expect(link.wireless?.link.accessPoint?.isMetered == true && link.isExpensive == true)
    #expect(link.wireless?.link.network == nil)
  }
}
