import Connectivity
import ConnectivityProtobuf
import ConnectivityProtocol
import Testing

@Suite("Conversion between model and messages")
struct ConversionTests {
  /// Uses the wire's bytes, so that a field that is set but not serialised counts as lost.
  private func overTheWire(_ message: Connectivity_V1_WatchResponse) throws -> WatchEvent? {
    let bytes = message.serializedBytes()
    return try WatchEvent(try Connectivity_V1_WatchResponse(serializedBytes: bytes))
  }

  @Test(
    "random values are unchanged after writing and reading", arguments: 0..<300 as Range<UInt64>)
  func roundTrip(seed: UInt64) throws {
    var model = RandomModel(seed: seed)
    let change = model.change()
    let snapshot = model.snapshot()
    #expect(try self.overTheWire(Connectivity_V1_WatchResponse(change)) == .change(change))
    #expect(try self.overTheWire(.snapshot(snapshot)) == .snapshot(snapshot))
    #expect(try self.overTheWire(.gap(snapshot)) == .gap(snapshot))
  }

  @Test(
    "a change written by hand has the bytes that the generated code writes",
    arguments: 0..<300 as Range<UInt64>)
  func ownBytes(seed: UInt64) {
    var model = RandomModel(seed: seed)
    let change = model.change()
    let expected = Connectivity_V1_WatchResponse(change, networkNamespace: seed)
      .serializedBytes()
    #expect(change.watchResponse(networkNamespace: seed) == expected)
  }

  @Test("the generation is on every level of a message")
  func generations() {
    var model = RandomModel(seed: 1)
    let snapshot = model.snapshot()
    let change = ConnectivityChange.Transition(
      from: .offline, to: .wifi, bounced: false, cause: model.cause(), time: model.time(),
      snapshot: snapshot)
    let message = Connectivity_V1_WatchResponse(.transition(change))
    #expect(message.generation == snapshot.generation)
    #expect(message.transition.generation == snapshot.generation)
    #expect(message.transition.status.generation == snapshot.generation)
    let invalidation = model.invalidation()
    let invalidationMessage = Connectivity_V1_WatchResponse(.invalidation(invalidation))
    #expect(invalidationMessage.generation == invalidation.generation)
    #expect(invalidationMessage.invalidation.generation == invalidation.generation)
    #expect(Connectivity_V1_WatchResponse.gap(snapshot).gap.generation == snapshot.generation)
    #expect(
      Connectivity_V1_WatchResponse.snapshot(snapshot).snapshot.generation == snapshot.generation)
  }

  @Test("the message contains the summary: the path of the family that it follows")
  func summary() {
    let wlan = KernelPath(
      status: .satisfied, chain: [KernelPath.Link(index: 3, name: "wlan0")], medium: .wifi,
      isExpensive: true
    )
    let status = ConnectivityStatus(ipv4: .unsatisfied(.noRoute), ipv6: wlan, preferred: .ipv4)
    let message = Connectivity_V1_Status(
      ConnectivitySnapshot(generation: 7, since: WallTime(microseconds: 0), status: status))
    #expect(message.interface == "wlan0")
    #expect(message.medium == .wifi)
    #expect(message.threeWay == .wifi)
    #expect(message.family == .ipv6)
    #expect(message.expensive && !message.constrained)
    #expect(message.ipv4.reason == .noRoute && !message.ipv4.hasInterface)
  }

  @Test("an invalid address is an error, not a trap")
  func badAddress() {
    var message = Connectivity_V1_Path()
    message.gateway = "192.0.2.256"
    #expect(throws: ConversionError.self) { try KernelPath(message) }
  }

  @Test("I9 an absent scope field matches anything; an unreadable one is an error")
  func scope() throws {
    #expect(try Invalidation.Scope(Connectivity_V1_Scope()) == .everything)
    #expect(Connectivity_V1_Scope(.everything) == Connectivity_V1_Scope())
    var message = Connectivity_V1_Scope()
    message.localAddresses = ["192.0.2.7", "wlan0"]
    #expect(throws: ConversionError.self) { try Invalidation.Scope(message) }
    message.localAddresses = []
    message.destination = "one.example"
    #expect(throws: ConversionError.self) { try Invalidation.Scope(message) }
    message.offLink = .init()
    #expect(try Invalidation.Scope(message).destination == .offLink)
    #expect(Connectivity_V1_Scope(.init(destination: .offLink)) == message)
  }

  @Test(
    "I9 an invalidation without a scope covers everything, and is only advice")
  func emptyInvalidation() throws {
    let invalidation = try Invalidation(Connectivity_V1_Invalidation())
    #expect(invalidation.scope == .everything)
    #expect(invalidation.severity == .advise)
  }

  @Test("an event without its status is an error, an unknown event is skipped")
  func incompleteEvents() throws {
    var message = Connectivity_V1_WatchResponse()
    #expect(try WatchEvent(message) == nil)
    message.snapshot = Connectivity_V1_Snapshot()
    #expect(throws: ConversionError.self) { try WatchEvent(message) }
    message.gap = Connectivity_V1_Gap()
    #expect(throws: ConversionError.self) { try WatchEvent(message) }
    message.transition = Connectivity_V1_Transition()
    #expect(throws: ConversionError.self) { try WatchEvent(message) }
    message.path = Connectivity_V1_PathChange()
    #expect(throws: ConversionError.self) { try WatchEvent(message) }
  }

  @Test("K8 missing fields of a status are unknown, not none")
  func emptyStatus() throws {
    let status = try ConnectivitySnapshot(Connectivity_V1_Status()).status
    #expect(status.category == .unknown)
    #expect(status.ipv4.status == .unknown)
    #expect(status.ipv6.status == .unknown)
    #expect(status.medium == .unknown)
  }

  @Test("I8 a path without a cost has an unknown cost, and keeps it")
  func unknownCost() throws {
    var message = Connectivity_V1_Path()
    message.status = .satisfied
    #expect(try KernelPath(message).isCostUnknown && KernelPath(message).isExpensive == nil)
    for isExpensive in [false, true] {
      message.expensive = isExpensive
      #expect(try KernelPath(message).isExpensive == isExpensive)
    }
    var path = KernelPath(status: .satisfied)
    #expect(Connectivity_V1_Path(path).hasExpensive)
    path.costsMoney = nil
    #expect(!Connectivity_V1_Path(path).hasExpensive)
    let status = ConnectivityStatus(ipv4: path, ipv6: .unsatisfied(.noRoute), preferred: .ipv4)
    let told = Connectivity_V1_Status(
      ConnectivitySnapshot(generation: 7, since: WallTime(microseconds: 0), status: status))
    #expect(!told.hasExpensive)
    #expect(try ConnectivitySnapshot(told).status == status)
  }

  @Test("a link without an index is accepted; more guessed links than links are not")
  func incompleteChain() throws {
    var message = Connectivity_V1_Path()
    message.chain = [.init(), .init()]
    message.chain[0].name = "vlan10"
    message.chain[0].index = 7
    message.chain[1].name = "eth0"
    message.guessedLinks = 3
    let path = try KernelPath(message)
    #expect(
      path.chain == [
        KernelPath.Link(index: 7, name: "vlan10"), KernelPath.Link(index: 0, name: "eth0"),
      ])
    #expect(path.guessedLinks == 2)
  }

  @Test(
    "an event of a flow is unchanged after writing and reading", arguments: 0..<300 as Range<UInt64>
  )
  func flowEvents(seed: UInt64) throws {
    var model = RandomModel(seed: seed)
    for event in model.flowEvents() {
      let bytes = Connectivity_V1_GuardResponse(7, event, generation: 9).serializedBytes()
      let message = try Connectivity_V1_GuardResponse(serializedBytes: bytes)
      #expect(try FlowEvent(message) == event)
      #expect((message.id, message.generation) == (7, 9))
    }
    #expect(try FlowEvent(Connectivity_V1_GuardResponse()) == nil)
  }
}

