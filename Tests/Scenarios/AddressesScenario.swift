import TestKit
import TestTraits
import Testing

@Suite("Addresses", .needsNamespaces, .blocking)
struct AddressesScenario {
  @Test(
    "K2 the last address is deleted → the default route is lost without a message, and it is noticed"
  )
  func last() throws {
    let lab = try Laboratory()
    try lab.addLink("eth0", "192.0.2.2")
    try lab.namespace.ip("route add default via 192.0.2.1")
    try lab.start()
    try lab.ip("address del 192.0.2.2/24 dev eth0")
    let loss = try lab.event()
    #expect(loss.to == "none")
    #expect(loss.cause?.message == "RTM_DELADDR")
    #expect(loss.cause?.change == "addressRemoved")
    #expect(loss.status.ipv4.reason == "noRoute")
  }

  @Test("K3 a route without a source address → no network")
  func none() throws {
    let lab = try Laboratory()
    try lab.addLink("eth0")
    try lab.start()
    try lab.ip("route add default dev eth0")
    let event = try lab.event()
    #expect(event.event == "path")
    #expect(event.status.category == "none")
    #expect(event.status.flags.connectionRequired)
    #expect(event.status.ipv4.reason == "noSourceAddress")
    #expect(event.status.interface == "eth0")

    try lab.ip("address add 192.0.2.2/24 dev eth0")
    let gain = try lab.event()
    #expect(gain.to == "other")
    #expect(gain.cause?.trigger == "address")
    #expect(gain.status.ipv4.source == "192.0.2.2")
  }

  @Test("T3 another source address of the same prefix → no transition")
  func another() throws {
    let lab = try Laboratory()
    try lab.addLink("eth0", "192.0.2.2")
    try lab.namespace.ip("route add default via 192.0.2.1")
    try lab.start()
    try lab.ip("address add 192.0.2.3/24 dev eth0")
    try lab.ip("route replace default via 192.0.2.1 src 192.0.2.3")
    let event = try lab.event()
    #expect(event.event == "path")
    #expect(event.status.ipv4.source == "192.0.2.3")
  }

  @Test("K7 IPv6 alone is enough")
  func ipv6Only() throws {
    let lab = try Laboratory(ipv6: true)
    try lab.addLink("eth0", ipv6: "2001:db8::2")
    try lab.start()
    try lab.ip("-6 route add default via 2001:db8::1")
    let gain = try lab.event()
    #expect(gain.to == "other")
    #expect(gain.status.interface == "eth0")
    #expect(gain.status.ipv6.source == "2001:db8::2")
    #expect(gain.status.ipv6.gateway == "2001:db8::1")
    #expect(gain.status.ipv4.reason == "noRoute")
    #expect(try lab.connctl("is", "ipv6").status == 0)
    #expect(try lab.connctl("is", "ipv4").status == 1)

    try lab.ip("-6 route del default")
    #expect(try lab.event().to == "none")
  }

  @Test("K7 one of two families is lost → the summary follows the other")
  func dualStack() throws {
    let lab = try Laboratory(ipv6: true)
    try lab.addLink("eth0", "192.0.2.2", ipv6: "2001:db8::2")
    try lab.addLink("eth1", "198.51.100.2", ipv6: "2001:db8:1::2")
    try lab.namespace.ip("route add default via 192.0.2.1")
    try lab.namespace.ip("-6 route add default via 2001:db8:1::1")
    #expect(try lab.start().interface == "eth0")

    try lab.ip("-6 route del default")
    let ipv6 = try lab.event()
    #expect(ipv6.event == "path")
    #expect(ipv6.status.ipv6.status == "unsatisfied")
    try lab.ip("-6 route add default via 2001:db8:1::1")
    #expect(try lab.event().status.ipv6.status == "satisfied")

    // The summary follows the remaining family.
    try lab.ip("route del default")
    let ipv4 = try lab.event()
    #expect(ipv4.status.category == "other")
    #expect(ipv4.status.interface == "eth1")
    #expect(ipv4.status.ipv4.reason == "noRoute")
  }

  @Test("K7 the configuration prefers IPv6")
  func preferIPv6() throws {
    let lab = try Laboratory(ipv6: true, configuration: "prefer: ipv6")
    try lab.addLink("eth0", "192.0.2.2", ipv6: "2001:db8::2")
    try lab.addLink("eth1", "198.51.100.2", ipv6: "2001:db8:1::2")
    try lab.namespace.ip("route add default via 192.0.2.1")
    try lab.namespace.ip("-6 route add default via 2001:db8:1::1")
    #expect(try lab.start().interface == "eth1")
  }

