import Glibc
import TestKit
import Testing

/// ModemManager or the bus fails, or says nonsense.
extension ModemsScenario {
  @Test(
    "K5 ModemManager exits → the link stays a modem's; it is back → the link is recognised again")
  func serviceKilled() throws {
    let lab = try self.dialled()
    try self.bus.killService()
    try waitUntil("it is not connected any more") {
      try lab.link("ppp0").modem?.connected == false
    }
    #expect(try lab.status().category == "cellular")
    try self.bus.startService()
    try self.bus.publishModem()
    try waitUntil("it is connected") { try lab.link("ppp0").modem == Self.home }
    try lab.namespace.ip("link set ppp0 down")
    #expect(try lab.event().to == "none", "the first since")
  }

  @Test("K5 a bus that disappears, and one that appears later, are found with the next link change")
  func busKilled() throws {
    let lab = try self.laboratory()
    #expect(try lab.start(prefix: self.bus.prefix).category == "other")
    try self.bus.startBus()
    try self.bus.startService()
    try self.bus.publishModem()
    try lab.namespace.ip("link set ppp0 mtu 1400")
    #expect(try lab.event().to == "cellular")

    try self.bus.killBus()
    try self.bus.killService()
    try waitUntil("it is not connected any more") {
      try lab.link("ppp0").modem?.connected == false
    }
    try self.bus.startBus()
    try self.bus.startService()
    try self.bus.publishModem()
    try lab.namespace.ip("link set ppp0 mtu 1300")
    try waitUntil("it is connected") { try lab.link("ppp0").modem == Self.home }
    try lab.namespace.ip("link set ppp0 down")
    #expect(try lab.event().to == "none", "the first since")
  }

  @Test("I7 connd restarts → the link keeps its medium until ModemManager has answered")
  func restart() throws {
    let lab = try self.dialled()
    let before = try lab.status()
    #expect(try #require(lab.connd).terminate() == 0)
    try self.bus.tell(#"{"mute": true}"#)
    try lab.startConnd(prefix: self.bus.prefix)
    let after = try lab.status()
    #expect(after.category == "cellular" && after.generation == before.generation)
  }

  @Test("D1 ModemManager or the bus never answers → connd does not wait")
  func silence() throws {
    let lab = try self.laboratory()
    try self.bus.startBus()
    try self.bus.startService()
    try self.bus.tell(#"{"mute": true}"#)
    #expect(try lab.start(prefix: self.bus.prefix).category == "other")
    // Its signals are received, but its replies never come.
    try self.bus.publishModem()
    try lab.ip("link set ppp0 down")
    #expect(try lab.event().to == "none")
    #expect(try lab.link("ppp0").modem == nil)
    #expect(try #require(lab.connd).terminate() == 0)
    try self.bus.killBus()

    let silent = try RunningCommand([
      "/usr/bin/python3", "-c",
      """
      import socket, sys, time
      listener = socket.socket(socket.AF_UNIX)
      listener.bind(sys.argv[1])
      listener.listen()
      print("listens", flush=True)
      accepted = [listener.accept() for _ in range(2)]
      """, self.bus.socket,
    ])
    #expect(try silent.nextLine() == "listens")
    try lab.startConnd(prefix: self.bus.prefix)
    try lab.ip("link set ppp0 up")
    #expect(try lab.connctl("explain").status == 0)
  }

  @Test("D8 ModemManager sends nonsense, or too much → connd uses what is valid")
  func nonsense() throws {
    let lab = try self.laboratory()
    try self.bus.startBus()
    try self.bus.startService()
    try lab.start(prefix: self.bus.prefix)
    try self.bus.tell(#"{"bearers": ["Modem/7", 10000]}"#)
    try self.bus.tell(
      """
      {"publish": {
        "Bearer/20000": {"Bearer": {"Interface": ["ay", [1, 2]], "Connected": ["s", "yes"], "Suspended": ["d", 1.5]}},
        "Modem/0": {"Modem": {"AccessTechnologies": ["ao", []], "Bearers": ["ao", ["Bearer/20000", "Bearer/20001"]]},
          "Modem.Modem3gpp": {"RegistrationState": ["b", true]}}}}
      """)
    try self.bus.tell(#"{"withdraw": ["Modem/7"]}"#)
    try self.bus.tell(
      #"{"set": ["Bearer/20000", "Bearer", {"Interface": ["s", "../../x"], "Connected": ["u", 1]}]}"#
    )
    try self.bus.tell(
      #"{"set": ["Bearer/20000", "Bearer", {"Interface": ["s", "ppp0"], "Connected": ["b", true]}]}"#
    )
    let told = try lab.event()
    #expect(told.to == "cellular" && told.cause?.change == "modemConnected")
    #expect(
      try lab.link("ppp0").modem
        == .init(connected: true, suspended: false, technology: nil, roaming: false))
  }

  @Test("D8 signals of other bus clients are not taken for ModemManager's")
  func forged() throws {
    let lab = try self.dialled()
    try self.bus.tell(#"{"forge": ["Bearer/0", "Bearer", {"Suspended": ["b", true]}]}"#)
    try self.bus.tell(#"{"set": ["Modem/0", "Modem", {"AccessTechnologies": ["u", 32768]}]}"#)
    try waitUntil("it has heard both") { try lab.link("ppp0").modem?.technology == "5G" }
    #expect(try lab.status().category == "cellular")
    #expect(try lab.link("ppp0").modem?.suspended == false)
  }
}
