import TestKit
import Testing

/// A host on a Wi-Fi with a round trip of 20 ms, and a metered modem of 60 ms.
final class EndpointsBench {
  /// A global address, which no host outside of the laboratory ever sees.
  static let server = "93.184.215.14"
  /// The endpoints, while the Wi-Fi is the best link.
  static let wifi = "10.0.0.2 subflow dev wlan0"
  static let modem = "10.1.0.2 subflow backup dev wwan0"

  let lab: Laboratory
  let wifi: LossyLink
  let modem: LossyLink
  private(set) var program: RunningCommand?

  /// - Parameters:
  ///   - modem: The name of the second link.
  ///   - assist: The user's choice (`connctl assist`).
  ///   - prefix: A command that starts connd.
  init(modem: String = "wwan0", assist: String = "on", prefix: [String] = []) throws {
    let lab = try Laboratory(configuration: Uplinks.media)
    self.lab = lab
    try lab.outside.ip("address add \(Self.server)/32 dev lo")
    try lab.namespace.set("net/ipv4/conf/all/rp_filter", "2")
    self.wifi = try LossyLink("wlan0", 0, in: lab, delay: .milliseconds(10))
    self.modem = try LossyLink(modem, 1, in: lab, delay: .milliseconds(30))
    try lab.namespace.ip("route add default via 10.0.0.1 dev wlan0 metric 600")
    try lab.namespace.ip("route add default via 10.1.0.1 dev \(modem) metric 700")
    try lab.start(prefix: prefix)
    try self.setAssist(assist)
  }

  func setAssist(_ choice: String) throws {
    let outcome = try self.lab.connctl("assist", choice)
    #expect(outcome.status == 0, "\(outcome)")
  }

  /// Drops connections to an address that arrive by the second link.
  func block(_ address: String, from link: String = "wwan0") throws {
    try self.lab.outside.ip("rule add priority 10 lookup local")
    try self.lab.outside.ip("rule del priority 0")
    try self.lab.outside.ip("rule add priority 5 iif \(link) to \(address) blackhole")
  }

  private func arguments(_ more: [String]) -> [String] {
    [
      Programs.multipath, "--socket", self.lab.socket, "--state",
      "\(self.lab.directory.path)/endpoints",
    ] + more
  }

  func start(_ arguments: String...) throws {
    self.program = try self.lab.namespace.spawn(self.arguments(arguments))
  }

  func run(_ arguments: String...) throws -> Command.Outcome {
    try Command.outcome(of: self.lab.namespace.wrapped(self.arguments(arguments)))
  }

  func stop() throws {
    try self.program?.terminate()
    self.program = nil
  }

  /// The endpoints, one a line and sorted, without their numbers.
  func endpoints() throws -> [String] {
    try self.lab.namespace.ip("mptcp endpoint show").split(separator: "\n").map { line in
      var words = line.split(separator: " ")
      if let id = words.firstIndex(of: "id") { words.removeSubrange(id...id + 1) }
      return words.joined(separator: " ")
    }.sorted()
  }

  func expectEndpoints(
    _ expected: String..., sourceLocation: SourceLocation = #_sourceLocation
  ) throws {
    try self.expectEndpoints(expected, sourceLocation: sourceLocation)
  }

  func expectEndpoints(
    _ expected: [String], sourceLocation: SourceLocation = #_sourceLocation
  ) throws {
    do {
      try waitUntil("the endpoints are as expected") { try self.endpoints() == expected }
    } catch {
      let found = try self.endpoints()
      Issue.record(
        """
        \(found) instead of \(expected): \(self.program?.standardError ?? ""); \
        \(self.lab.recentLog)
        """,
        sourceLocation: sourceLocation)
    }
  }
}
