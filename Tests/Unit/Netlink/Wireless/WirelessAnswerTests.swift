import Connectivity
import Testing

@testable import Netlink

/// Parsing of answers that a kernel gave.
@Suite("Recorded nl80211 answers")
struct WirelessAnswerTests {
  @Test("The group numbers of a family are parsed")
  func family() throws {
    let family = try withMessage(FamilyCaptures.wireless.bytes) { GenericFamily(message: $0) }
    #expect(
      family
        == GenericFamily(
          name: "nl80211", id: 32,
          groups: [
            "config": 9, "scan": 10, "regulatory": 11, "mlme": 12, "vendor": 13, "nan": 14,
          ]))
  }

  @Test("An interface has its role, and no SSID if the kernel does not report it")
  func interface() throws {
    let interface = try withMessage(WirelessAnswerCaptures.interface.bytes) {
      WirelessInterface(message: $0)
    }
    #expect(interface?.role == .station)
    #expect(interface != nil && interface?.ssid == nil)
  }

  private func joined(_ capture: Capture) throws -> JoinedAccessPoint? {
    try withMessage(capture.bytes) { JoinedAccessPoint(message: $0) }
  }

  @Test("The joined network counts among all scan results")
  func scanned() throws {
    let home = try self.joined(WirelessAnswerCaptures.joined)
    #expect(home?.ssid == Array("home".utf8))
    #expect(home?.security == .personal)
    #expect(home?.accessPoint == AccessPoint(bssid: [2, 0, 0, 0, 1, 0], frequency: 2412))
    #expect(try self.joined(WirelessAnswerCaptures.heard) == nil)
    let cafe = try self.joined(WirelessAnswerCaptures.hotspot)
    #expect(cafe?.ssid == Array("cafe".utf8))
    #expect(cafe?.security == .open)
    #expect(
      cafe?.accessPoint
        == AccessPoint(bssid: [2, 0, 0, 0, 2, 0], frequency: 2462, isMetered: true))
  }

  @Test("A station's signal is parsed")
  func signal() throws {
    let signal = try withMessage(WirelessAnswerCaptures.station.bytes) {
      WirelessSignal(message: $0)
    }
    #expect(
      signal
        == WirelessSignal(
          strength: -30, transmitRate: 54_000_000, receiveRate: 36_000_000, retries: 0))
  }

  @Test("D8 a truncated answer never names another network")
  func truncated() throws {
    for capture in [WirelessAnswerCaptures.joined, WirelessAnswerCaptures.hotspot] {
      let whole = try #require(try self.joined(capture))
      for count in 16..<capture.bytes.count {
        let cut = Capture(bytes: capture.truncated(to: count, isConsistent: true))
        guard let joined = try self.joined(cut) else { continue }
        #expect(joined.ssid == whole.ssid)
        #expect(joined.accessPoint?.bssid == whole.accessPoint?.bssid)
      }
    }
  }
}
