import TestKit
import TestTraits
import Testing

/// IPv6-only networks: real translators, and the end of translated connections.
@Suite(
  "Translated IPv4", .needsNamespaces, .blocking,
  .enabled(if: TunDevice.isAvailable, "/dev/net/tun may not be opened here"))
struct TranslationScenario {
  typealias Form = TranslatedNetwork.Form

  @Test(
    "K9 IPv4 is translated → it works, and has the medium of the link below, without a guess",
    arguments: Form.allCases)
  func named(form: Form) throws {
    let network = try TranslatedNetwork(form)
    let flow = try network.guardedFlow()
    #expect(flow.connection?.carries(within: .seconds(10)) == true)
    let status = try network.lab.status()
    #expect(status.category == "wifi" && status.ipv4.source == TranslatedNetwork.source)
    #expect(status.ipv4.chain == (form == .link ? ["clat", "wlan0"] : ["wlan0"]))
    let text = try network.lab.connctl("status").output
    #expect(text.contains("translated") && text.contains("IPv4"))
    let explanation = try network.lab.connctl("explain", TranslatedNetwork.server).output
    #expect(explanation.contains(", translated IPv4"), "\(explanation)")
    #expect(!explanation.contains("guess") && !explanation.contains("a tunnel"))
    #expect(try network.lab.connctl("links").output.contains("translated IPv4"))
  }

  @Test(
    "K9 I1 an idle connection's prefix is replaced → destroyed, and the next connection works",
    arguments: Form.allCases)
  func replaced(form: Form) throws {
    let network = try TranslatedNetwork(form, grace: "60s")
    let flow = try network.guardedFlow()
    #expect(flow.connection?.carries(within: .seconds(10)) == true)
    try network.routePrefix(of: "b")
    try network.lab.namespace.ip("address add 2001:db8:b::2/64 dev wlan0 nodad")
    try network.lab.awaitEvaluation()
    try network.forgetPrefix(of: "a")
    try network.lab.namespace.ip("address del 2001:db8:a::2/64 dev wlan0")
    // Clients of the stream learn this, too, and nothing about other connections.
    let watcher = try #require(network.lab.watcher)
    var told: InvalidationReport
    repeat { told = try watcher.nextInvalidation() } while told.scope.family == "ipv6"
    #expect("\(told.severity) \(told.reason)" == "destroy sourceAddressLost")
    #expect(told.scope.localAddresses == [TranslatedNetwork.source])
    #expect(told.cause.change == "addressRemoved")
    try flow.expectDestroyed("sourceAddressLost", cause: "addressRemoved")
    try network.translate(by: "b")
    let next = try network.guardedFlow()
    #expect(next.connection?.carries(within: .seconds(10)) == true)
  }

  @Test(
    "K9 I1 I10 the last prefix is lost → advised, and destroyed at the end of the grace period",
    arguments: Form.allCases)
  func lost(form: Form) throws {
    let network = try TranslatedNetwork(form)
    let flow = try network.guardedFlow()
    try network.forgetPrefix(of: "a")
    try network.lab.namespace.ip("address del 2001:db8:a::2/64 dev wlan0")
    #expect(try network.lab.event().to == "none")
    #expect(try network.lab.status().ipv4.reason == "noSourceAddress")
    try flow.expectDestroyed(
      "sourceAddressLost", after: ["advise sourceAddressLost"], cause: "graceEnded")
  }

  @Test(
    "K9 I10 the prefix comes back within the grace period → nothing is destroyed",
    arguments: Form.allCases)
  func comesBack(form: Form) throws {
    let network = try TranslatedNetwork(form, grace: "20s")
    let flow = try network.guardedFlow()
    try network.lab.namespace.ip("address del 2001:db8:a::2/64 dev wlan0")
    try flow.expectAdvice("sourceAddressLost")
    // A temporary address is in the prefix, too.
    try network.lab.namespace.ip("address add 2001:db8:a::2/64 dev wlan0 nodad")
    try network.lab.events { $0.to == "wifi" }
    try flow.expectSpared { try self.end(network) }
  }

  @Test(
    "K9 I0 a second prefix, another address, and another router of the prefix → a connection lives",
    arguments: Form.allCases)
  func lives(form: Form) throws {
    let network = try TranslatedNetwork(form, grace: "20s")
    let flow = try network.guardedFlow()
    let host = network.lab.namespace
    try host.ip("address add 2001:db8:b::2/64 dev wlan0 nodad")
    try host.ip("address add 2001:db8:a::7/64 dev wlan0 nodad")
    try network.lab.outside.ip("address add fe80::2/64 dev wlan0 nodad")
    try host.ip("-6 route replace default via fe80::2 dev wlan0")
    try flow.expectSpared { try self.end(network) }
  }

  /// Replaces all prefixes.
  private func end(_ network: TranslatedNetwork) throws {
    try network.lab.namespace.ip("address add 2001:db8:c::2/64 dev wlan0 nodad")
    try network.lab.namespace.ip("address del 2001:db8:a::2/64 dev wlan0")
    _ = try? network.lab.namespace.ip("address del 2001:db8:a::7/64 dev wlan0")
  }

  @Test(
    "K9 E2 the next router does not know the connection → destroyed as silent, as outside tunnels",
    arguments: Form.allCases)
  func silent(form: Form) throws {
    let network = try TranslatedNetwork(form)
    let flow = try network.guardedFlow()
    #expect(flow.connection?.carries(within: .seconds(10)) == true)
    try network.lab.outside.ip("address add fe80::2/64 dev wlan0 nodad")
    try network.loseAnswers()
    try network.lab.namespace.ip("-6 route replace default via fe80::2 dev wlan0")
    #expect(flow.connection?.send() == true)
    try flow.expectDestroyed("silent", after: ["advise silent"])
  }
}
