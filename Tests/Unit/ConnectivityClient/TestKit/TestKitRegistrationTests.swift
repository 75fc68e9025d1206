import Connectivity
import ConnectivityProtobuf
import ConnectivityProtocol
import ConnectivityTestKit
import GRPCCore
import Testing

@testable import ConnectivityClient
@testable import ConnectivityMonitor

@Suite("Test kit: registrations", .timeLimit(.minutes(5)), .namesWaits)
struct TestKitRegistrationTests {
  private static let remotes = ["127.0.0.1", "::1", "198.18.0.80", "2001:db8:80::1"]

  @Test("I2 I9 a link went down while connd was away → its flow lost its interface")
  func linkDownMeanwhile() async throws {
    for (networks, line) in [
      ([.wifi.failing(.linkDown), .cellular], "1 interfaceLost destroy"),
      ([.wired, .wifi], "1 betterPath destroy"),
    ] as [([NetworkConditions], String)] {
      try await withSimulatedNetwork(.wifi) { network in
        let flows = FlowGuard(socket: network.socket)
        #expect(await flows.add("198.18.0.80") == "1 path wlan0")
        await network.stop()
        network.become(networks)
        try await network.start()
        #expect(await flows.nextLine() == "disconnected")
        #expect(await flows.nextLine() == "resumed")
        // The guard sends the address and the path that it last received.
        #expect(await flows.nextLine() == line)
      }
    }
  }

  @Test("I3 a flow bound to a link does not follow the default path", arguments: remotes)
  func bound(remote: String) async throws {
    try await withSimulatedNetwork(.wifi, .wifi.on("wlan1")) { network in
      let flows = FlowGuard(socket: network.socket)
      #expect(await flows.add(remote, id: 1) == "1 path wlan0")
      #expect(await flows.add(remote, id: 2, on: "wlan0") == "2 path wlan0")
      #expect(await flows.add(remote, id: 3, on: "wlan1") == "3 path wlan1")
      network.become(.wifi.on("wlan1"), .wifi)
      #expect(await flows.nextLine() == "1 betterPath destroy")
      #expect(network.guardedFlows.map(\.path.interface) == ["wlan0", "wlan1"])
      network.become(.wifi.on("wlan1"))
      #expect(await flows.nextLine() == "2 interfaceLost destroy")
      #expect(network.guardedFlows.map(\.id) == [3])
    }
  }

  @Test(
    "I5 the category changes → a bound flow whose own way stands is not affected",
    arguments: remotes)
  func boundBesideCellular(remote: String) async throws {
    try await withSimulatedNetwork(.wifi, .cellular) { network in
      let flows = FlowGuard(socket: network.socket)
      #expect(await flows.add(remote, on: "wlan0") == "1 path wlan0")
      network.become(.cellular, .wifi)
      #expect(network.snapshot.status.category == .cellular)
      #expect(network.guardedFlows.map(\.path.status) == [.satisfied])
      #expect(network.guardedFlows.map(\.path.interface) == ["wlan0"])
      // Nothing was reported before this.
      network.become(.cellular)
      #expect(await flows.nextLine() == "1 interfaceLost destroy")
    }
  }

  @Test("I7 after connd was away, a bound flow is judged by its own link", arguments: remotes)
  func boundMeanwhile(remote: String) async throws {
    try await withSimulatedNetwork(.wifi, .wifi.on("wlan1")) { network in
      let flows = FlowGuard(socket: network.socket)
      #expect(await flows.add(remote, on: "wlan0") == "1 path wlan0")
      await network.stop()
      network.become(.wifi.on("wlan1"), .wifi)
      try await network.start()
      #expect(await flows.nextLine() == "disconnected")
      #expect(await flows.nextLine() == "resumed")
      #expect(await flows.nextLine() == "1 path wlan0")
    }
  }

  @Test(
    "I7 a route was lost for a while → a flow registered afterwards is dead only if it needs the gateway",
    arguments: [
      ("198.18.0.80", "0 interfaceLost destroy"), ("192.0.2.80", "0 path wlan0"),
      ("2001:db8:80::1", "0 interfaceLost destroy"), ("2001:db8:1::80", "0 path wlan0"),
    ])
  func offLink(remote: String, line: String) async throws {
    try await withSimulatedNetwork(.wifi, clock: StoppedClock()) { network in
      network.become(.wifi.failing(.noRoute))
      network.advance(by: .seconds(1))
      network.become(.wifi)
      let event = try await Self.answer(
        of: network,
        to: .with { ($0.remote, $0.sinceGeneration) = (remote, 1) })
      #expect(event.map { GuardEvent.flow(id: 0, generation: 0, $0).line } == line)
    }
  }

  @Test("I7 one family's network changed → flows of the other family are not affected")
  func otherFamily() async throws {
    for (remote, line) in [
      ("198.18.0.80", "0 path wlan0"), ("2001:db8:80::1", "0 sourceAddressLost destroy"),
    ] {
      try await withSimulatedNetwork(.wifi, clock: StoppedClock()) { network in
        let ipv6 = NetworkConditions.Attachment("2001:db8:9::7/64", gateway: "fe80::1")
        network.become(.wifi.addressed(ipv4: NetworkConditions.wifi.ipv4, ipv6: ipv6))
        network.advance(by: .seconds(1))
        let source = IPAddress(remote)?.family == .ipv4 ? "192.0.2.7" : "2001:db8:1::7"
        let event = try await Self.answer(
          of: network,
          to: .with { ($0.remote, $0.local, $0.sinceGeneration) = (remote, source, 1) })
        #expect(event.map { GuardEvent.flow(id: 0, generation: 0, $0).line } == line)
      }
    }
  }

