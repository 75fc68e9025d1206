import Glibc
import TestKit
import TestTraits
import Testing

/// Users' overrides for links and networks, and what programs receive.
@Suite("Costs", .needsNamespaces, .blocking)
struct CostsScenario {
  /// A line of `connctl networks --json`.
  private struct NetworkReport: Decodable {
    var name: String?
    var identity: String?
    var link: String?
    var medium: String
    var constrained: Bool?
    var expensive: Bool?
    var current: Bool
    var user: UInt32?
  }

  private func networks(_ lab: Laboratory) throws -> [NetworkReport] {
    try lab.connctl("networks", "--json").output.split(separator: "\n").map {
      try decode(String($0))
    }
  }

  /// A laboratory whose routers have answered, so that connd knows them.
  private func laboratory(_ configuration: String = "") throws -> Laboratory {
    let lab = try Uplinks.laboratory(["wlan0", "wwan0"], configuration: configuration)
    for router in ["10.0.0.1", "10.1.0.1"] {
      try lab.namespace.exchange(with: router)
    }
    try lab.start()
    return lab
  }

  @Test(
    "I8 I4 an override for a network is found again later and by another connd, but not on another router's network"
  )
  func network() throws {
    let lab = try self.laboratory()
    let flow = try GuardedFlow(lab, Uplinks.server, arguments: ["--forbid-constrained"])
    #expect(try self.networks(lab).first?.name == "10.0.0.1")
    #expect(try lab.connctl("constrain", "--network", "10.0.0.1", "on").status == 0)
    let event = try lab.event()
    #expect(event.event == "path" && event.status.constrained)
    #expect(event.cause?.change == "constrainedSet" && event.cause?.message == "uid \(getuid())")
    #expect(try flow.invalidation().reason == "policy")
    #expect(try lab.connctl("is", "constrained").status == 0)
    let history = try lab.connctl("history").output
    #expect(history.contains("constrained on wlan0, by "), "\(history)")

    // The override does not apply on the other network, and applies again on this one.
    try lab.ip("link set wlan0 down")
    #expect(try !lab.event().status.constrained)
    try lab.ip("link set wlan0 up")
    try lab.ip("route add default via 10.0.0.1 dev wlan0 metric 100")
    try lab.namespace.exchange(with: "10.0.0.1")
    _ = try lab.events { $0.status.constrained }

    let network = try #require(try self.networks(lab).first)
    #expect(network.constrained == true && network.expensive == nil && network.current)
    let identity = try #require(network.identity)
    try lab.connd?.terminate()
    let file = try Command.run(["cat", "\(lab.directory.path)/connd.networks"])
    #expect(file.contains("network \(identity) ") && !file.contains("10.0.0.1"))
    try lab.startConnd()
    #expect(try lab.status().constrained)

    // By its identity, from any network.
    #expect(try lab.connctl("forget", identity).status == 0)
    #expect(try !lab.status().constrained)
    #expect(try lab.connctl("forget", identity).status == 1)
  }

  @Test("an override for a link, by name and for a time; the configuration takes precedence")
  func link() throws {
    let lab = try self.laboratory()
    #expect(try lab.connctl("expensive", "wlan0", "--for", "1s", "on").status == 0)
    #expect(try lab.event().status.expensive)
    let end = try lab.event()
    #expect(!end.status.expensive && end.cause?.change == "choiceEnded")
    #expect(try self.networks(lab).allSatisfy { $0.link == nil })

    try lab.ip("link set wlan0 down")
    #expect(try lab.event().status.medium == "cellular")
    try lab.configure("links: [{match: wwan0, medium: cellular, expensive: false}]")
    lab.connd?.signal(SIGHUP)
    #expect(try !lab.event().status.expensive)
    let overruled = try lab.connctl("expensive", "wwan0", "on")
    #expect(overruled.status == 0 && overruled.standardError.contains("“wwan0”"), "\(overruled)")
    #expect(try !lab.status().expensive)
  }

