import Connectivity
import ConnectivityProtobuf
import ConnectivityProtocol
import GRPCCore
import Testing

@testable import ConnectivityMonitor

@Suite("Guarding many flows")
struct FlowGuardTests {
  @Test("flows are added and removed during a stream, and the remaining ones are added to the next")
  func flows() async throws {
    try await withDirectory { directory in
      let socket = "\(directory)/connd.sock"
      let flows = FlowGuard(socket: socket, through: connector)
      let remote = try #require(IPAddress("192.0.2.80"))
      flows.add(.init(remote: remote), id: 1)
      guard case .absent(.disconnected(let why))? = await flows.next(), why.code == .notAvailable
      else {
        Issue.record("connd is not there yet")
        return
      }
      // Answers each request with a path; the generation tells what was requested.
      let stub = StubConnd(onGuard: { requests, writer in
        for try await request in requests {
          switch request.request {
          case .add(let flow):
            let generation: UInt64 = flow.hasKnownPath ? 200 : 100
            try await writer.write(.flow(flow.id, generation: generation + flow.id, .path(.wlan)))
          case .remove(let flow):
            // Like a message that was in transit when the flow was removed.
            try await writer.write(.flow(flow.id, generation: 300, .path(.stack)))
          case .heard, nil:
            Issue.record("an unexpected request")
          }
        }
      })
      try await stub.serving(socket) {
        #expect(await flows.next() == .resumed)
        #expect(await flows.next() == .flow(id: 1, generation: 101, .path(.wlan)))
        flows.add(.init(remote: remote), id: 2)
        #expect(await flows.next() == .flow(id: 2, generation: 102, .path(.wlan)))
        flows.remove(1)
        flows.add(.init(remote: remote), id: 3)
        #expect(await flows.next() == .flow(id: 3, generation: 103, .path(.wlan)))
      }
      guard case .absent(.disconnected)? = await flows.next() else {
        Issue.record("connd is gone")
        return
      }
      flows.remove(2)
      flows.add(.init(remote: remote), id: 4)
      try await stub.serving(socket) {
        #expect(await flows.next() == .resumed)
        #expect(await flows.next() == .flow(id: 3, generation: 203, .path(.wlan)))
        #expect(await flows.next() == .flow(id: 4, generation: 104, .path(.wlan)))
      }
    }
  }

  @Test("a stream that connd ends is restarted")
  func ended() async throws {
    try await withDirectory { directory in
      let socket = "\(directory)/connd.sock"
      let remote = try #require(IPAddress("192.0.2.80"))
      let stub = StubConnd(onGuard: { requests, writer in
        for try await request in requests {
          try await writer.write(.flow(generation: 17, .path(.wlan)))
          if !request.add.hasKnownPath { return }
        }
      })
      try await stub.serving(socket) {
        let flows = FlowGuard(socket: socket, through: connector)
        flows.add(.init(remote: remote), id: 1)
        #expect(await flows.next() == .flow(id: 1, generation: 17, .path(.wlan)))
        #expect(
          await flows.next() == .absent(.disconnected(.notAvailable("connd ended the stream"))))
        #expect(await flows.next() == .resumed)
        #expect(await flows.next() == .flow(id: 1, generation: 17, .path(.wlan)))
      }
    }
  }

  @Test(
    "the waiting task is cancelled → it gets no more events, and the next one ends the stream",
    .timeLimit(.minutes(1)))
  func cancellation() async throws {
    try await withDirectory { directory in
      let socket = "\(directory)/connd.sock"
      let remote = try #require(IPAddress("192.0.2.80"))
      let (hasAnswered, hasEnded) = (Gate(), Gate())
      let stub = StubConnd(onGuard: { requests, writer in
        defer { hasEnded.open() }
        for try await request in requests {
          try await writer.write(.flow(request.add.id, generation: 17, .path(.wlan)))
        }
      })
      try await stub.serving(socket) {
        let flows = FlowGuard(socket: socket, through: connector)
        flows.add(.init(remote: remote), id: 1)
        let task = Task {
          var events: [GuardEvent] = []
          while let event = await flows.next() {
            events.append(event)
            hasAnswered.open()
          }
          return events
        }
        await hasAnswered.pass()
        task.cancel()
        #expect(await task.value == [.flow(id: 1, generation: 17, .path(.wlan))])
        flows.add(.init(remote: remote), id: 2)
        await hasEnded.pass()
        #expect(await flows.next() == nil)
      }
    }
  }
}

