import Glibc
import TestKit
import TestTraits
import Testing

/// connd-multipath with connections that have their only subflow on a lost link, with links that
/// cost money, and with other programs' endpoints. `make multipath` repeats these tests.
@Suite("Endpoints beside connections, costs and others", .needsNamespaces, .blocking, .serialized)
struct EndpointLossScenario {
  private static let wifi = EndpointsBench.wifi
  private static let modem = EndpointsBench.modem
  private static let lostWiFi = "10.0.0.2 subflow backup dev wlan0"
  private static let usedModem = "10.1.0.2 subflow dev wwan0"
  /// An address of the Wi-Fi's own network.
  private static let neighbour = "10.0.0.1"

  // MARK: - Connections with one subflow

  private enum Lack: String, CaseIterable, CustomTestStringConvertible {
    /// The server is in the Wi-Fi's own network.
    case neighbour
    /// The server is not reachable by the modem.
    case blocked
    /// The reverse path filter drops the modem's answers.
    case filtered
    /// The server has no Multipath TCP.
    case fallback
    var testDescription: String { self.rawValue }
  }

  private func bench(_ lack: Lack) throws -> EndpointsBench {
    let bench = try EndpointsBench()
    switch lack {
    case .neighbour: try bench.block(Self.neighbour)
    case .blocked: try bench.block(EndpointsBench.server)
    case .filtered:
      try bench.lab.namespace.set("net/ipv4/conf/all/rp_filter", "0")
      try bench.lab.namespace.set("net/ipv4/conf/wwan0/rp_filter", "1")
    case .fallback: break
    }
    return bench
  }

  /// Starts a connection that has one subflow, by the Wi-Fi.
  private func connection(_ lack: Lack, in bench: EndpointsBench) throws -> Pulses {
    let server = lack == .neighbour ? Self.neighbour : EndpointsBench.server
    let pulses = try Pulses(bench.lab, to: server, port: 7200, isServed: lack != .fallback)
    try pulses.expectAnswers(50)
    return pulses
  }

  @Test(
    "M6 the carrier bounces under a connection without another subflow → the connection goes on",
    arguments: Lack.allCases)
  private func bounce(lack: Lack) throws {
    let bench = try self.bench(lack)
    try bench.start()
    let isFiltered = lack == .filtered
    let well = isFiltered ? [Self.wifi] : [Self.wifi, Self.modem]
    try bench.expectEndpoints(well)
    let pulses = try self.connection(lack, in: bench)
    for _ in 0..<Repetitions.count(1) {
      let lost = ContinuousClock.now
      try bench.wifi.setCarrier(false)
      try waitUntil("connd reports the loss") {
        try bench.lab.status().ipv4.status != "satisfied"
      }
      try bench.expectEndpoints(isFiltered ? well : [Self.lostWiFi, Self.usedModem])
      #expect(!pulses.isOver, "\(lack) while the Wi-Fi is lost")
      try bench.wifi.setCarrier(true)
      try bench.expectEndpoints(well)
      try pulses.expectAnswers(30)
      Timings.expect(pulses.longestWait(since: lost), below: nil, "longest wait, \(lack)")
      #expect(!pulses.isOver, "\(lack)")
    }
    try bench.stop()
  }

  @Test("M3 M6 another connection has a second subflow → that connection goes on during the loss")
  func mixed() throws {
    let bench = try self.bench(.neighbour)
    try bench.start()
    try bench.expectEndpoints(Self.wifi, Self.modem)
    for _ in 0..<Repetitions.count(1) {
      let single = try self.connection(.neighbour, in: bench)
      let pulses = try Pulses(bench.lab, to: EndpointsBench.server)
      try pulses.expectAnswers(150)
      let lost = ContinuousClock.now
      try bench.wifi.setCarrier(false)
      try bench.expectEndpoints(Self.lostWiFi, Self.usedModem)
      try pulses.expectAnswers(30)
      Timings.expect(
        pulses.longestWait(since: lost), below: .seconds(1), "longest wait, mixed, lost")
      let back = ContinuousClock.now
      try bench.wifi.setCarrier(true)
      try bench.expectEndpoints(Self.wifi, Self.modem)
      try waitUntil("answers arrive by the Wi-Fi") { pulses.median(ofLast: 5) < .milliseconds(45) }
      Timings.expect(
        pulses.longestWait(since: back), below: .seconds(1), "longest wait, mixed, back")
      try single.expectAnswers(10)
      #expect(!single.isOver && !pulses.isOver)
    }
    try bench.stop()
  }

