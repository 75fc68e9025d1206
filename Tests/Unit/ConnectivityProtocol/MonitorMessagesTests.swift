import Connectivity
import ConnectivityProtobuf
import ConnectivityProtocol
import Testing

@testable import ConnectivityMonitor

@Suite("The messages of the monitor")
struct MonitorMessagesTests {
  @Test("the monitor writes a request → connd reads the same", arguments: 0..<300 as Range<UInt64>)
  func requests(seed: UInt64) throws {
    var model = RandomModel(seed: seed)
    let address = model.address()
    let remote = try #require(address)
    var flow = FlowGuard.Flow(
      remote: remote, local: model.maybe { $0.address() },
      transport: model.maybe { _ in Transport(6, localPort: 5, remotePort: 443) },
      mark: model.bool() ? 3 : 0, interface: model.maybe { $0.word() },
      forbidsExpensive: model.bool(), forbidsConstrained: model.bool())
    flow.question = model.any(PeerQuestion.self)
    flow.isNew = model.bool()
    let known = model.maybe { $0.path() }
    var flows = GuardedFlows()
    flows.add(flow, id: seed, madeOn: known)
    let request = try Connectivity_V1_GuardRequest(
      serializedBytes: try #require(flows.pendingRequests().first)
    ).add
    #expect(request.id == seed)
    #expect(request.remote == remote.description)
    #expect((request.hasLocal ? request.local : nil) == flow.local?.description)
    #expect(try Transport(request) == flow.transport)
    #expect((request.mark, request.hasMark) == (flow.mark, flow.mark != 0))
    #expect((request.hasInterface ? request.interface : nil) == flow.interface)
    #expect(request.forbidsExpensive == flow.forbidsExpensive)
    #expect(request.forbidsConstrained == flow.forbidsConstrained)
    #expect(PeerQuestion(request.question) == flow.question)
    #expect(request.existing != flow.isNew)
    #expect(
      (request.hasKnownPath ? request.knownPath : nil) == known.map { Connectivity_V1_Path($0) })
    #expect(!request.hasSinceGeneration)
    flows.remove(seed)
    let removal = try Connectivity_V1_GuardRequest(
      serializedBytes: try #require(flows.pendingRequests().first))
    #expect(removal.remove.id == seed)
    let watch = try Connectivity_V1_WatchPathRequest(
      serializedBytes: FollowedPath(to: remote, mark: flow.mark, via: flow.interface).request)
    #expect((watch.destination, watch.mark) == (remote.description, flow.mark))
    #expect((watch.hasVia ? watch.via : nil) == flow.interface)
  }

  @Test("a request for some kinds of changes → connd reads these kinds, and the generation")
  func kinds() throws {
    let all = try Connectivity_V1_WatchRequest(serializedBytes: FollowedStatus(since: nil).request)
    #expect(all.events.isEmpty && !all.hasSinceGeneration)
    let some = try Connectivity_V1_WatchRequest(
      serializedBytes: FollowedStatus(since: 7, [.dns, .transition]).request)
    #expect(some.events == [.transition, .dns] && some.sinceGeneration == 7)
  }

  @Test("a path with values of a newer connd → they come back with the next registration")
  func newerPath() throws {
    var flows = GuardedFlows()
    flows.add(FlowGuard.Flow(remote: try #require(IPAddress("203.0.113.9"))), id: 1)
    _ = flows.pendingRequests()
    var response = Connectivity_V1_GuardResponse()
    response.id = 1
    response.path.medium = .UNRECOGNIZED(99)
    _ = try flows.received(response.serializedBytes())
    flows.connecting()
    let request = try #require(flows.pendingRequests().first)
    #expect(
      try Connectivity_V1_GuardRequest(serializedBytes: request).add.knownPath.medium
        == .UNRECOGNIZED(99))
  }
}

@Suite("Damaged messages")
struct DamagedMessagesTests {
  /// Returns how many of the messages are refused.
  private func refusals(_ messages: some Sequence<[UInt8]>) -> Int {
    messages.count { bytes in
      var status = FollowedStatus(since: nil)
      do { _ = try status.received(bytes) } catch { return true }
      return false
    }
  }

  @Test("D8 a message is cut short → read in part, or refused", arguments: [1, 2, 3] as [UInt64])
  func cuts(seed: UInt64) {
    var model = RandomModel(seed: seed)
    let whole = Connectivity_V1_WatchResponse(model.change()).serializedBytes()
    let refusals = self.refusals(whole.indices.map { Array(whole.prefix($0)) })
    #expect(refusals > whole.count / 2 && refusals < whole.count)
    #expect(self.refusals([whole]) == 0)
  }

  @Test("D8 bytes of a message are changed → nothing traps", arguments: 0..<50 as Range<UInt64>)
  func damage(seed: UInt64) {
    var model = RandomModel(seed: seed)
    let whole = Connectivity_V1_WatchResponse(model.change()).serializedBytes()
    let refusals = self.refusals(
      (0..<200).map { _ in
        var bytes = whole
        let index = Int.random(in: bytes.indices, using: &model.generator)
        bytes[index] = .random(in: 0...255, using: &model.generator)
        return bytes
      })
    #expect(refusals > 0 && refusals < 200)
  }

  @Test("D8 a request repeats embedded messages fifty thousand times → read without copying them")
  func repetitions() throws {
    // GuardRequest.add, Flow.known_path, Path.chain.
    let (chain, count): ([UInt8], Int) = ([0x22, 0], 50_000)
    let path = [0x3A, UInt8(chain.count)] + chain
    let flow = Array(repeatElement([0x0A, UInt8(path.count)] + path, count: count).joined())
    let request = try Connectivity_V1_GuardRequest(serializedBytes: flow)
    #expect(request.add.knownPath.chain.count == count)
  }
}