extension RandomModel {
  fileprivate mutating func flowEvents() -> [FlowEvent] {
    let testimony = SocketTestimony(
      lastHeard: .milliseconds(self.bool() ? 1_500 : -1_500), roundTrip: .microseconds(7),
      timeouts: 3, hasUnacknowledgedData: self.bool())
    return [
      .path(self.path()), .betterPathGone(self.path()),
      .invalidation(
        InvalidationError(
          reason: self.any(Invalidation.Reason.self),
          severity: self.any(Invalidation.Severity.self), cause: self.cause(),
          path: self.maybe { $0.path() }, socket: self.bool() ? testimony : nil)),
      .refused(.invalid("field")), .refused(.exhausted("limit")),
    ]
  }
}

@Suite("Timestamps")
struct TimestampConversionTests {
  @Test(
    "seconds and nanoseconds, even before 1970",
    arguments: [
      (0, 0, 0), (1_500_000, 1, 500_000_000), (-1, -1, 999_999_000), (-1_000_000, -1, 0),
      (-1_500_000, -2, 500_000_000),
    ] as [(Int64, Int64, Int32)])
  func both(microseconds: Int64, seconds: Int64, nanos: Int32) throws {
    let message = Google_Protobuf_Timestamp(WallTime(microseconds: microseconds))
    #expect(message.seconds == seconds)
    #expect(message.nanos == nanos)
    #expect(try WallTime(message).microseconds == microseconds)
  }

  @Test("the limits of the range convert", arguments: [Int64.min, .max])
  func extremes(microseconds: Int64) throws {
    let message = Google_Protobuf_Timestamp(WallTime(microseconds: microseconds))
    #expect((0..<1_000_000_000).contains(message.nanos))
    if microseconds == .max { #expect(try WallTime(message).microseconds == microseconds) }
  }

  @Test("a number of seconds out of range is an error", arguments: [Int64.min, .max])
  func tooLarge(seconds: Int64) {
    #expect(throws: ConversionError.self) {
      try WallTime(Google_Protobuf_Timestamp(seconds: seconds, nanos: 0))
    }
  }
}
