import Connectivity
import ConnectivityRules
import ConnectivityProtocol
import ConnectivityTestKit
import GRPCCore
import Testing

@testable import ConnectivityClient
@testable import ConnectivityMonitor

@Suite("Test kit: guarded flows", .timeLimit(.minutes(5)), .namesWaits)
struct TestKitFlowTests {
  private static let remotes = ["127.0.0.1", "::1", "198.18.0.80"]

  @Test(
    "I2, I5 wifi, none, cellular: a flow loses its interface, and a later one begins on the next network",
    arguments: Self.remotes)
  func lost(remote: String) async throws {
    try await withSimulatedNetwork(.wifi) { network in
      let flows = FlowGuard(socket: network.socket)
      #expect(await flows.add(remote) == "1 path wlan0")
      #expect(network.guardedFlows.map(\.remote.description) == [remote])
      network.become(.none)
      #expect(await flows.nextLine() == "1 interfaceLost destroy")
      #expect(network.guardedFlows == [])
      #expect(await flows.add("198.18.0.81", id: 2) == "2 path unsatisfied")
      network.become(.cellular)
      #expect(await flows.nextLine() == "2 path wwan0")
      network.become(.wifi)
      #expect(await flows.nextLine() == "2 interfaceLost destroy")
    }
  }

