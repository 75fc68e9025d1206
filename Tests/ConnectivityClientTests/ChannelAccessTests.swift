import Connectivity
import ConnectivityClient
import ConnectivityTestKit
import GRPCCore
import Testing

/// Which networks a channel, or a call, may use.
@Suite("Channels that may not use every network", .timeLimit(.minutes(5)))
struct ChannelAccessTests {
  @Test(
    "C8 a channel that may not use the path fails calls at once, with the reason",
    arguments: [
      (NetworkAccess(allowsExpensiveAccess: false), .cellular, .expensive),
      (NetworkAccess(prohibitedMedia: [.cellular]), .cellular, .cellular),
      (NetworkAccess(prohibitedMedia: [.wifi]), .wifi, .wifi),
      (NetworkAccess(allowsConstrainedAccess: false), .wifi.constrained(), .constrained),
    ] as [(NetworkAccess, NetworkConditions, NetworkUnavailable.Reason)])
  func forbidden(
    access: NetworkAccess, conditions: NetworkConditions, reason: NetworkUnavailable.Reason
  ) async throws {
    try await playingNetwork {
      $0.access = access
    } _: { network, client, _, record in
      network.become(conditions)
      for _ in 0..<2 {
        let error = try await failure { try await client.echo() }
        #expect(error?.code == .unavailable)
        #expect(error?.networkUnavailableReason == reason)
      }
      network.become(.wired)
      let answer = try await client.echo()
      #expect(answer == "hello")
      #expect(record.calls == ["Get"])
    }
  }

  @Test("C8 one call may be stricter than its channel")
  func forbiddenCall() async throws {
    try await playingNetwork { network, client, _, record in
      network.become(.cellular)
      let answer = try await withFallback(on: [.expensive]) {
        try await client.echo(EchoServer.get, "large")
      } fallback: { _ in
        try await client.echo(EchoServer.get, "small")
      }
      #expect(answer == "small")
      #expect(record.calls == ["Get"])
    }
  }

  @Test(
    "C8 a call that may not use every network waits for a connd that is slow to say which it is")
  func slow() async throws {
    try await playingNetwork { network, client, _, record in
      network.become(.cellular)
      network.delaysFlows = true
      // Those that may use every network do not wait for long.
      _ = try await client.echo()
      let call = Task {
        try await failure {
          try await withCallSettings({ $0.access = NetworkAccess(allowsExpensiveAccess: false) }) {
            try await client.echo()
          }
        }
      }
      // Nobody tells that it waits. On a machine under load even a few turns take seconds, and it waits for five.
      for _ in 0..<3 { await Task.yield() }
      network.delaysFlows = false
      let error = try await call.value
      #expect(error?.networkUnavailableReason == .expensive)
      #expect(record.calls == ["Get"])
    }
  }

  @Test(
    "C8 I8 a channel whose path becomes forbidden is invalidated",
    arguments: [
      (NetworkAccess(allowsExpensiveAccess: false), .wifi.expensive(), .expensive),
      (NetworkAccess(allowsConstrainedAccess: false), .wifi.constrained(), .constrained),
    ] as [(NetworkAccess, NetworkConditions, NetworkUnavailable.Reason)])
  func becomesForbidden(
    access: NetworkAccess, conditions: NetworkConditions, reason: NetworkUnavailable.Reason
  ) async throws {
    try await playingNetwork {
      $0.access = access
    } _: { network, client, _, record in
      let call = await hangingCall(client, record)
      try await network.waitForFlows(atLeast: 1)
      network.become(conditions)
      let error = try await call.value
      #expect(error?.invalidation?.reason == .policy)
      #expect(error?.networkUnavailableReason == reason)
    }
  }
}
