import Connectivity
import ConnectivityProtobuf
import ConnectivityProtocol
import Testing

@testable import ConnectivityMonitor

/// ``ConnectivityMonitor`` reads and writes messages without generated code. These tests compare
/// the two.
@Suite("The monitor's own messages")
struct OwnMessagesTests {
  private func bytes(_ message: some Message) -> [UInt8] { message.serializedBytes() }

  @Test(
    "a change or snapshot is written by connd → the monitor reads the same",
    arguments: 0..<300 as Range<UInt64>)
  func changes(seed: UInt64) throws {
    var model = RandomModel(seed: seed)
    let (change, snapshot) = (model.change(), model.snapshot())
    let message = try WatchMessage(self.bytes(Connectivity_V1_WatchResponse(change)))
    #expect(message.event == .change(change))
    #expect(message.generation == change.generation)
    #expect(
      try WatchMessage(self.bytes(Connectivity_V1_WatchResponse.snapshot(snapshot))).event
        == .snapshot(snapshot))
    #expect(
      try WatchMessage(self.bytes(Connectivity_V1_WatchResponse.gap(snapshot))).event
        == .gap(snapshot))
  }

  @Test(
    "an event of a flow is written by connd → the monitor reads the same",
    arguments: 0..<300 as Range<UInt64>)
  func flowEvents(seed: UInt64) throws {
    var model = RandomModel(seed: seed)
    for event in model.flowEvents() {
      var response = Connectivity_V1_GuardResponse(seed, event, generation: 7)
      response.networkNamespace = 11
      let message = try GuardMessage(self.bytes(response))
      #expect(message.event == event)
      #expect((message.id, message.generation, message.networkNamespace) == (seed, 7, 11))
      let path = event.ownPath.map { Connectivity_V1_Path($0) }
      #expect(try Connectivity_V1_Path(serializedBytes: message.path) == path ?? .init())
    }
  }

  @Test("the monitor writes a request → connd reads the same", arguments: 0..<300 as Range<UInt64>)
  func requests(seed: UInt64) throws {
    var model = RandomModel(seed: seed)
    let path = model.path()
    #expect(try Connectivity_V1_Path(serializedBytes: path.message) == Connectivity_V1_Path(path))
    let address = model.address()
    let remote = try #require(address)
    let flow = FlowGuard.Flow(
      remote: remote, local: model.maybe { $0.address() },
      transport: model.maybe { _ in Transport(6, localPort: 5, remotePort: 443) },
      mark: model.bool() ? 3 : 0, interface: model.maybe { $0.word() },
      forbidsExpensive: model.bool(), forbidsConstrained: model.bool())
    let known = model.bool() ? path : nil
    let generation = model.maybe { _ in UInt64(9) }
    let request = try Connectivity_V1_GuardRequest(
      serializedBytes: GuardMessage.addition(
        flow, id: seed, knownPath: known?.message, since: generation)
    ).add
    #expect(request.id == seed)
    #expect(request.remote == remote.description)
    #expect((request.hasLocal ? request.local : nil) == flow.local?.description)
    #expect(try Transport(request) == flow.transport)
    #expect((request.mark, request.hasMark) == (flow.mark, flow.mark != 0))
    #expect((request.hasInterface ? request.interface : nil) == flow.interface)
    #expect(request.forbidsExpensive == flow.forbidsExpensive)
    #expect(request.forbidsConstrained == flow.forbidsConstrained)
    #expect(
      (request.hasKnownPath ? request.knownPath : nil) == known.map { Connectivity_V1_Path($0) })
    #expect((request.hasSinceGeneration ? request.sinceGeneration : nil) == generation)
    let removal = try Connectivity_V1_GuardRequest(serializedBytes: GuardMessage.removal(seed))
    #expect(removal.remove.id == seed)
    let watch = try Connectivity_V1_WatchPathRequest(
      serializedBytes: WatchPathMessages.request(remote, mark: flow.mark, via: flow.interface))
    #expect((watch.destination, watch.mark) == (remote.description, flow.mark))
    #expect((watch.hasVia ? watch.via : nil) == flow.interface)
  }

  @Test("values of a newer connd → read like those of the generated code", arguments: 0..<40)
  func unknownValues(number: Int) throws {
    var status = Connectivity_V1_Status()
    status.category = .init(rawValue: number)
    status.family = .init(rawValue: number)
    status.ipv4.status = .init(rawValue: number)
    status.ipv4.reason = .init(rawValue: number)
    status.ipv4.medium = .init(rawValue: number)
    status.ipv4.evidence.source = .init(rawValue: number)
    var response = Connectivity_V1_WatchResponse()
    response.transition.status = status
    response.transition.cause.trigger = .init(rawValue: number)
    #expect(try WatchMessage(self.bytes(response)).event == self.read(response))
    response.invalidation.reason = .init(rawValue: number)
    response.invalidation.severity = .init(rawValue: number)
    response.invalidation.scope.family = .init(rawValue: number)
    #expect(try WatchMessage(self.bytes(response)).event == self.read(response))
    var flow = Connectivity_V1_GuardResponse()
    flow.refused.code = .init(rawValue: number)
    #expect(try GuardMessage(self.bytes(flow)).event == FlowEvent(flow))
  }

  private func read(_ response: Connectivity_V1_WatchResponse) throws -> StatusEvent? {
    switch try WatchEvent(response) {
    case .snapshot(let snapshot): .snapshot(snapshot)
    case .change(let change): .change(change)
    case .gap(let snapshot): .gap(snapshot)
    case nil: nil
    }
  }

  @Test(
    "D8 a message is cut short → read like the generated code, or refused", arguments: [1, 2, 3])
  func cuts(seed: UInt64) throws {
    var model = RandomModel(seed: seed)
    let whole = self.bytes(Connectivity_V1_WatchResponse(model.change()))
    for count in whole.indices {
      let bytes = Array(whole.prefix(count))
      let generated = try? self.read(Connectivity_V1_WatchResponse(serializedBytes: bytes))
      #expect((try? WatchMessage(bytes).event) == generated)
    }
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

  @Test("D8 bytes of a message are changed → nothing traps", arguments: 0..<50 as Range<UInt64>)
  func damage(seed: UInt64) throws {
    var model = RandomModel(seed: seed)
    let whole = self.bytes(Connectivity_V1_WatchResponse(model.change()))
    var refusals = 0
    for _ in 0..<200 {
      var bytes = whole
      let index = Int.random(in: bytes.indices, using: &model.generator)
      bytes[index] = .random(in: 0...255, using: &model.generator)
      do { _ = try WatchMessage(bytes) } catch { refusals += 1 }
    }
    #expect(refusals > 0 && refusals < 200)
  }
}

extension RandomModel {
  fileprivate mutating func flowEvents() -> [FlowEvent] {
    let testimony = SocketTestimony(
      lastHeard: .milliseconds(1_500), roundTrip: .microseconds(7), timeouts: 3,
      hasUnacknowledgedData: self.bool())
    return [
      .path(self.path()), .betterPathGone(self.path()),
      .invalidation(
        FlowInvalidation(
          reason: self.any(Invalidation.Reason.self),
          severity: self.any(Invalidation.Severity.self), cause: self.cause(),
          path: self.maybe { $0.path() }, socket: self.bool() ? testimony : nil)),
      .refused(.invalid("field")), .refused(.exhausted("limit")),
    ]
  }
}