  @Test(
    "I0 I3 the kernel prefers now one, now the other prefix of a router → connections of both live on, even over a deprecated one"
  )
  func fadingPrefix() throws {
    let lab = try Uplinks.laboratory(["eth0"], ipv6: true)
    try lab.outside.ip("address add 2001:db8:f::1/64 dev eth0 nodad")
    try lab.start()
    let flow = try GuardedFlow(lab, to: Uplinks.server6)
    #expect(flow.path.source == "2001:db8:0::2" || flow.path.source == "2001:db8::2")
    // The kernel prefers the newer of two equally good addresses.
    try lab.ip("address add 2001:db8:f::2/64 dev eth0 nodad")
    let other = try lab.events { $0.status.ipv6.source == "2001:db8:f::2" }.last
    #expect(other != nil)
    // RFC 4192 and RFC 9096: the old prefix is announced with a preferred lifetime of 0.
    try lab.namespace.ip(
      "address change 2001:db8:0::2/64 dev eth0 preferred_lft 0 valid_lft 7200")
    try flow.expectSpared { try lab.namespace.ip("address del 2001:db8:0::2/64 dev eth0") }
    let told = try #require(lab.watcher).nextInvalidation()
    #expect(told.severity == "advise" && told.reason == "betterPath")
  }

  @Test("K7 a unique local address alone → satisfied and marked, and IPv4 comes first")
  func uniqueLocal() throws {
    let lab = try Laboratory(ipv6: true, configuration: Uplinks.media + "prefer: ipv6\n")
    try lab.addLink("eth0", "192.0.2.2", ipv6: "fd00:1::2")
    try lab.namespace.ip("-6 route add default via fd00:1::1")
    try lab.namespace.ip("route add default via 192.0.2.1")
    let status = try lab.start()
    #expect(status.ipv6.status == "satisfied" && status.category == "wired")
    #expect(try lab.connctl("explain").output.contains("by probing 17.0.0.1"))
    #expect(
      try lab.connctl("status").output
        .contains("from fd00:1::2 via fd00:1::1, local addresses only"))
    try lab.ip("route del default via 192.0.2.1")
    // A router may translate the address.
    #expect(try lab.event().status.category == "wired")
    #expect(
      try lab.connctl("explain").output.contains("answers arrive only if a router translates it"))
  }

  @Test("K3 a tentative address → no network until it is usable")
  func tentative() throws {
    let lab = try Laboratory(ipv6: true)
    try lab.addLink("eth0", ipv6: "2001:db8::2")
    try lab.namespace.ip("-6 route add default via 2001:db8::1")
    // Enough probes for the detection to outlast the test.
    try lab.namespace.set("net/ipv6/conf/eth0/dad_transmits", "600")
    try lab.start()
    try lab.step("address replaced by a tentative one") {
      try lab.namespace.ip("address add 2001:db8::3/64 dev eth0")
      try lab.namespace.ip("address del 2001:db8::2/64 dev eth0")
    }
    let loss = try lab.events { $0.status.category == "none" }
    #expect(loss.last?.status.ipv6.status == "requiresConnection")
    #expect(loss.last?.status.ipv6.reason == "noSourceAddress")
    #expect(loss.last?.status.interface == "eth0")

    try lab.ip("address add 2001:db8::4/64 dev eth0 nodad")
    // The link-local address may become usable earlier, and with it the source address that the
    // kernel chooses.
    let gain = try lab.events { $0.event == "transition" }
    #expect(gain.last?.to == "other")
    #expect(gain.last?.status.ipv6.source == "2001:db8::4")
  }

  @Test("K3 a duplicate address → no network")
  func duplicate() throws {
    let lab = try Laboratory(ipv6: true)
    try lab.addLink("eth0", ipv6: "2001:db8::2")
    try lab.namespace.ip("-6 route add default via 2001:db8::1")
    try lab.outside.ip("address add 2001:db8::3/64 dev eth0 nodad")
    try lab.start()
    try lab.namespace.ip("address add 2001:db8::3/64 dev eth0")
    try lab.ip("address del 2001:db8::2/64 dev eth0")
    let loss = try lab.events { $0.status.category == "none" }
    #expect(loss.last?.status.ipv6.reason == "noSourceAddress")
    // The kernel has found the duplicate once it reports it; until then the address was tentative.
    try waitUntil("the kernel has found the duplicate") {
      try lab.namespace.ip("-6 address show dev eth0 dadfailed").contains("2001:db8::3")
    }
    try lab.step("detected") {}
    #expect(try lab.status().ipv6.reason == "noSourceAddress")
    #expect(try lab.status().category == "none")

    // The duplicate is gone, so the address can be added again.
    try lab.outside.ip("address del 2001:db8::3/64 dev eth0")
    try lab.namespace.ip("address del 2001:db8::3/64 dev eth0")
    try lab.ip("address add 2001:db8::3/64 dev eth0")
    let gain = try lab.events { $0.status.category == "other" }
    #expect(gain.last?.status.ipv6.source == "2001:db8::3")
  }
}
