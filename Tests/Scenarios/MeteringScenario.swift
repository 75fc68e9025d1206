import Glibc
import TestKit
import TestTraits
import Testing

/// Costs of links according to NetworkManager and the leases of systemd-networkd.
@Suite("Metering", .needsNamespaces, .blocking)
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
    "I8 NetworkManager's word about a device is evidence, and holds while NetworkManager restarts")
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
    #expect(try lab.connctl("explain").output.contains("probably: NetworkManager says so"))

    // First another bus client claims otherwise, then NetworkManager itself reports something
    // irrelevant.
    try bus.tell(#"{"forge": [1, {"Metered": 2}]}"#)
    try bus.tell(#"{"set": [1, {"Metered": 1}]}"#)
    try waitUntil("it is certain") { try self.cost(lab) == "yes networkManager" }
    try bus.killService()
    #expect(try self.cost(lab) == "yes networkManager")
    // NetworkManager reports nothing about a device right after its start.
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

    // The user's override beats it, and the configuration beats the override.
    #expect(try lab.connctl("expensive", "eth0", "off").status == 0)
    #expect(try !lab.event().status.expensive)
    #expect(try self.cost(lab) == "no user")
    #expect(try lab.connctl("expensive", "eth0", "auto").status == 0)
    #expect(try lab.event().status.expensive)

    // NetworkManager exits and removes each device, while the link stays. Its successor guesses
    // twice: before it has a lease, and after.
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
    // Another link with the same name, as with phones on USB.
    try lab.addLink("eth0", "192.0.2.2")
    try lab.namespace.ip("route add default via 192.0.2.1")
    #expect(try lab.events { $0.to == "wired" }.last?.status.expensive == false)
    #expect(try self.cost(lab) == "guessNo none")
  }

  @Test("I7 I8 neither NetworkManager's orderly exit nor a restart of connd drops its information")
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
    // The first reading already includes NetworkManager's information.
    #expect(try !lab.start(prefix: bus.prefix).expensive)
    #expect(try self.cost(lab) == "no networkManager")
    let flow = try GuardedFlow(lab, "198.51.100.9", arguments: ["--forbid-expensive"])

    #expect(try lab.connd?.terminate() == 0)
    #expect(try !lab.start(prefix: bus.prefix).expensive)
    // On exit it removes all devices.
    for number in 100..<180 { try bus.tell(#"{"remove": \#(number)}"#) }
    try bus.tell(#"{"remove": 200}"#)
    try bus.killService()
    #expect(try self.cost(lab) == "no networkManager")
    try bus.startService()
    try bus.tell(#"{"device": [1, {"Interface": "eth0", "IpInterface": "", "Metered": 1}]}"#)
    #expect(try lab.event().status.expensive)
    // The flow's first invalidation.
    #expect(try flow.invalidation().reason == "policy")
  }

  @Test(
    "a lease marks a phone as metered → its link is expensive, also in a replay"
  )
  func lease() throws {
    let lab = try self.laboratory()
    let file = "\(lab.directory.path)/it.recording"
    lab.options = ["--record", file]
    // A directory that only connd sees as networkd's.
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