@Suite("Requests about flows")
struct GuardedFlowsTests {
  private var flow: FlowGuard.Flow {
    get throws { FlowGuard.Flow(remote: try #require(IPAddress("192.0.2.80"))) }
  }

  private func ids(_ requests: [Connectivity_V1_GuardRequest]) -> [Int] {
    requests.map { request in
      // Removals are negative.
      if case .remove(let flow) = request.request { return -Int(flow.id) }
      return Int(request.add.id)
    }
  }

  @Test("each flow is sent once; one removed before it was sent, never")
  func once() throws {
    var flows = GuardedFlows()
    flows.connecting()
    for id in [3, 1, 2] as [UInt64] { flows.add(try self.flow, id: id) }
    flows.remove(2)
    #expect(self.ids(flows.requests()) == [1, 3])
    #expect(flows.requests() == [])
    flows.remove(1)
    flows.remove(1)
    flows.remove(9)
    flows.add(try self.flow, id: 1)
    flows.add(try self.flow, id: 3)
    #expect(self.ids(flows.requests()) == [-1, 1])
    flows.remove(3)
    flows.connecting()
    #expect(self.ids(flows.requests()) == [1])
  }

  @Test("a report about an unknown or unsent flow is ignored")
  func strangers() throws {
    var flows = GuardedFlows()
    flows.connecting()
    #expect(try flows.received(.flow(1, generation: 7, .path(.wlan))) == nil)
    flows.add(try self.flow, id: 1)
    #expect(try flows.received(.flow(1, generation: 7, .path(.wlan))) == nil)
    _ = flows.requests()
    #expect(
      try flows.received(.flow(1, generation: 8, .path(.wlan)))
        == .flow(id: 1, generation: 8, .path(.wlan)))
    var unknown = Connectivity_V1_GuardResponse()
    unknown.id = 1
    #expect(try flows.received(unknown) == nil)
  }

  @Test("C7 connd in another network namespace is reported once, and gets no more requests")
  func elsewhere() throws {
    var flows = GuardedFlows(namespace: 7)
    flows.connecting()
    for id in [1, 2] as [UInt64] { flows.add(try self.flow, id: id) }
    _ = flows.requests()
    flows.add(try self.flow, id: 3)
    var answer = Connectivity_V1_GuardResponse.flow(generation: 8, .invalidation(.sample))
    answer.networkNamespace = 8
    #expect(try flows.received(answer) == .absent(.elsewhere(.init(connd: 8, own: 7))))
    #expect(try flows.received(answer) == nil)
    // It guards in vain.
    #expect(self.ids(flows.requests()) == [-1, -2])
    flows.remove(2)
    flows.add(try self.flow, id: 4)
    #expect(flows.requests() == [])
    // The next connd may be in the flows' namespace.
    #expect(flows.lost(ConndError.notAvailable("gone")).0 == nil)
    flows.connecting()
    #expect(flows.accepted() == .resumed)
    let again = flows.requests()
    #expect(self.ids(again) == [1, 3, 4])
    #expect(again.allSatisfy { !$0.add.hasKnownPath && !$0.add.hasSinceGeneration })
    answer.networkNamespace = 7
    #expect(
      try flows.received(answer) == .flow(id: 1, generation: 8, .invalidation(.sample)))
  }

  @Test("C7 one of the two namespaces is unknown → connd is trusted")
  func unknownNamespace() throws {
    for (own, connd) in [(nil, 8), (7, 0), (7, 7)] as [(UInt64?, UInt64)] {
      var flows = GuardedFlows(namespace: own)
      flows.connecting()
      flows.add(try self.flow, id: 1)
      _ = flows.requests()
      var answer = Connectivity_V1_GuardResponse.flow(generation: 8, .path(.wlan))
      answer.networkNamespace = connd
      #expect(try flows.received(answer) == .flow(id: 1, generation: 8, .path(.wlan)))
    }
  }

  @Test("a destroyed or refused flow is no longer guarded, and its id is free")
  func ends() throws {
    for event in [FlowEvent.invalidation(.sample), .refused(.invalid("no"))] {
      var flows = GuardedFlows()
      flows.connecting()
      flows.add(try self.flow, id: 1)
      _ = flows.requests()
      #expect(try flows.received(.flow(generation: 8, event)) == .flow(id: 1, generation: 8, event))
      flows.add(try self.flow, id: 1)
      #expect(self.ids(flows.requests()) == [1])
    }
  }

  @Test("I7 after an outage, flows are sent with their address, last path and last generation")
  func again() throws {
    var flows = GuardedFlows()
    flows.connecting()
    flows.add(try self.flow, id: 1)
    flows.add(try self.flow, id: 2)
    let first = try #require(flows.requests().first).add
    #expect(!first.hasSinceGeneration)
    #expect(!first.hasLocal && !first.hasKnownPath && !first.hasMark && !first.hasInterface)
    var rotated = KernelPath.wlan
    rotated.source = IPAddress("192.0.2.8")
    var advice = InvalidationError.sample
    advice.severity = .advise
    for event in [FlowEvent.path(.wlan), .betterPathGone(rotated), .invalidation(advice)] {
      _ = try flows.received(.flow(generation: 8, event))
    }
    flows.connecting()
    let again = flows.requests().map(\.add)
    #expect(again.map(\.id) == [1, 2])
    // The advice's path is not the flow's: the flow is compared with its own.
    #expect(again.first?.knownPath == Connectivity_V1_Path(rotated))
    #expect(again.first?.local == "192.0.2.7")
    #expect(again.first?.sinceGeneration == 8)
    // connd has not reported on this one yet.
    #expect(again.last?.hasKnownPath == false)
    #expect(again.last?.hasSinceGeneration == false)
  }

  @Test("an invalid address is an error, not a trap")
  func nonsense() throws {
    var flows = GuardedFlows()
    var message = Connectivity_V1_GuardResponse()
    message.path.gateway = "somewhere"
    #expect(throws: ConversionError.self) { try flows.received(message) }
  }
}