  @Test("M3 M6 only the lost endpoint exists → a new endpoint takes the connection over")
  func late() throws {
    let bench = try EndpointsBench(assist: "auto")
    try bench.start()
    try bench.expectEndpoints(Self.wifi)
    let pulses = try Pulses(bench.lab, to: EndpointsBench.server)
    try pulses.expectAnswers(50)
    let lost = ContinuousClock.now
    try bench.wifi.setCarrier(false)
    // The network manager notices, and the modem becomes the default path.
    try bench.lab.namespace.ip("route del default dev wlan0")
    try bench.expectEndpoints(Self.modem)
    try pulses.expectAnswers(30)
    Timings.expect(pulses.longestWait(since: lost), below: nil, "longest wait, late")
    #expect(!pulses.isOver)
    try bench.stop()
  }

  // MARK: - Costs

  @Test("M4 W6 assist is switched → a metered modem has an endpoint only while assist is on")
  func assist() throws {
    let bench = try EndpointsBench(assist: "auto")
    try bench.start()
    try bench.expectEndpoints(Self.wifi)
    let program = try #require(bench.program)
    try waitUntil("it says why") { program.standardError.contains("10.1.0.2 dev wwan0: it may") }
    try bench.setAssist("on")
    try bench.expectEndpoints(Self.wifi, Self.modem)
    try bench.setAssist("off")
    try bench.expectEndpoints(Self.wifi)
    try bench.setAssist("on")
    try bench.expectEndpoints(Self.wifi, Self.modem)
    #expect(try bench.lab.connctl("constrain", "wwan0", "on").status == 0)
    try bench.expectEndpoints(Self.wifi)
    try bench.stop()
  }

  @Test(
    "M4 W6 assist is off or auto, and the Wi-Fi loses most packets → not one byte on the modem",
    arguments: ["off", "auto"])
  func bytes(assist: String) throws {
    let bench = try EndpointsBench(assist: assist)
    try bench.start()
    try bench.expectEndpoints(Self.wifi)
    for _ in 0..<Repetitions.count(1) {
      let pulses = try Pulses(bench.lab, to: EndpointsBench.server)
      try pulses.expectAnswers(50)
      // The kernel would use a backup after two timeouts.
      bench.wifi.lose(1)
      let sent = bench.wifi.sentBytes
      try waitUntil("four timeouts have passed") { bench.wifi.sentBytes >= sent + 5 * 152 }
      bench.wifi.lose(0)
      try pulses.expectAnswers(10)
      #expect(pulses.isMultipath)
      #expect(bench.modem.sentBytes == 0)
    }
    try bench.stop()
  }

