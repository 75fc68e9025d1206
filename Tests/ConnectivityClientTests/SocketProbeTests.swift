import Testing

@testable import ConnectivitySession

@Suite("What connd says when it closes a connection")
struct SocketProbeTests {
  private static let settings: [UInt8] = [0, 0, 0, 4, 0, 0, 0, 0, 0]

  private func goAway(_ error: UInt8, _ reason: String) -> [UInt8] {
    [0, 0, UInt8(8 + reason.utf8.count), 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, error]
      + Array(reason.utf8)
  }

  @Test("the reason is that of GOAWAY with ENHANCE_YOUR_CALM, wherever it stands")
  func reason() {
    let farewell = Self.settings + self.goAway(0xB, "no more")
    #expect(SocketProbe.reason(in: farewell[...]) == "no more")
    #expect(SocketProbe.reason(in: Self.settings[...]) == nil)
    #expect(SocketProbe.reason(in: self.goAway(0, "bye")[...]) == nil)
    #expect(SocketProbe.reason(in: self.goAway(0xB, "")[...]) == nil)
  }

  @Test("D8 every truncation is no reason")
  func truncations() {
    let farewell = Self.settings + self.goAway(0xB, "no more")
    for count in 0..<farewell.count { #expect(SocketProbe.reason(in: farewell[..<count]) == nil) }
    #expect(SocketProbe.reason(in: Array(repeating: 0xFF, count: 4096)[...]) == nil)
  }

  @Test("where nobody listens there is none")
  func nobody() {
    #expect(SocketProbe.farewell(from: "/nonexistent/connd.sock") == nil)
  }
}
