import Connectivity
import ConnectivityProtobuf
import ConnectivityProtocol
import GRPCCore
import Testing

@testable import ConnectivityClient
@testable import ConnectivityMonitor
@testable import ConnectivityTestKit

@Suite("Test kit: published changes", .timeLimit(.minutes(5)), .namesWaits)
struct TestKitTests {
  @Test(
    "D5, I9 a snapshot comes first, then each transition before its invalidations, the narrow before the wide"
  )
  func transitions() async throws {
    try await withSimulatedNetwork(.wifi) { network in
      async let events = watched(network, 6)
      try await network.waitForSubscribers(atLeast: 1)
      try await network.play("none, 2 s, cellular", speed: .infinity)
      let lines = try await events
      #expect(
        lines == [
          "1 snapshot wifi",
          "2 wifi > none", "3 interfaceLost destroy wlan0", "4 categoryChanged destroy everything",
          "5 none > cellular", "6 categoryChanged destroy everything",
        ])
      #expect(network.history.map(\.generation) == Array(1...6))
    }
  }

  @Test("D5 a client resumes after a generation, or with a gap if the history is gone")
  func resuming() async throws {
    try await withSimulatedNetwork(.wifi) { network in
      network.become(.none)
      let resumed = try await watched(network, 2, since: 2)
      #expect(
        resumed == ["3 interfaceLost destroy wlan0", "4 categoryChanged destroy everything"])
      let stranger = try await watched(network, 1, since: 17)
      #expect(stranger == ["4 gap none"])
      network.forgetHistory()
      let late = try await watched(network, 1, since: 2)
      #expect(late == ["4 gap none"])
    }
  }

  @Test(
    "the published changes for each change of the network",
    arguments: [
      ([.wifi], []),
      ([.wifi.expensive()], ["2 path wlan0"]),
      ([.wifi, .cellular], []),
      (
        [.cellular],
        [
          "2 wifi > cellular", "3 interfaceLost destroy wlan0",
          "4 categoryChanged destroy everything",
        ]
      ),
      (
        [.wired, .wifi],
        [
          "2 wifi > wired", "3 betterPath destroy wlan0 ipv4", "4 betterPath destroy wlan0 ipv6",
          "5 categoryChanged destroy everything",
        ]
      ),
      (
        [.wifi.named("another")],
        [
          "2 wifi > wifi bounced", "3 networkChanged destroy wlan0 ipv4",
          "4 networkChanged destroy wlan0 ipv6", "5 categoryChanged destroy everything",
        ]
      ),
      (
        [.wifi.failing(.noCarrier)],
        [
          "2 wifi > none", "3 interfaceLost advise wlan0", "4 categoryChanged advise everything",
        ]
      ),
      ([.unknown], ["2 wifi > unknown"]),
    ] as [([NetworkConditions], [String])])
  func changes(networks: [NetworkConditions], lines: [String]) throws {
    // The test needs no client, and so no socket.
    let network = try SimulatedNetwork([.wifi])
    network.connd.start()
    network.become(networks)
    #expect(network.history.dropFirst().map(\.line) == lines)
  }

  @Test("T1 a script may lose a path any number of times: nothing is held back")
  func flapping() throws {
    let network = try SimulatedNetwork([.wifi])
    network.connd.start()
    for _ in 0..<10 {
      network.become(.none)
      network.become(.wifi)
      #expect(network.snapshot.status.category == .wifi)
    }
  }

  @Test("K8 a network that is unknown for a while invalidates nothing")
  func unknown() throws {
    let network = try SimulatedNetwork([.wifi])
    network.connd.start()
    network.become(.unknown)
    network.become(.wifi)
    #expect(
      network.history.dropFirst().map(\.line) == ["2 wifi > unknown", "3 unknown > wifi"])
  }

  @Test("T5 the cause names the kernel's message")
  func causes() throws {
    let network = try SimulatedNetwork([.wifi])
    network.connd.start()
    network.become(.none)
    guard case .transition(let transition)? = network.history.dropFirst().first else {
      Issue.record("the transition is first")
      return
    }
    #expect(
      transition.cause
        == ChangeCause(.link, "linkDown", message: "RTM_NEWLINK", interface: "wlan0"))
  }

  @Test("the other calls agree with the stream")
  func calls() async throws {
    typealias Diagnostics = Connectivity_V1_Diagnostics.Method
    try await withSimulatedNetwork(.wired, .wifi) { network in
      try await withConnd(at: network.socket) { connd in
        let status = try await connd.unary(ConndMethod.GetStatus.self, .init())
        #expect(status.category == .wired)
        #expect(status.interface == "eth0")
        var wrong = Connectivity_V1_WatchPathRequest()
        wrong.destination = "example.org"
        await #expect(throws: (any Error).self) {
          try await connd.serverStreaming(ConndMethod.WatchPath.self, wrong) {
            for try await _ in $0.messages {}
          }
        }
        let links = try await connd.unary(Diagnostics.ListLinks.self, .init()).links
        #expect(links.map(\.name) == ["eth0", "wlan0"])
        #expect(links.map(\.state) == [.up, .up])
        #expect(links.map(\.defaultIpv4) == [true, false])
        let explanation = try await connd.unary(Diagnostics.Explain.self, .init())
        #expect(explanation.category == .wired)
        #expect(explanation.path.interface == "eth0")
        network.become(.wifi)
        var request = Connectivity_V1_ListTransitionsRequest()
        request.limit = 1
        let history = try await connd.unary(Diagnostics.ListTransitions.self, request)
        #expect(history.transitions.map(\.current) == [.wifi])
        #expect(history.invalidations.map(\.reason) == [.interfaceLost, .categoryChanged])
        request.pageSize = 1
        let page = try await connd.unary(Diagnostics.ListTransitions.self, request)
        #expect(page.transitions == history.transitions && page.invalidations.isEmpty)
        request.pageToken = page.nextPageToken
        #expect(
          try await connd.unary(Diagnostics.ListTransitions.self, request).invalidations.count == 1)
        request.limit = 2
        await #expect(throws: RPCError.self) {
          try await connd.unary(Diagnostics.ListTransitions.self, request)
        }
      }
    }
  }

  @Test("WatchPath follows one destination, by a route of its own if it has one")
  func watchPath() async throws {
    try await withSimulatedNetwork(.wifi) { network in
      try network.route("198.18.0.0/15", by: .wired)
      try await withConnd(at: network.socket) { connd in
        var request = Connectivity_V1_WatchPathRequest()
        request.destination = "198.18.0.80"
        try await connd.serverStreaming(ConndMethod.WatchPath.self, request) { response in
          var paths = response.messages.makeAsyncIterator()
          #expect(try await paths.next()?.path.interface == "eth0")
          network.become(.cellular)
          try network.removeRoute("198.18.0.0/15")
          #expect(try await paths.next()?.path.interface == "wwan0")
          try network.route("198.18.0.80", by: .none)
          #expect(try await paths.next()?.path.reason == .unreachable)
        }
      }
      #expect(throws: SimulationError.self) { try network.route("somewhere", by: .wired) }
    }
  }

  @Test(
    "a monitor reports changed DNS servers, and a path the application may not use counts as none"
  )
  func monitors() async throws {
    try await withSimulatedNetwork(.wifi) { network in
      var paths = PathMonitor(access: .requiring([.wifi]), socket: network.socket)
        .makeAsyncIterator()
      let first = await paths.next()
      #expect(first?.supportsDNS == true && first?.isOnline == true)
      network.resolve(by: DNSSettings(search: ["lan"]))
      let second = await paths.next()
      #expect(second?.supportsDNS == false && second?.dns?.search == ["lan"])
      network.become(.cellular)
      var third = await paths.next()
      while let path = third, path.isOnline || path.refusal == nil { third = await paths.next() }
      #expect(third?.refusal?.reason == .cellular && third?.status == .unsatisfied)
      network.become(.wifi)
      #expect(await paths.next()?.medium == .wifi)
    }
  }
}
