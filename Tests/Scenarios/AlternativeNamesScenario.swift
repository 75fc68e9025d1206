import TestKit
import TestTraits
import Testing

/// Links with several names (`ip link property add … altname`), as udev assigns them.
@Suite("Alternative names", .needsNamespaces, .blocking)
struct AlternativeNamesScenario {
  private static let long = "a-name-longer-than-fifteen-bytes"

  private func laboratory(_ configuration: String = "") throws -> Laboratory {
    let lab = try Uplinks.laboratory(["eth0", "eth1"], configuration: configuration)
    try lab.namespace.ip("link property add dev eth0 altname uplink altname \(Self.long)")
    return lab
  }

  @Test(
    "K5 a configuration rule matches any name of a link, even one added later")
  func configuration() throws {
    let lab = try Laboratory(
      configuration: "links: [{match: \"up*\", medium: cellular, constrained: true}]")
    try lab.addLink("eth0", "192.0.2.2")
    try lab.namespace.ip("route add default via 192.0.2.1")
    let status = try lab.start()
    #expect(status.medium != "cellular" && !status.constrained)
    try lab.ip("link property add dev eth0 altname uplink")
    let event = try lab.event()
    #expect(event.status.medium == "cellular" && event.status.constrained)
    // The alternative name becomes the link's own name, and the former one an alternative.
    try lab.ip("link property del dev eth0 altname uplink")
    #expect(try !lab.event().status.constrained)
  }

  @Test("constrain, wait and guard accept any name of a link; explain and links show all names")
  func commands() throws {
    let lab = try self.laboratory()
    try lab.start()
    for name in ["uplink", Self.long] {
      #expect(try lab.connctl("is", "online", "--via", name).status == 0)
      #expect(try lab.connctl("wait", "online", "--via", name, "--timeout", "5s").status == 0)
      #expect(try lab.connctl("constrain", name, "on").status == 0)
      #expect(try lab.event().status.constrained)
      #expect(try lab.connctl("is", "constrained", "--via", "eth0").status == 0)
      // Any of its names will do.
      #expect(try lab.connctl("constrain", "eth0", "auto").status == 0)
      #expect(try !lab.event().status.constrained)
    }
    #expect(try lab.connctl("constrain", "eth0", "on").status == 0)
    #expect(try lab.event().status.constrained)
    #expect(try lab.connctl("forget", "uplink").status == 0)
    #expect(try !lab.event().status.constrained)
    #expect(try lab.connctl("is", "online", "--via", "nothing").status == 1)
    for command in ["links", "explain"] {
      let text = try lab.connctl(command).output
      #expect(text.contains("alias uplink \(Self.long)"), "\(text)")
      let json = try lab.connctl(command, "--json").output
      #expect(json.contains("\"alternativeNames\": [\"uplink\", \"\(Self.long)\"]"), "\(json)")
    }
    let flow = try GuardedFlow(
      lab, Uplinks.server, arguments: ["--interface", "uplink"])
    #expect(flow.path.interface == "eth0")
  }

  @Test("a link with very many names still works, and so do the others")
  func many() throws {
    let lab = try self.laboratory()
    try lab.start()
    let name = String(repeating: "n", count: 120)
    for first in stride(from: 0, to: 400, by: 100) {
      let names = (first..<first + 100).map { "altname \(name)\($0)" }
      try lab.namespace.ip("link property add dev eth0 \(names.joined(separator: " "))")
    }
    try lab.ip("route del default via 10.0.0.1 dev eth0")
    var event = try lab.event()
    while event.status.interface != "eth1" { event = try lab.event() }
    #expect(try lab.connctl("is", "online", "--via", "eth1").status == 0)
    #expect(try lab.connctl("stats", "--json").output.contains("\"kernelLosses\": 0"))
  }
}
