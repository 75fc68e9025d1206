import Glibc
import TestKit
import Testing

/// What NetworkManager and the leases of systemd-networkd say of links' costs.
@Suite("Metering", .needsNamespaces, .laboratory, .timeLimit(.minutes(5)))
struct MeteringScenario {
  private func laboratory() throws -> Laboratory {
    let lab = try Laboratory(configuration: "links: [{match: \"eth*\", medium: wired}]")
    try lab.addLink("eth0", "192.0.2.2")
    try lab.namespace.ip("route add default via 192.0.2.1")
    return lab
  }

  private func cost(_ lab: Laboratory) throws -> String {
    let explanation: ExplanationReport = try decode(try lab.connctl("explain", "--json").output)
    return explanation.cost.map { "\($0.metering) \($0.source)" } ?? "none"
  }

  @Test(
    "I8 what NetworkManager says of a device is evidence, and holds on while it is started anew")
  func networkManager() throws {
    let bus = try NetworkManagerBus()
    let lab = try self.laboratory()
    try lab.start(prefix: bus.prefix)
    #expect(try self.cost(lab) == "guessNo none")
    let flow = try GuardedFlow(lab, "198.51.100.9", arguments: ["--forbid-expensive"])

    try bus.startService()
    try bus.tell(#"{"device": [1, {"Interface": "eth0", "IpInterface": "", "Metered": 3}]}"#)
    let event = try lab.event()
    #expect(event.event == "path" && event.status.expensive)
    #expect(event.cause?.trigger == "metering" && event.cause?.change == "meteringChanged")
    #expect(try self.cost(lab) == "guessYes networkManager")
    #expect(try flow.invalidation().reason == "policy")
    #expect(try lab.connctl("explain").output.contains("guess yes: NetworkManager says so"))

    // A stranger says otherwise, and then NetworkManager itself something that makes no difference.
    try bus.tell(#"{"forge": [1, {"Metered": 2}]}"#)
    try bus.tell(#"{"set": [1, {"Metered": 1}]}"#)
    try waitUntil("it is certain") { try self.cost(lab) == "yes networkManager" }
    try bus.killService()
    #expect(try self.cost(lab) == "yes networkManager")
    // One that has just started says nothing of a device at first.
    try bus.startService()
    try bus.tell(#"{"device": [1, {"Interface": "eth0", "IpInterface": "", "Metered": 0}]}"#)
    try bus.tell(#"{"device": [2, {"Interface": "eth1", "IpInterface": "", "Metered": 1}]}"#)
    #expect(try self.cost(lab) == "yes networkManager")
    #expect(try lab.status().expensive)
    try bus.tell(
      #"{"device": [7, {"Interface": "cdc-wdm0", "IpInterface": "eth0", "Metered": 2}]}"#)
    let free = try lab.event()
    #expect(!free.status.expensive && free.cause?.change == "meteringChanged")
    #expect(try self.cost(lab) == "no networkManager")
    try bus.tell(#"{"set": [7, {"Metered": 1}]}"#)
    #expect(try lab.event().status.expensive)

    // The user's switch beats it, and the configuration that.
    #expect(try lab.connctl("expensive", "eth0", "off").status == 0)
    #expect(try !lab.event().status.expensive)
    #expect(try self.cost(lab) == "no user")
    #expect(try lab.connctl("expensive", "eth0", "auto").status == 0)
    #expect(try lab.event().status.expensive)

    // It ends, and takes its leave of each device; the link stays. The next one guesses before it has a lease, and again.
    try bus.tell(#"{"remove": 7}"#)
    try bus.killService()
    #expect(try self.cost(lab) == "yes networkManager")
    try bus.startService()
    let device = #"{"Interface": "eth0", "IpInterface": "", "Metered": 4, "State": 40}"#
    try bus.tell(#"{"device": [3, \#(device)]}"#)
    #expect(try self.cost(lab) == "yes networkManager")
    try bus.tell(#"{"set": [3, {"Metered": 3}]}"#)
    try waitUntil("it guesses") { try self.cost(lab) == "guessYes networkManager" }
    try bus.tell(#"{"set": [3, {"Metered": 4}]}"#)
    try bus.tell(#"{"set": [3, {"State": 100}]}"#)
    #expect(try !lab.event().status.expensive)
    try bus.tell(#"{"set": [3, {"Metered": 3}]}"#)
    #expect(try lab.event().status.expensive)
    try bus.tell(#"{"remove": 3}"#)
    try bus.killService()
    #expect(try self.cost(lab) == "guessYes networkManager")
    try lab.namespace.ip("link del eth0")
    #expect(try lab.event().to == "none")
    // Another one that has its name, as phones have by USB.
    try lab.addLink("eth0", "192.0.2.2")
    try lab.namespace.ip("route add default via 192.0.2.1")
    #expect(try lab.events { $0.to == "wired" }.last?.status.expensive == false)
    #expect(try self.cost(lab) == "guessNo none")
  }

  @Test("I7 I8 neither its own orderly end nor a connd that is started anew takes its word back")
  func restarts() throws {
    let bus = try NetworkManagerBus()
    let lab = try Laboratory(configuration: "links: [{match: \"eth*\", medium: cellular}]")
    try lab.addLink("eth0", "192.0.2.2")
    try lab.namespace.ip("route add default via 192.0.2.1")
    try bus.startService()
    // As many as on a machine full of containers.
    for number in 100..<180 {
      try bus.tell(
        #"{"device": [\#(number), {"Interface": "veth\#(number)", "IpInterface": "", "Metered": 4}]}"#
      )
    }
    try bus.tell(#"{"device": [200, {"Interface": "eth0", "IpInterface": "", "Metered": 2}]}"#)
    // What the first reading shows is what it says already.
    #expect(try !lab.start(prefix: bus.prefix).expensive)
    #expect(try self.cost(lab) == "no networkManager")
    let flow = try GuardedFlow(lab, "198.51.100.9", arguments: ["--forbid-expensive"])

    #expect(try lab.connd?.terminate() == 0)
    #expect(try !lab.start(prefix: bus.prefix).expensive)
    // As it ends it removes all devices.
    for number in 100..<180 { try bus.tell(#"{"remove": \#(number)}"#) }
    try bus.tell(#"{"remove": 200}"#)
    try bus.killService()
    #expect(try self.cost(lab) == "no networkManager")
    try bus.startService()
    try bus.tell(#"{"device": [1, {"Interface": "eth0", "IpInterface": "", "Metered": 1}]}"#)
    #expect(try lab.event().status.expensive)
    // The first that the flow hears.
    #expect(try flow.invalidation().reason == "policy")
  }

  @Test(
    "a phone that says in its lease that it pays by use makes its link expensive; a replay knows it"
  )
  func lease() throws {
    let lab = try self.laboratory()
    let file = "\(lab.directory.path)/it.recording"
    lab.options = ["--record", file]
    // A directory that connd sees as networkd's, and nobody else does.
    let run = try TemporaryDirectory()
    run.open()
    let mount =
      #"mount --make-rprivate / && mkdir -p /run/systemd && mount --bind "$0" /run/systemd && exec "$@""#
    try lab.start(prefix: ["unshare", "--mount", "sh", "-c", mount, run.path])
    let lines = try RunningCommand([Programs.connctl, "--socket", lab.socket, "watch", "--json"])
    try lines.line { $0.contains("\"snapshot\"") }
    #expect(try self.cost(lab) == "guessNo none")

    // networkd starts, and gets a lease.
    try Command.run(["mkdir", "-p", "\(run.path)/netif/leases"])
    let index = try lab.namespace.run("cat", "/sys/class/net/eth0/ifindex")
      .filter { $0.isNumber }
    let lease = "\(run.path)/netif/leases/\(index)"
    let text = "ADDRESS=192.0.2.2\nVENDOR_SPECIFIC=414e44524f49445f4d455445524544\n"
    try run.write(text, to: "netif/leases/.#new")
    #expect(rename("\(run.path)/netif/leases/.#new", lease) == 0)
    let event = try lab.event()
    #expect(event.event == "path" && event.status.expensive)
    #expect(event.cause?.change == "meteringChanged")
    #expect(try self.cost(lab) == "yes dhcp")
    #expect(try lab.connctl("explain").output.contains("yes: the DHCP server says so"))
    #expect(unlink(lease) == 0)
    #expect(try !lab.event().status.expensive)

    #expect(try lab.connd?.terminate() == 0)
    let replay = try Command.outcome(of: [Programs.connd, "--replay", file])
    #expect(replay.standardError == "")
    let told = replay.output.split(separator: "\n").dropFirst()
    #expect(told.count == 2)
    for line in told { #expect(try lines.nextLine() == String(line)) }
  }
}
