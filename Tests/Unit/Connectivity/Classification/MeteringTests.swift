import Connectivity
import Testing

@testable import ConnectivityRules

@Suite("Cost of a link, and its source")
struct MeteringTests {
  private static let cable = LinkClassifierTests.link("eth0")
  private static let wwan = LinkClassifierTests.link("eth0", kind: "wwan")
  private static let hotspot = LinkClassifierTests.link(
    "eth0",
    device: Device(
      hasPhy80211: true,
      wireless: WirelessLink(
        role: .station,
        accessPoint: AccessPoint(bssid: [2, 0, 0, 0, 0, 1], isMetered: true))))
  private static let iPhone = LinkClassifierTests.link("eth0", device: Device(driver: "ipheth"))
  private static let rndis = LinkClassifierTests.link(
    "eth0", device: Device(driver: "rndis_host", usbInterface: USBInterface(0xe0, 0x01, 0x03)))

  private func cost(
    _ chain: [LinkFacts], _ words: MeteringReports = MeteringReports(), said: Bool? = nil,
    configured: Bool? = nil
  ) -> (String, Bool?) {
    var overrides = CostOverrides()
    overrides[.link("eth0")] = said.map { CostOverride(expensive: .init($0), user: 1000) }
    let rules = configured.map { [LinkPolicy.Rule(match: "eth*", expensive: $0)] } ?? []
    let classifier = PathClassifier(
      policy: LinkPolicy(rules), overrides: overrides, metering: words)
    let medium = classifier.evidence(for: chain).medium
    let cost = classifier.cost(of: chain, medium: medium)
    let evidence = cost.evidence
    return ("\(evidence.state.rawValue) \(evidence.source.rawValue)", evidence.isExpensive)
  }

  private func by(_ state: Metering) -> MeteringReports {
    MeteringReports(manager: ["eth0": state])
  }

  @Test("the first source in the order that knows the cost decides")
  func order() {
    let phone = MeteringReports(manager: ["eth0": .no], phones: ["eth0"])
    #expect(
      self.cost([Self.wwan], phone, said: true, configured: false) == ("no configuration", false))
    #expect(self.cost([Self.cable], configured: true) == ("yes configuration", true))
    #expect(self.cost([Self.wwan], self.by(.yes), said: false) == ("no user", false))
    #expect(self.cost([Self.cable], self.by(.no), said: true) == ("yes user", true))
    // A user has marked this modem as not metered in NetworkManager.
    #expect(self.cost([Self.wwan], self.by(.no)) == ("no networkManager", false))
    #expect(self.cost([Self.cable], phone) == ("no networkManager", false))
    #expect(self.cost([Self.cable], self.by(.yes)) == ("yes networkManager", true))
    #expect(self.cost([Self.wwan]) == ("yes medium", true))
    #expect(self.cost([Self.hotspot]) == ("yes accessPoint", true))
    #expect(self.cost([Self.iPhone]) == ("yes driver", true))
    #expect(self.cost([Self.cable], MeteringReports(phones: ["eth0"])) == ("yes dhcp", true))
  }

  @Test("certain information beats a guess; only NetworkManager's guess makes a path expensive")
  func guesses() {
    #expect(self.cost([Self.wwan], self.by(.guessNo)) == ("yes medium", true))
    #expect(self.cost([Self.hotspot], self.by(.guessNo)) == ("yes accessPoint", true))
    #expect(self.cost([Self.cable], self.by(.guessYes)) == ("guessYes networkManager", true))
    #expect(self.cost([Self.rndis]) == ("guessYes driver", false))
    #expect(self.cost([Self.rndis], self.by(.guessNo)) == ("guessYes driver", false))
    #expect(self.cost([Self.rndis], self.by(.no)) == ("no networkManager", false))
    #expect(
      self.cost([Self.rndis], MeteringReports(phones: ["eth0"])) == ("yes dhcp", true))
    #expect(self.cost([Self.cable], self.by(.guessNo)) == ("guessNo networkManager", false))
    #expect(self.cost([Self.cable]) == ("guessNo none", false))
    #expect(self.cost([LinkClassifierTests.link("eth0", kind: "dummy")]) == ("unknown none", nil))
  }

  @Test("K6 the cost of a link below counts for those above it")
  func stacked() {
    let vlan = LinkClassifierTests.link("vlan1", kind: "vlan", lower: 7)
    #expect(self.cost([vlan, Self.cable], self.by(.yes)) == ("yes networkManager", true))
    #expect(
      self.cost(
        [vlan, Self.cable], MeteringReports(manager: ["vlan1": .guessNo, "eth0": .guessYes]))
        == ("guessYes networkManager", true))
    #expect(
      self.cost([vlan, Self.cable], MeteringReports(phones: ["eth0"])) == ("yes dhcp", true))
    #expect(self.cost([Self.cable], MeteringReports(phones: ["eth1"])) == ("guessNo none", false))
  }
}
