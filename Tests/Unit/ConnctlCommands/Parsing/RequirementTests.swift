import ArgumentParser
import Connectivity
import Testing

@testable import ConnctlCommands

@Suite("Conditions with a family and a link")
struct RequirementTests {
  /// IPv4 over wlan0, and IPv6 over vlan10 on bond0 on eth0, which is expensive.
  private static let both = ConnectivityStatus(ipv4: .wlan, ipv6: .stack, preferred: .ipv4)

  private static func requirement(_ arguments: String) throws -> Requirement {
    let command = try Connctl.parseAsRoot(["is"] + arguments.split(separator: " ").map(String.init))
    let ask = try #require(command as? IsCommand)
    return ask.traffic.requirement(try Condition.reading(ask.condition))
  }

  @Test(
    "--family and --via narrow the condition",
    arguments: [
      ("online", true), ("wired", false), ("metered", false),
      ("online --family ipv4", true), ("wired --family ipv6", true), ("wifi --family ipv6", false),
      ("metered --family ipv6", true), ("not-metered --family ipv4", true),
      ("online --via wlan0", true), ("online --via eth0", true), ("online --via bond0", true),
      ("online --via eth1", false), ("wired --via wlan0", false), ("wired --via eth0", true),
      ("ipv6 --via eth0", true), ("not-ipv6 --via eth0", false), ("ipv6 --via wlan0", false),
      ("not-ipv6 --via wlan0", true), ("metered --via eth0", true),
      ("not-metered --via eth0", false), ("none --via eth0", false), ("none --via eth1", true),
      ("not-online --via eth1", true), ("none --via wlan0 --family ipv6", true),
      ("online --via wlan0 --family ipv6", false), ("online --via eth0 --family ipv6", true),
    ])
  func narrowed(arguments: String, holds: Bool) throws {
    #expect(try Self.requirement(arguments).holds(for: Self.both) == holds)
  }

  @Test("a link without traffic does not satisfy --via")
  func deadLink() throws {
    var path = KernelPath.wlan
    path.status = .unsatisfied
    path.reason = .noCarrier
    let status = ConnectivityStatus(ipv4: path, ipv6: .unsatisfied(.noRoute), preferred: .ipv4)
    #expect(try Self.requirement("online --via wlan0").holds(for: status) == false)
    #expect(try Self.requirement("none --family ipv6").holds(for: status))
  }

  @Test("I8 no known cost, or no path → neither metered nor not-metered holds")
  func unknownCost() throws {
    var path = KernelPath.wlan
    path.costsMoney = nil
    let status = ConnectivityStatus(ipv4: path, ipv6: .unsatisfied(.noRoute), preferred: .ipv4)
    let none = ConnectivityStatus(
      ipv4: .unsatisfied(.noRoute), ipv6: .unsatisfied(.noRoute), preferred: .ipv4)
    for words in ["metered", "not-metered", "expensive", "not-expensive"] {
      for status in [
        status, none, ConnectivityStatus(ipv4: .unknown, ipv6: .unknown, preferred: .ipv4),
      ] {
        #expect(try Self.requirement(words).holds(for: status) == false)
      }
      let choice = words.hasPrefix("not-") ? "off" : "on"
      let obstacle = try Self.requirement(words).obstacle(in: status)
      #expect(
        obstacle.text
          == "wifi via wlan0, cost unknown: decide it with “connctl metered wlan0 \(choice)”")
      #expect(obstacle.needsDecision)
      // The cost may be known once there is a path.
      #expect(try !Self.requirement(words).obstacle(in: none).needsDecision)
    }
    #expect(try Self.requirement("not-constrained").holds(for: status))
  }

  @Test(
    "the error says what is missing",
    arguments: [
      ("wired", "wifi via wlan0"), ("online --via eth1", "traffic uses wlan0"),
      ("wired --via wlan0", "wifi via wlan0"),
    ])
  func missing(arguments: String, words: String) throws {
    #expect(try Self.requirement(arguments).obstacle(in: Self.both) == .init(text: words))
  }

  @Test("V1 validated is not checked → the source that decides it, and the network's portal")
  func unchecked() throws {
    var status = Self.both
    let only = ": only NetworkManager's connectivity check decides it"
    let validated = try Self.requirement("validated")
    let unchecked = Condition.Obstacle(
      text: "wifi via wlan0, not checked\(only)", needsDecision: true)
    #expect(validated.obstacle(in: status) == unchecked)
    let portal = KernelPath.Validation(.unknown, .routerAdvertisement, portal: "https://a/")
    (status.ipv4.validation, status.ipv6.validation) = (portal, portal)
    #expect(
      validated.obstacle(in: status).text == "wifi via wlan0, not checked, has a portal\(only)")
    (status.ipv4.validation.state, status.ipv6.validation.state) = (.portal, .portal)
    #expect(validated.obstacle(in: status) == .init(text: "wifi via wlan0, captive portal"))
  }

  @Test("the description has the family and the link")
  func description() throws {
    let requirement = try Self.requirement("online --via eth0 --family ipv6")
    #expect("\(requirement)" == "online by ipv6 via eth0")
    #expect(throws: (any Error).self) { try Self.requirement("online --family ipv5") }
    #expect(throws: (any Error).self) { try Self.requirement("online --via=") }
  }
}
