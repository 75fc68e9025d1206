import ArgumentParser
import Connectivity
import ConnectivityMonitor
import ConnectivityProtocol
import GRPCCore
import Testing

@testable import ConnctlCommands

@Suite("Formats of status bars")
struct TemplateTests {
  private func text(
    _ format: String, _ snapshot: ConnectivitySnapshot = .sample, _ event: StatusEvent? = nil
  ) throws -> String {
    try Template(format).text(snapshot, event ?? .snapshot(snapshot))
  }

  @Test("fields are replaced, and braces and line breaks can be written")
  func fields() throws {
    #expect(try self.text("{category} {interface}") == "wifi wlan0")
    #expect(try self.text(#"{{{category}}}\n\t{medium}"#) == "{wifi}\n\twifi")
    #expect(
      try self.text("{ipv4} {ipv6} {source} {gateway}")
        == "satisfied unsatisfied 192.0.2.7 192.0.2.1")
    #expect(try self.text("{since}") == "2026-11-21T01:25:00.123456Z")
    #expect(try self.text("{metered}{constrained}{cause}{dns}") == "")
    var costly = ConnectivityStatus.sample
    costly.ipv4.costsMoney = true
    costly.ipv4.constraint = .constrained
    #expect(
      try self.text("{metered}, {constrained}", .sample(17, costly)) == "metered, constrained")
  }

  @Test("V1 validation and portal are fields, empty while offline")
  func validation() throws {
    var status = ConnectivityStatus.sample
    #expect(try self.text("{validation} {portal}", .sample(17, status)) == "unknown ")
    status.ipv4.validation = KernelPath.Validation(.portal, .networkManager, portal: "https://a/")
    #expect(try self.text("{validation} {portal}", .sample(17, status)) == "portal https://a/")
    #expect(try self.text("{validation}{portal}", .sample(18, .offline)) == "")
  }

  @Test("while offline, the link that carries nothing is not named")
  func offline() throws {
    #expect(try self.text("{category} {interface}{medium}", .sample(18, .offline)) == "none ")
  }

  @Test("fields of events are those of the event")
  func events() throws {
    let transition = StatusEvent.change(.transition(.sample))
    #expect(
      try self.text(
        "{event} {generation} {from} {category} {cause}", .sample(18, .offline), transition)
        == "transition 18 wifi none carrier lost on wlan0 (RTM_NEWLINK)")
    let invalidation = StatusEvent.change(.invalidation(.sample))
    #expect(
      try self.text("{severity} {scope}: {reason}", .sample, invalidation)
        == "destroy connections on wlan0 (ipv4): interfaceLost")
  }

  @Test("a JSON value is quoted, also without a value")
  func json() throws {
    var snapshot = ConnectivitySnapshot.sample
    snapshot.status.ipv4.chain[0].name = #"a"b\"#
    #expect(
      try self.text(
        #"{{"text": {interface:json}, "x": {metered:json}, "g": {generation:json}, "c": {cause:json}}}"#,
        snapshot)
        == #"{"text": "a\"b\\", "x": false, "g": 17, "c": ""}"#)
  }

  @Test("a name with control characters cannot change the terminal")
  func hostile() throws {
    var snapshot = ConnectivitySnapshot.sample
    snapshot.status.ipv4.chain[0].name = "a\u{1B}[2J\n"
    #expect(!(try self.text("{interface}", snapshot)).unicodeScalars.contains { $0.value < 0x20 })
  }

  @Test(
    "an invalid format is refused",
    arguments: ["{", "}", "{x", "{foo}", "{category:x}", "{}", "{{}"])
  func invalid(format: String) {
    #expect(throws: ValidationError.self) { try Template(format) }
  }

  @Test("watch --format prints a line when it differs; with fields of events, one for each event")
  func watch() async throws {
    let stub = StubConnd { _, writer in
      try await writer.write(.snapshot(.sample))
      try await writer.write(Connectivity_V1_WatchResponse(.path(.sample)))
      try await writer.write(Connectivity_V1_WatchResponse(.transition(.sample)))
      try await writer.write(Connectivity_V1_WatchResponse(.invalidation(.sample)))
      try await writer.write(.gap(.sample(30)))
      try await writer.write(.gap(.sample(31)))
      await Gate().pass()
    }
    let bar = try await connctl(
      "watch", "--format", "{category} {interface}", stub: stub, screen: Screen(lines: 2))
    // The reader leaves before the third line.
    #expect(bar.screen.outputLines == ["wifi wlan0", "none "])
    let all = try await connctl(
      "watch", "--format", "{event} {category}", stub: stub, screen: Screen(lines: 5))
    #expect(
      all.screen.outputLines
        == ["snapshot wifi", "path wifi", "transition none", "invalidation none", "gap wifi"])
    let once = try await connctl("status", "--format", "{category} by {interface}")
    #expect(once.screen.output == "wifi by wlan0\n")
  }
}