  @Test("I8 a network that is named away from it keeps its name, and is one row")
  func named() throws {
    let lab = try self.laboratory()
    let said = try lab.connctl("metered", "--network", "Home", "on")
    #expect(said.status == 0 && said.standardError.contains("the machine is not on “Home” now"))
    #expect(
      said.output
        == "the network “Home” is metered from now on; undo: connctl metered --network Home auto\n")
    func rows() throws -> [Substring] {
      try lab.connctl("networks").output.split(separator: "\n").filter { $0.hasPrefix("Home ") }
    }
    #expect(try rows().count == 1)
    #expect(try rows().first?.hasSuffix("metered") == true)
    try lab.connd?.terminate()
    try lab.startConnd()
    #expect(try rows().count == 1)
    let mode = try Command.run(["stat", "--format=%a", "\(lab.directory.path)/connd.networks"])
    #expect(mode == "600\n")
    #expect(try lab.connctl("forget", "Home").status == 0)
    #expect(try rows().isEmpty)
  }

  @Test("no network is known → connctl networks says so, and constrain how to proceed")
  func unknown() throws {
    let lab = try Uplinks.laboratory(["wlan0"])
    try lab.start()
    let networks = try lab.connctl("networks")
    #expect(networks.status == 0 && networks.output == "")
    #expect(networks.standardError.contains("no network is known"))
    let constrained = try lab.connctl("constrain", "on")
    #expect(constrained.status == 1)
    #expect(
      constrained.standardError.contains(
        "(ping -c 1 10.0.0.1), or name the link: “connctl constrain wlan0 on”"),
      "\(constrained)")
  }

  @Test("I4 a network keeps its identity across restarts of connd, even before any override")
  func identity() throws {
    let lab = try self.laboratory()
    let identity = try #require(try self.networks(lab).first?.identity)
    try lab.connd?.terminate()
    try lab.startConnd()
    #expect(try self.networks(lab).first?.identity == identity)
  }

  @Test("without a name the current network is meant; its override does not apply on another")
  func here() throws {
    let lab = try self.laboratory()
    let marked = try lab.connctl("constrain", "on")
    #expect(
      marked.status == 0
        && marked.output.hasPrefix(
          "this network (10.0.0.1, wlan0) is constrained from now on; undo: "),
      "\(marked)")
    #expect(try lab.event().status.constrained)
    try lab.ip("link set wlan0 down")
    #expect(try !lab.event().status.constrained)
    #expect(try lab.connctl("constrain", "off").status == 0)
    #expect(try self.networks(lab).first { $0.current }?.constrained == false)
    try lab.ip("link set wwan0 down")
    #expect(try lab.connctl("constrain", "off").status == 1)
  }

  @Test("an override that cannot be saved lasts until connd exits, and its user is warned")
  func notKept() throws {
    let lab = try self.laboratory()
    #expect(try lab.connctl("constrain", "wlan0", "on").standardError.isEmpty)
    // Root can write anywhere, but not create a file in place of a directory.
    let obstacle = "\(lab.directory.path)/connd.networks.new"
    #expect(mkdir(obstacle, 0o700) == 0)
    let said = try lab.connctl("expensive", "wlan0", "on")
    #expect(said.status == 0 && said.standardError.contains("until connd exits"), "\(said)")
    #expect(try lab.status().expensive)
    rmdir(obstacle)
    // The next save succeeds.
    #expect(try lab.connctl("expensive", "wlan0", "on").standardError.isEmpty)
    try lab.connd?.terminate()
    try lab.startConnd()
    #expect(try lab.status().expensive && lab.status().constrained)
  }

  @Test(
    "an unauthorized user may not set overrides, but may read them",
    .enabled(if: Users.areMany, "only one user exists here"))
  func refused() throws {
    let lab = try self.laboratory()
    lab.directory.open()
    func asNobody(_ arguments: [String]) throws -> Command.Outcome {
      try Command.outcome(
        of: Programs.asNobody([Programs.connctl, "--socket", lab.socket] + arguments))
    }
    for arguments in [
      ["constrain", "wlan0", "on"], ["expensive", "wlan0", "off"], ["forget", "wlan0"],
    ] {
      let outcome = try asNobody(arguments)
      #expect(outcome.status == 77)
      #expect(outcome.standardError.contains("group “connd”"), "\(outcome)")
    }
    #expect(try asNobody(["networks"]).status == 0)
    #expect(try !lab.status().constrained)
  }
}
