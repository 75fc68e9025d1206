import Glibc
import TestKit
import TestTraits
import Testing

/// ModemManager's information, over a real bus. The links only stand for a modem's, and their
/// traffic does not matter.
@Suite("Modems", .needsNamespaces, .blocking)
struct ModemsScenario {
  let bus: ModemBus

  init() throws { self.bus = try ModemBus() }

  /// A laboratory whose default route uses a link of unknown medium.
  func laboratory() throws -> Laboratory {
    let lab = try Laboratory()
    try lab.addLink("ppp0", "192.0.2.2")
    try lab.namespace.ip("route add default via 192.0.2.1 metric 100")
    return lab
  }

  /// The same with connd, and with the link as a modem's.
  func dialled() throws -> Laboratory {
    let lab = try self.laboratory()
    try self.bus.startBus()
    try self.bus.startService()
    #expect(try lab.start(prefix: self.bus.prefix).category == "other")
    try self.bus.publishModem()
    #expect(try lab.event().to == "cellular")
    return lab
  }

  static let home = ModemLinkReport.Modem(
    connected: true, suspended: false, technology: "4G", roaming: false)

  @Test("a replay includes ModemManager's information")
  func replayed() throws {
    let lab = try self.laboratory()
    let file = "\(lab.directory.path)/it.recording"
    lab.options = ["--record", file]
    try self.bus.startBus()
    try self.bus.startService()
    #expect(try lab.start(prefix: self.bus.prefix).category == "other")
    let lines = try RunningCommand([
      Programs.connctl, "--socket", lab.socket, "watch", "--json",
    ])
    try lines.line { $0.contains("\"snapshot\"") }
    try self.bus.publishModem()
    #expect(try lab.event().to == "cellular")
    // A connd that stops does not send what it has just published.
    var live: [String] = []
    while live.last?.contains("\"invalidation\"") != true {
      live.append(try #require(try lines.nextLine()))
    }
    #expect(try lab.connd?.terminate() == 0)
    let replay = try Command.outcome(of: [Programs.connd, "--replay", file])
    #expect(replay.standardError == "")
    let told = replay.output.split(separator: "\n").dropFirst()
    #expect(told.contains { $0.contains("modemConnected") })
    #expect(told.prefix(live.count).map(String.init) == live)
    for line in told.dropFirst(live.count) { #expect(try lines.nextLine() == String(line)) }
  }

  @Test("K5 ModemManager has a bearer for a link → cellular and expensive")
  func bearer() throws {
    let lab = try self.laboratory()
    try self.bus.startBus()
    try self.bus.startService()
    #expect(try lab.start(prefix: self.bus.prefix).category == "other")
    #expect(try lab.link("ppp0").modem == nil)

    try self.bus.publishModem()
    let dialled = try lab.event()
    #expect(dialled.from == "other" && dialled.to == "cellular")
    #expect(dialled.cause?.trigger == "modem")
    #expect(dialled.cause?.change == "modemConnected")
    #expect(dialled.cause?.interface == "ppp0")
    #expect(dialled.status.expensive)
    let link = try lab.link("ppp0")
    #expect(link.modem == Self.home)
    #expect(link.evidence?.source == "modemManager")
    #expect(try lab.connctl("links").output.contains("metered 4G"))
    #expect(try lab.connctl("explain").output.contains("ppp0, veth, up, 4G"))
  }

  @Test("K5 a modem that was there before connd is found")
  func before() throws {
    let lab = try self.laboratory()
    try self.bus.startBus()
    try self.bus.startService()
    try self.bus.publishModem()
    try lab.start(prefix: self.bus.prefix)
    try waitUntil("it is cellular") { try lab.status().category == "cellular" }
  }

  @Test("K5 a serial line's link is the one its pppd has made, however late")
  func serialLine() throws {
    let lab = try self.laboratory()
    let run = try TemporaryDirectory()
    try Command.run(["mkdir", "\(run.path)/lock"])
    try run.write("      4711\n", to: "lock/LCK..ttyUSB2")
    try self.bus.startBus()
    try self.bus.startService()
    try self.bus.publishModem(interface: "ttyUSB2")
    // A directory that only connd sees as /run.
    let mount = #"mount --make-rprivate / && mount --bind "$0" /run && exec "$@""#
    let category = try lab.start(
      prefix: self.bus.prefix + ["unshare", "--mount", "sh", "-c", mount, run.path]
    ).category
    #expect(category == "other")
    try run.write("4711\n", to: "ppp0.pid")
    try lab.namespace.ip("link set ppp0 mtu 1400")
    let dialled = try lab.event()
    #expect(dialled.to == "cellular" && dialled.cause?.interface == "ppp0")
    #expect(try lab.link("ppp0").modem == Self.home)
  }

  @Test(
    "D7 a silent bus and a service that does not answer → connd does not wake",
    arguments: [false, true])
  func idle(isMute: Bool) throws {
    let lab = try self.laboratory()
    try self.bus.startBus()
    try self.bus.startService()
    try self.bus.tell(#"{"mute": \#(isMute)}"#)
    try lab.start(prefix: self.bus.prefix)
    try self.bus.publishModem()
    try waitUntil("it is heard") {
      try lab.link("ppp0").medium == (isMute ? "unknown" : "cellular")
    }
    let process = try #require(lab.connd).processIdentifier
    try waitUntil("nothing is due: \(IdleScenario.due(process))", within: .seconds(60)) {
      IdleScenario.due(process).isEmpty
    }
  }

  @Test("T3 technology and roaming are shown, but not published")
  func roaming() throws {
    let lab = try self.dialled()
    try self.bus.tell(
      #"{"set": ["Modem/0", "Modem.Modem3gpp", {"RegistrationState": ["u", 5]}]}"#)
    try self.bus.tell(#"{"set": ["Modem/0", "Modem", {"AccessTechnologies": ["u", 32]}]}"#)
    try waitUntil("it roams in 3G") {
      try lab.link("ppp0").modem
        == .init(connected: true, suspended: false, technology: "3G", roaming: true)
    }
    try lab.namespace.ip("link set ppp0 down")
    #expect(try lab.event().to == "none", "the first since")
  }

  @Test("K10 a modem goes to 2G and back → ultra-constrained, then not")
  func slow() throws {
    let lab = try self.dialled()
    try self.bus.tell(#"{"set": ["Modem/0", "Modem", {"AccessTechnologies": ["u", 2]}]}"#)
    #expect(try lab.event().event == "path")
    #expect(try lab.connctl("is", "ultra").status == 0)
    #expect(try lab.connctl("status").output.contains("ultra-constrained"))
    try self.bus.tell(#"{"set": ["Modem/0", "Modem", {"AccessTechnologies": ["u", 16384]}]}"#)
    #expect(try lab.event().event == "path")
    #expect(try lab.connctl("is", "not-constrained").status == 0)
  }

  @Test("D7 a connected modem's signal and byte counts are shown, and cause no reading")
  func signal() throws {
    let lab = try self.dialled()
    let before = try lab.statistics()
    try self.bus.tell(#"{"idle": ["Modem/0", "Bearer/0", 67]}"#)
    try waitUntil("the last is shown") { try lab.link("ppp0").modem?.signalQuality == 67 }
    #expect(try lab.connctl("links").output.contains("4G signal 67%"))
    #expect(try lab.connctl("explain").output.contains("4G, signal 67%"))
    let after = try lab.statistics()
    #expect(after.readings == before.readings)
    #expect(after.published == before.published)
    // A modem that is not connected has a signal, but not one of this link.
    try self.bus.tell(#"{"set": ["Bearer/0", "Bearer", {"Connected": ["b", false]}]}"#)
    try waitUntil("it is not shown") { try lab.link("ppp0").modem?.signalQuality == nil }
    try lab.namespace.ip("link set ppp0 down")
    #expect(try lab.event().to == "none", "the first since")
  }

  @Test("D7 a modem's location and other irrelevant signals do not wake connd")
  func others() throws {
    let lab = try self.dialled()
    let process = try #require(lab.connd).processIdentifier
    func tell() throws {
      // The service answers each command before the next, so that connd would have time to wake.
      for _ in 1...100 {
        try self.bus.tell(
          #"{"set": ["Modem/0", "Modem.Location", {"Location": ["a{uv}", {}]}]}"#)
      }
    }
    // Work left over from the start is done after the first batch.
    try tell()
    let before = IdleScenario.waits(process)
    try tell()
    #expect(IdleScenario.waits(process) - before < 20)
    try self.bus.tell(#"{"idle": ["Modem/0", "Bearer/0", 7]}"#)
    try waitUntil("it is heard still") { try lab.link("ppp0").modem?.signalQuality == 7 }
  }

  @Test("K3 a suspended bearer carries no traffic for the moment → none")
  func suspended() throws {
    let lab = try self.dialled()
    try self.bus.tell(#"{"set": ["Bearer/0", "Bearer", {"Suspended": ["b", true]}]}"#)
    let loss = try lab.event()
    #expect(loss.to == "none" && loss.cause?.change == "modemSuspended")
    #expect(loss.status.ipv4.status == "requiresConnection")
    #expect(loss.status.ipv4.reason == "suspended")
    try self.bus.tell(#"{"set": ["Bearer/0", "Bearer", {"Suspended": ["b", false]}]}"#)
    let gain = try lab.event()
    #expect(gain.to == "cellular" && gain.cause?.change == "modemResumed")
  }

  @Test(
    "I4 a modem re-dials → another bearer, address and link, which are cellular again")
  func dialsAgain() throws {
    let lab = try self.dialled()
    try lab.ip("link del ppp0")
    #expect(try lab.event().to == "none")
    try self.bus.tell(
      """
      {"publish": {"Bearer/1": {"Bearer": {"Interface": ["s", "ppp0"], "Connected": ["b", true]}}},
       "set": ["Modem/0", "Modem", {"Bearers": ["ao", ["Bearer/1"]]}], "withdraw": ["Bearer/0"]}
      """)
    try lab.addLink("ppp0", "198.51.100.2")
    try lab.ip("route add default via 198.51.100.1 metric 100")
    try waitUntil("it is cellular") { try lab.status().category == "cellular" }
    #expect(try lab.link("ppp0").modem == Self.home)
    #expect(try lab.status().ipv4.source == "198.51.100.2")
  }

  @Test(
    "I0 a connection survives when its link turns out to be a modem's, and through a suspension")
  func connectionLives() throws {
    let lab = try self.laboratory()
    try lab.outside.ip("address add \(Uplinks.server)/32 dev lo")
    try self.bus.startBus()
    try self.bus.startService()
    try lab.start(prefix: self.bus.prefix)
    let flow = try GuardedFlow(lab, to: Uplinks.server)
    try self.bus.publishModem()
    #expect(try lab.event().to == "cellular")
    for (suspended, category) in [(true, "none"), (false, "cellular")] {
      try self.bus.tell(
        #"{"set": ["Bearer/0", "Bearer", {"Suspended": ["b", \#(suspended)]}]}"#)
      #expect(try lab.event().to == category)
    }
    try flow.expectAlive(in: lab, on: "ppp0", advised: ["interfaceLost"])
  }
}