  @Test("I7 a flow over loopback stands for one on the network, whatever its own family")
  func standIn() async throws {
    let wifi = NetworkConditions.wifi
    for (network, remote, source) in [
      (wifi.addressed(ipv6: wifi.ipv6), "127.0.0.1", "2001:db8:1::7"),
      (wifi.addressed(ipv4: wifi.ipv4), "::1", "192.0.2.7"),
    ] {
      try await withSimulatedNetwork(network) { simulated in
        simulated.become(network.named("another"))
        let event = try await Self.answer(
          of: simulated,
          to: .with { ($0.remote, $0.local, $0.sinceGeneration) = (remote, source, 1) })
        let line = event.map { GuardEvent.flow(id: 0, generation: 0, $0).line }
        #expect(line == "0 networkChanged destroy")
      }
    }
  }

  @Test("I0 a link-local flow needs a link, as with connd, and no gateway")
  func linkLocal() async throws {
    try await withSimulatedNetwork(.wifi) { network in
      let flows = FlowGuard(socket: network.socket)
      #expect(
        await flows.add("fe80::80", id: 1)
          == "1 refused add.interface: fe80::80 is link-local: set its interface")
      for (id, conditions) in zip(2..., [NetworkConditions.wifi, .wifi.failing(.noRoute)]) {
        network.become(conditions)
        flows.add(
          .init(remote: try #require(IPAddress("fe80::80")), interface: "wlan0"), id: UInt64(id))
        guard case .flow(UInt64(id), _, .path(let path))? = await flows.next() else {
          Issue.record("no path for \(id)")
          continue
        }
        #expect(path.status == .satisfied)
        #expect(path.interface == "wlan0")
        #expect(path.gateway == nil)
      }
    }
  }

  /// Returns the answer to a registration that the library would not send in this state.
  private static func answer(
    of network: SimulatedNetwork, to flow: Connectivity_V1_Flow
  ) async throws -> FlowEvent? {
    try await withConnd(at: network.socket) { connd in
      try await connd.bidirectionalStreaming(
        request: StreamingClientRequest { try await $0.write(.with { $0.add = flow }) },
        descriptor: ConndMethod.Guard.descriptor,
        serializer: ProtobufSerializer<Connectivity_V1_GuardRequest>(),
        deserializer: ProtobufDeserializer<Connectivity_V1_GuardResponse>(), options: .defaults
      ) { response in
        var messages = response.messages.makeAsyncIterator()
        return try await messages.next().flatMap { try FlowEvent($0) }
      }
    }
  }

  @Test("only routes over the link count")
  func routes() async throws {
    try await withSimulatedNetwork(.wifi, .cellular) { network in
      try network.route("198.18.1.0/24", by: .wired)
      try network.route("198.18.2.0/24", by: .none)
      let flows = FlowGuard(socket: network.socket)
      let cases: [(String, String, KernelPath.Status, link: String?, gateway: String?)] = [
        ("198.18.0.80", "wwan0", .satisfied, "wwan0", "198.51.100.1"),
        // Routes over another link, or to nowhere, do not count for it; the same holds for subnets.
        ("198.18.1.80", "wlan0", .satisfied, "wlan0", "192.0.2.1"),
        ("198.18.2.80", "wlan0", .satisfied, "wlan0", "192.0.2.1"),
        ("198.51.100.80", "wlan0", .satisfied, "wlan0", "192.0.2.1"),
        ("198.18.1.80", "eth0", .satisfied, "eth0", "203.0.113.1"),
        ("192.0.2.80", "wlan0", .satisfied, "wlan0", nil),
        ("192.0.2.7", "wlan0", .satisfied, "lo", nil),
        ("192.0.2.7", "wwan0", .satisfied, "wwan0", "198.51.100.1"),
        ("127.0.0.1", "lo", .satisfied, "lo", nil),
        // Without a route, IPv4 treats every bound destination as a neighbour, and IPv6 has no
        // path.
        ("198.18.0.80", "eth0", .satisfied, "eth0", nil),
        ("2001:db8:80::1", "eth0", .unsatisfied, nil, nil),
      ]
      for (id, (remote, name, status, link, gateway)) in zip(1..., cases) {
        flows.add(
          .init(remote: try #require(IPAddress(remote)), interface: name), id: UInt64(id))
        guard case .flow(UInt64(id), _, .path(let path))? = await flows.next() else {
          Issue.record("\(remote) over \(name)")
          continue
        }
        #expect(path.status == status, "\(remote) over \(name)")
        #expect(path.interface == link, "\(remote) over \(name)")
        #expect(path.gateway?.description == gateway, "\(remote) over \(name)")
      }
    }
  }

  @Test("an unknown link is refused, one that is down leads nowhere")
  func noLink() async throws {
    try await withSimulatedNetwork(.cellular, .wifi) { network in
      let flows = FlowGuard(socket: network.socket)
      #expect(
        await flows.add("127.0.0.1", id: 1, on: "wlan9")
          == "1 refused add.interface: there is no link 'wlan9'")
      network.become(.cellular)
      #expect(await flows.add("198.18.0.80", id: 2, on: "wlan0") == "2 path unsatisfied")
      network.become(.cellular, .wifi)
      #expect(await flows.nextLine() == "2 path wlan0")
    }
  }
}

extension FlowGuard {
  /// Adds a flow bound to a link, and returns connd's first report.
  fileprivate func add(_ remote: String, id: UInt64 = 1, on interface: String) async -> String? {
    guard let remote = IPAddress(remote) else { return nil }
    self.add(
      .init(remote: remote, local: remote.isLoopback ? remote : nil, interface: interface), id: id)
    return await self.nextLine()
  }
}
