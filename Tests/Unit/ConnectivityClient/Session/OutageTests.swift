import ConnectivityProtocol
import ConnectivityTestKit
import Testing

@testable import ConnectivityMonitor

@Suite("C7 Looking for connd", .timeLimit(.minutes(5)), .namesWaits)
struct ConndOutageTests {
  private static let absence = ConndError.notAvailable("connd is not running")

  @Test("without connd → a few attempts in the first seconds, then one a minute")
  func pauses() {
    var outage = Outage()
    func attempts(in time: Duration) -> Int {
      var (rest, count) = (time, 0)
      while rest > .zero {
        rest -= outage.lost(Self.absence).pause
        count += 1
      }
      return count
    }
    #expect(attempts(in: .seconds(60)) == 10)
    #expect(attempts(in: .seconds(3600)) == 60)
  }

  @Test("connd appears during a pause of an hour → the pause ends")
  func found() async throws {
    try await withSimulatedNetwork(.wifi) { network in
      await network.stop()
      let connector = Connector(ClientThread())
      var start: Task<Void, any Error>?
      await #expect(throws: Found.self) {
        try await connector.repeating(at: network.socket.path) {
          guard let descriptor = try SocketProbe.connection(to: network.socket.path) else { return }
          SocketProbe.disconnect(descriptor)
          throw Connector.ReceiverError(error: Found())
        } lost: { _ in
          if start == nil { start = Task { try await network.start() } }
          return .seconds(3600)
        }
      }
      try await start?.value
    }
  }

  private struct Found: Error {}
}
