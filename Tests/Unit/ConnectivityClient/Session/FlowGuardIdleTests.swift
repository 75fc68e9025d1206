import ConnectivityTestKit
import Testing

@testable import ConnectivityClient
@testable import ConnectivityMonitor

@Suite("A guard without flows", .timeLimit(.minutes(5)), .namesWaits)
struct FlowGuardIdleTests {
  @Test("connd is contacted only when there is a flow; then the connection stays")
  func first() async throws {
    try await withSimulatedNetwork(.wifi) { network in
      await network.stop()
      let flows = FlowGuard(socket: network.socket)
      try await network.start()
      // An earlier attempt would have reported connd as missing.
      #expect(await flows.add("127.0.0.1", id: 1) == "1 path wlan0")
      #expect(network.openStreams == 1)
      flows.remove(1)
      #expect(await flows.add("127.0.0.1", id: 2) == "2 path wlan0")
      #expect(network.openStreams == 1)
    }
  }

  @Test("C7 the report of connd's absence ends with the last flow, and is repeated for the next")
  func absence() async throws {
    try await withSimulatedNetwork(.wifi) { network in
      await network.stop()
      let flows = FlowGuard(socket: network.socket)
      for id in [1, 2] as [UInt64] {
        #expect(await flows.add("127.0.0.1", id: id) == "disconnected")
        flows.remove(id)
        #expect(await flows.nextLine() == "resumed")
      }
      try await network.start()
      #expect(await flows.add("127.0.0.1", id: 3) == "3 path wlan0")
    }
  }
}
