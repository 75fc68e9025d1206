import Connectivity
import ConnectivityClient
import ConnectivityTestKit
import Testing

@Suite("Test kit: the documentation's examples", .timeLimit(.minutes(5)), .namesWaits)
struct TestKitSnippetTests {
  @Test("a followed status, and a loopback address with its own way")
  func overview() async throws {
    try await withSimulatedNetwork(.wifi, clock: StoppedClock()) { network in
      let events = StatusStream(socket: network.socket)
      let following = Task {
        for await event in events {
          if case .change(.transition(let transition)) = event, transition.to == .cellular {
            return
          }
        }
      }
      try await network.waitForSubscribers(atLeast: 1)
      try await network.play("wifi, 2 s, none, cellular")
      await following.value
      try await network.waitForNoStreams()

      try network.route("127.0.0.2", by: .wired, isOnLink: true)
      network.become(.cellular)
      #expect(network.snapshot.status.category == .cellular)
    }
  }

  @Test("I10 with a stopped clock a grace period ends when the test says so")
  func stoppedClock() async throws {
    try await withSimulatedNetwork(.wifi, clock: StoppedClock()) { network in
      network.become(.wifi.failing(.noCarrier))
      #expect(network.history.last?.line == "4 categoryChanged advise everything")
      network.advance(by: .seconds(1))
      #expect(network.history.last?.line == "6 categoryChanged destroy everything")
    }
  }
}