  @Test(
    "the verdict for a flow on Wi-Fi after each change",
    arguments: [
      ([.cellular], "1 interfaceLost destroy"),
      ([.wifi.named("another")], "1 networkChanged destroy"),
      (
        [.wifi.addressed(ipv4: .init("192.0.2.9/24", gateway: "192.0.2.1"))],
        "1 sourceAddressLost destroy"
      ),
      ([.wired, .wifi], "1 betterPath destroy"),
      ([.wifi.on("wlan1"), .wifi], "1 betterPath destroy"),
      ([.wifi.failing(.noCarrier)], "1 interfaceLost advise"),
      ([.wifi.failing(.noRoute)], "1 interfaceLost advise"),
      ([.wifi.failing(.noRoute), .cellular], "1 interfaceLost drain"),
      ([.wifi.expensive()], "1 path wlan0"),
      ([.unknown], nil),
      ([.wifi, .cellular], nil),
    ] as [([NetworkConditions], String?)])
  func becomes(networks: [NetworkConditions], line: String?) async throws {
    try await withSimulatedNetwork(.wifi, clock: StoppedClock()) { network in
      let flows = FlowGuard(socket: network.socket)
      #expect(await flows.add("127.0.0.1") == "1 path wlan0")
      network.become(networks)
      if let line { #expect(await flows.nextLine() == line) }
      // Nothing else was reported before this.
      network.invalidate(.resumed, .drain)
      if line?.hasSuffix("destroy") != true {
        #expect(await flows.nextLine() == "1 resumed drain")
      } else {
        #expect(network.guardedFlows == [])
      }
    }
  }

  @Test("I10 back in time → nothing is destroyed; the grace period ends → destroyed")
  func grace() async throws {
    try await withSimulatedNetwork(.wifi, clock: StoppedClock()) { network in
      let flows = FlowGuard(socket: network.socket)
      #expect(await flows.add("127.0.0.1") == "1 path wlan0")
      network.become(.wifi.failing(.noCarrier))
      #expect(await flows.nextLine() == "1 interfaceLost advise")
      network.become(.wifi)
      #expect(await flows.nextLine() == "1 path wlan0")
      network.become(.wifi.failing(.noCarrier))
      #expect(await flows.nextLine() == "1 interfaceLost advise")
      network.advance(by: .seconds(1))
      #expect(await flows.nextLine() == "1 interfaceLost destroy")
    }
  }

  @Test("I10 a grace period ends by itself, in real time")
  func realGrace() async throws {
    let policy = InvalidationPolicy(carrierGrace: [.wifi: .milliseconds(30)])
    try await withSimulatedNetwork(.wifi, policy: policy) { network in
      let flows = FlowGuard(socket: network.socket)
      #expect(await flows.add("127.0.0.1") == "1 path wlan0")
      network.become(.wifi.failing(.noCarrier))
      #expect(await flows.nextLine() == "1 interfaceLost advise")
      #expect(await flows.nextLine() == "1 interfaceLost destroy")
    }
  }

  @Test(
    "I10 a route is lost and another link takes over → drain, and destroy after the grace period")
  func takenOver() async throws {
    try await withSimulatedNetwork(.wifi, .cellular, clock: StoppedClock()) { network in
      let flows = FlowGuard(socket: network.socket)
      #expect(await flows.add("127.0.0.1") == "1 path wlan0")
      network.become(.wifi.failing(.noRoute), .cellular)
      #expect(await flows.nextLine() == "1 interfaceLost drain")
      network.become(.wifi, .cellular)
      #expect(await flows.nextLine() == "1 path wlan0")
      network.become(.wifi.failing(.noRoute), .cellular)
      #expect(await flows.nextLine() == "1 interfaceLost drain")
      network.advance(by: .seconds(1))
      #expect(await flows.nextLine() == "1 interfaceLost destroy")
    }
  }

  @Test("T2 I5 a bounce is published, and does not affect a flow whose own way stands")
  func bounce() async throws {
    try await withSimulatedNetwork(.wifi) { network in
      let flows = FlowGuard(socket: network.socket)
      #expect(await flows.add("127.0.0.1") == "1 path wlan0")
      network.bounce()
      #expect(network.history.dropFirst().first?.line == "2 wifi > wifi bounced")
      #expect(network.history.last?.line == "3 categoryChanged advise everything")
      #expect(network.guardedFlows.map(\.id) == [1])
      // Nothing about it was reported before this.
      network.become(.none)
      #expect(await flows.nextLine() == "1 interfaceLost destroy")
    }
  }

  @Test("I6 a short sleep is advised, a long one destroys")
  func resume() async throws {
    try await withSimulatedNetwork(.wifi) { network in
      let flows = FlowGuard(socket: network.socket)
      #expect(await flows.add("127.0.0.1") == "1 path wlan0")
      network.wake(afterSleepOf: .seconds(10))
      #expect(await flows.nextLine() == "1 resumed advise")
      network.wake(afterSleepOf: .seconds(600))
      #expect(await flows.nextLine() == "1 resumed destroy")
    }
  }

  @Test("I8 a flow's path becomes forbidden → destroyed; other flows are not affected")
  func policy() async throws {
    try await withSimulatedNetwork(.wifi) { network in
      let flows = FlowGuard(socket: network.socket)
      #expect(await flows.add("127.0.0.1", id: 1, forbidsExpensive: true) == "1 path wlan0")
      #expect(await flows.add("127.0.0.1", id: 2, forbidsConstrained: true) == "2 path wlan0")
      network.become(.wifi.expensive())
      #expect(await flows.nextLine() == "1 policy destroy")
      #expect(await flows.nextLine() == "2 path wlan0")
      network.become(.wifi.expensive().constrained())
      #expect(await flows.nextLine() == "2 policy destroy")
    }
  }

  @Test("I5 a destination with its own link is not affected")
  func outOfScope() async throws {
    try await withSimulatedNetwork(.wifi) { network in
      try network.route("127.0.0.2", by: .wired, isOnLink: true)
      let flows = FlowGuard(socket: network.socket)
      #expect(await flows.add("127.0.0.2", id: 1) == "1 path eth0")
      #expect(await flows.add("127.0.0.1", id: 2) == "2 path wlan0")
      try await network.play("cellular, none, wifi", speed: .infinity)
      #expect(await flows.nextLine() == "2 interfaceLost destroy")
      #expect(network.guardedFlows.map(\.id) == [1])
      network.invalidate(.networkChanged, .advise) { $0.id == 1 }
      #expect(await flows.nextLine() == "1 networkChanged advise")
    }
  }

  @Test("loopback is spared, as by connd, unless it counts as remote")
  func loopback() async throws {
    try await withSimulatedNetwork(.wifi, treatsLoopbackAsRemote: false) { network in
      let flows = FlowGuard(socket: network.socket)
      #expect(await flows.add("127.0.0.1", id: 1) == "1 path lo")
      #expect(await flows.add("198.18.0.80", id: 2) == "2 path wlan0")
      network.become(.none)
      #expect(await flows.nextLine() == "2 interfaceLost destroy")
      #expect(network.guardedFlows.map(\.id) == [1])
    }
  }

  @Test("a manual invalidation has its own generation, and later ones follow it")
  func byHand() async throws {
    try await withSimulatedNetwork(.wifi) { network in
      let flows = FlowGuard(socket: network.socket)
      #expect(await flows.add("127.0.0.1", id: 1) == "1 path wlan0")
      #expect(await flows.add("127.0.0.1", id: 2) == "2 path wlan0")
      network.invalidate(.networkChanged, .destroy) { $0.id == 2 }
      #expect(await flows.nextLine() == "2 networkChanged destroy")
      #expect(network.snapshot.generation == 1)
      network.invalidate()
      #expect(await flows.nextLine() == "1 networkChanged destroy")
      network.become(.none)
      #expect(
        network.history.map(\.line).prefix(3) == [
          "1 unknown > wifi", "2 networkChanged destroy everything", "3 wifi > none",
        ])
      #expect(network.history.map(\.generation) == Array(1...5))
      let lines = try await watched(network, 1)
      #expect(lines == ["5 snapshot none"])
    }
  }

  @Test("a refused flow gets the reason, and other flows are not affected")
  func refused() async throws {
    try await withSimulatedNetwork(.wifi) { network in
      let flows = FlowGuard(socket: network.socket)
      #expect(await flows.add("127.0.0.1", id: 1) == "1 path wlan0")
      network.refusesFlows = "too many"
      #expect(await flows.add("127.0.0.1", id: 2) == "2 refused too many")
      network.refusesFlows = nil
      #expect(await flows.add("127.0.0.1", id: 3) == "3 path wlan0")
      #expect(network.guardedFlows.map(\.id) == [1, 3])
      flows.remove(1)
      network.become(.none)
      #expect(await flows.nextLine() == "3 interfaceLost destroy")
    }
  }
}