  @Test("M4 W6 the modem roams → it has no endpoint, although assist is on")
  func roaming() throws {
    let bus = try ModemBus()
    try bus.startBus()
    try bus.startService()
    let bench = try EndpointsBench(prefix: bus.prefix)
    try bench.start()
    try bench.expectEndpoints(Self.wifi, Self.modem)
    try bus.publishModem(interface: "wwan0")
    try waitUntil("it is a modem") { try bench.lab.link("wwan0").modem?.roaming == false }
    try bench.expectEndpoints(Self.wifi, Self.modem)
    try bus.tell(#"{"set": ["Modem/0", "Modem.Modem3gpp", {"RegistrationState": ["u", 5]}]}"#)
    try bench.expectEndpoints(Self.wifi)
    let pulses = try Pulses(bench.lab, to: EndpointsBench.server)
    try pulses.expectAnswers(50)
    try bench.stop()
  }

  // MARK: - Others' endpoints

  /// The kernel's number for the endpoint of an address.
  private func number(of address: String, in bench: EndpointsBench) throws -> String? {
    let lines = try bench.lab.namespace.ip("mptcp endpoint show").split(separator: "\n")
    let words = lines.first { $0.hasPrefix("\(address) ") }?.split(separator: " ") ?? []
    return words.firstIndex(of: "id").map { String(words[$0 + 1]) }
  }

  @Test("M2 an administrator replaces the endpoints → connd-multipath leaves the new one alone")
  func replaced() throws {
    let bench = try EndpointsBench()
    try bench.start()
    try bench.expectEndpoints(Self.wifi, Self.modem)
    try bench.lab.namespace.ip("mptcp endpoint flush")
    try bench.lab.namespace.ip("mptcp endpoint add 10.1.0.2 id 77 dev wwan0 subflow fullmesh")
    try bench.modem.setCarrier(false)
    // The change of the link brings connd-multipath's own endpoint back.
    let foreign = "10.1.0.2 subflow fullmesh dev wwan0"
    try bench.expectEndpoints(Self.wifi, foreign)
    try bench.modem.setCarrier(true)
    let program = try #require(bench.program)
    try waitUntil("it has seen the modem") { program.standardError.contains("another program") }
    try bench.expectEndpoints(Self.wifi, foreign)
    #expect(try self.number(of: "10.1.0.2", in: bench) == "77")
    try bench.stop()
    #expect(try bench.run("--remove").status == 0)
    try bench.expectEndpoints(foreign)
  }

  @Test("M2 the endpoints are flushed → the next connection brings them back")
  func flushed() throws {
    let bench = try EndpointsBench()
    try bench.start()
    try bench.expectEndpoints(Self.wifi, Self.modem)
    try bench.lab.namespace.ip("mptcp endpoint flush")
    let first = try Pulses(bench.lab, to: EndpointsBench.server, port: 7200)
    try bench.expectEndpoints(Self.wifi, Self.modem)
    let pulses = try Pulses(bench.lab, to: EndpointsBench.server)
    try waitUntil("the one after it has a second subflow") {
      try bench.lab.namespace.run("ss", "-Htn", "state", "established", "src", "10.1.0.2")
        .contains(":7100")
    }
    // After another flush, the loss of a subflow brings the endpoints back.
    try bench.lab.namespace.ip("mptcp endpoint flush")
    try bench.expectEndpoints(Self.wifi, Self.modem)
    for pulses in [first, pulses] { try pulses.expectAnswers(10) }
    try bench.stop()
  }

  @Test("M2 a link is renamed → its endpoint and its subflows stay")
  func renamed() throws {
    let bench = try EndpointsBench(modem: "eth1")
    try bench.start()
    try bench.expectEndpoints(Self.wifi, "10.1.0.2 subflow backup dev eth1")
    try bench.lab.namespace.ip("link set eth1 name eth7")
    // After this change, the program has seen the new name.
    #expect(try bench.lab.connctl("metered", "wlan0", "on").status == 0)
    try bench.expectEndpoints("10.0.0.2 subflow backup dev wlan0", "10.1.0.2 subflow dev eth7")
    let log = try #require(bench.program).standardError
    #expect(!log.contains("delete"), "\(log)")
    try bench.stop()
  }

  @Test(
    "M2 more links than the kernel has endpoints → the best have them, and a warning names others")
  func surplus() throws {
    let bench = try EndpointsBench(modem: "eth1")
    for id in 100..<106 {
      try bench.lab.namespace.ip("mptcp endpoint add 192.0.2.\(id) id \(id) subflow")
    }
    try bench.start()
    func own() throws -> [String] { try bench.endpoints().filter { $0.hasPrefix("10.") } }
    try waitUntil("two places are left") {
      try own() == [Self.wifi, "10.1.0.2 subflow backup dev eth1"]
    }
    let third = try LossyLink("eth2", 2, in: bench.lab, delay: .milliseconds(10))
    try bench.lab.namespace.ip("route add default via 10.2.0.1 dev eth2 metric 10")
    try waitUntil("the new link is the best") {
      try own() == ["10.0.0.2 subflow backup dev wlan0", "10.2.0.2 subflow dev eth2"]
    }
    let program = try #require(bench.program)
    try waitUntil("the log names the link without an endpoint") {
      program.standardError.contains("no endpoint for 10.1.0.2 dev eth1: the kernel has at most 8")
    }
    withExtendedLifetime(third) {}
    try bench.stop()
  }
}
