import Connectivity
import Testing

@testable import ConnectivityRules

@Suite("Validation of a path")
struct ValidationTests {
  private static let portal = "https://portal.example/api"

  private static func words(
    _ checks: ConnectivityChecks? = nil, advertised: String? = nil, networkd: String? = nil
  ) -> ValidationReports {
    var words = ValidationReports()
    words.checks = checks.map { ["wlan0": $0] } ?? [:]
    words.portals = networkd.map { ["wlan0": $0] } ?? [:]
    if let advertised { words.note(PortalAdvertisement(link: 3, portal: advertised)) }
    return words
  }

  private static func validation(
    _ words: ValidationReports,
    chain: [KernelPath.Link] = [KernelPath.Link(index: 3, name: "wlan0")],
    _ family: AddressFamily = .ipv4
  ) -> KernelPath.Validation {
    words.validation(of: chain, family)
  }

  @Test("V1 no source has an answer → unknown")
  func nothing() {
    #expect(Self.validation(Self.words()) == .unknown)
    let other = [KernelPath.Link(index: 2, name: "eth0")]
    #expect(Self.validation(Self.words(.init(ipv4: .full)), chain: other) == .unknown)
  }

  @Test(
    "V1 a check by NetworkManager → its state, in its family only",
    arguments: [KernelPath.Validation.State.portal, .limited, .full])
  func check(state: KernelPath.Validation.State) {
    let words = Self.words(.init(ipv4: state))
    #expect(Self.validation(words) == KernelPath.Validation(state, .networkManager))
    #expect(Self.validation(words, .ipv6) == .unknown)
  }

  @Test("V1 a portal is advertised → unknown, with its URI; a router comes before networkd")
  func advertised() {
    #expect(
      Self.validation(Self.words(advertised: Self.portal, networkd: "https://old.example/"))
        == KernelPath.Validation(.unknown, .routerAdvertisement, portal: Self.portal))
    let networkd = KernelPath.Validation(.unknown, .networkd, portal: Self.portal)
    #expect(Self.validation(Self.words(networkd: Self.portal)) == networkd)
    #expect(networkd.isValidated == nil)
  }

  @Test("V1 a check and an advertised portal → the check decides, and a portal has its URI")
  func checkAndPortal() {
    #expect(
      Self.validation(Self.words(.init(ipv4: .full), advertised: Self.portal))
        == KernelPath.Validation(.full, .networkManager))
    #expect(
      Self.validation(Self.words(.init(ipv4: .portal), advertised: Self.portal))
        == KernelPath.Validation(.portal, .networkManager, portal: Self.portal))
  }

  @Test("V1 the network says that it has no portal → unknown")
  func unrestricted() {
    #expect(
      Self.validation(Self.words(advertised: "urn:ietf:params:capport:unrestricted")) == .unknown)
  }

  @Test("V1 a tunnel without a validation → that of the link below")
  func tunnel() {
    let chain = [KernelPath.Link(index: 9, name: "wg0"), KernelPath.Link(index: 3, name: "wlan0")]
    var words = Self.words(.init(ipv4: .portal))
    #expect(Self.validation(words, chain: chain).state == .portal)
    words.portals["wg0"] = Self.portal
    #expect(Self.validation(words, chain: chain).state == .portal)
    words.checks["wg0"] = ConnectivityChecks(ipv4: .full)
    #expect(Self.validation(words, chain: chain).state == .full)
  }

  private static func link(_ state: LinkState) -> Link {
    Link(
      index: 3, name: "wlan0", flags: [.up, .lowerUp], operationalState: state == .up ? .up : .down,
      carrier: state == .up)
  }

  @Test(
    "V1 the link may have another network → its advertisement is forgotten",
    arguments: [
      (KernelEvent.link(Self.link(.noCarrier)), true), (.link(Self.link(.up)), false),
      (.linkRemoved(Self.link(.up)), true), (.overrun, true),
      (.wireless(WirelessChange(.left, on: 3)), true),
      (.wireless(WirelessChange(.joined, on: 3)), true),
      (.wireless(WirelessChange(.roamed, on: 3)), false),
      (.wireless(WirelessChange(.left, on: 4)), false),
    ])
  func forgets(event: KernelEvent, isForgotten: Bool) {
    var words = Self.words(advertised: Self.portal)
    words.forget(after: [event])
    #expect(words.advertised.isEmpty == isForgotten)
  }

  @Test("only printable ASCII is a URI")
  func uri() {
    #expect(PortalAdvertisement.uri(Array("https://a/".utf8)) == "https://a/")
    #expect(PortalAdvertisement.uri([]) == nil)
    #expect(PortalAdvertisement.uri(Array("https://a/ b".utf8)) == nil)
    #expect(PortalAdvertisement.uri(Array("https://a/\u{1B}[2J".utf8)) == nil)
    #expect(PortalAdvertisement.uri([0x68, 0xC3, 0xA4]) == nil)
  }
}
