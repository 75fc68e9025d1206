import TestKit
import TestTraits
import Testing

/// Calls that begin while the connection's peer is silent, and before the stall is known (W4).
@Suite("Calls in a silence", .needsNamespaces, .blocking, .serialized)
struct StallScenario {
  /// A client with an answered call on the Wi-Fi, which then loses everything under a second call.
  private func fail(
    _ bench: OtherWayBench, _ arguments: [String] = []
  ) throws -> (CallProbe, call: String) {
    let client = try bench.client(arguments)
    try bench.callByWiFi(client)
    bench.wifi.lose(1)
    return (client, try client.startQuick(0))
  }

  @Test("W4 a call begins after the first timeout → it is answered by the cable")
  func holds() throws {
    let bench = try OtherWayBench()
    let (client, hanging) = try self.fail(bench)
    try waitUntil("the first timeout has passed") {
      try bench.timeouts(from: OtherWayBench.byWiFi) > 0
    }
    try client.expectNextCall(
      0, from: OtherWayBench.byCable, "call after a timeout", goal: .milliseconds(1400))
    bench.wifi.lose(0)
    try client.expectSuccess(
      of: hanging, from: OtherWayBench.byWiFi, "first call", within: .seconds(60))
    try client.quit()
    try bench.server.end()
  }

  @Test("W4 a call begins after the first timeout, and the Wi-Fi is well again → it stays there")
  func released() throws {
    let bench = try OtherWayBench()
    bench.cable.lose(1)
    let (client, hanging) = try self.fail(bench)
    try waitUntil("the first timeout has passed") {
      try bench.timeouts(from: OtherWayBench.byWiFi) > 0
    }
    let waiting = try client.startQuick(0)
    bench.wifi.lose(0)
    for call in [hanging, waiting] {
      try client.expectSuccess(of: call, from: OtherWayBench.byWiFi, "call on the Wi-Fi")
    }
    try client.quit()
    try bench.server.end()
  }

  @Test("W4 a single call stalls → the channel connects by the cable without another call")
  func alone() throws {
    let bench = try OtherWayBench()
    let (client, hanging) = try self.fail(bench)
    try waitUntil("a connection by the cable exists") {
      try bench.connections(from: OtherWayBench.byCable) > 0
    }
    try client.expectNextCall(0, from: OtherWayBench.byCable, "next call")
    bench.wifi.lose(0)
    try client.expectSuccess(
      of: hanging, from: OtherWayBench.byWiFi, "first call", within: .seconds(60))
    try client.quit()
    try bench.server.end()
  }
}
