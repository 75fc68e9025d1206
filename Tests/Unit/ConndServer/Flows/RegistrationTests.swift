import Connectivity
import ConnectivityProtobuf
import ConnectivityProtocol
import ConnectivityRules
import Testing

@testable import ConndServer

@Suite("Flows in requests")
struct RegistrationTests {
  private func registration(
    _ change: (inout Connectivity_V1_Flow) -> Void
  ) throws -> FlowTable.Registration {
    var flow = Connectivity_V1_Flow()
    flow.id = 7
    flow.remote = "203.0.113.9"
    change(&flow)
    return try FlowTable.Registration(flow, of: 1000, in: 3)
  }

  @Test("the lookup uses the connection's ports, protocol, mark and user")
  func everything() throws {
    let registration = try self.registration { flow in
      flow.local = "192.0.2.7"
      flow.localPort = 65_535
      flow.remotePort = 443
      flow.protocol = 17
      flow.mark = 16
    }
    #expect(registration.key == .init(mailbox: 3, id: 7))
    #expect(registration.flow.local == IPAddress("192.0.2.7"))
    #expect(
      registration.flow.destination
        == Destination(
          try IPAddress(spelt: "203.0.113.9"), uid: 1000, mark: 16,
          transport: Transport(17, localPort: 65_535, remotePort: 443)))
  }

  private func transport(_ change: (inout Connectivity_V1_Flow) -> Void) throws -> Transport? {
    let registration = try self.registration(change)
    return registration.flow.destination.transport
  }

  @Test("a port without a protocol means TCP; neither of both means no connection")
  func defaults() throws {
    let none = try self.transport { _ in }
    #expect(none == nil)
    #expect(try self.transport { $0.remotePort = 443 } == Transport(6, remotePort: 443))
    #expect(try self.transport { $0.localPort = 40_000 } == Transport(6, localPort: 40_000))
    #expect(try self.transport { $0.protocol = 17 } == Transport(17))
    #expect(try self.transport { $0.protocol = 0 } == nil)
  }

  @Test("I0 IPv4-mapped addresses count as IPv4, in both fields")
  func mapped() throws {
    for (local, remote) in [
      ("::ffff:192.0.2.7", "203.0.113.9"), ("192.0.2.7", "::ffff:203.0.113.9"),
      ("::ffff:192.0.2.7", "::ffff:203.0.113.9"),
    ] {
      let flow = try self.registration { ($0.local, $0.remote) = (local, remote) }.flow
      #expect(flow.local == IPAddress("192.0.2.7"))
      #expect(flow.destination.address == IPAddress("203.0.113.9"))
    }
  }

  @Test("an invalid value is refused, with the name of its field")
  func refusals() {
    let refusals: [((inout Connectivity_V1_Flow) -> Void, String)] = [
      ({ $0.localPort = 65_536 }, "add.local_port: 65536 is not a port (at most 65535)"),
      ({ $0.remotePort = .max }, "add.remote_port: 4294967295 is not a port (at most 65535)"),
      ({ $0.protocol = 256 }, "add.protocol: 256 is not a protocol number (at most 255)"),
      ({ $0.local = "::1" }, "add.local: ::1 must have the same address family as 203.0.113.9"),
      ({ $0.local = "::ffff:0.0.0.0" }, "add.local: '::ffff:0.0.0.0' is not a host address"),
    ]
    for (change, message) in refusals {
      let refusal = #expect(throws: FlowRefusal.self) { try self.registration(change) }
      #expect(refusal?.message == message)
      #expect(refusal?.code == .invalidArgument)
    }
  }

  @Test("D4 every text of a known path is as long as a message may be → the flow keeps link names")
  func hostileText() throws {
    let text = String(repeating: "x", count: 15 << 10)
    let registration = try self.registration { flow in
      flow.knownPath.status = .unsatisfied
      flow.knownPath.interface = text
      flow.knownPath.chain = [.with { $0.name = "a-link-of-15-by" }]
      flow.knownPath.evidence.value = text
      flow.knownPath.validation.portalUri = text
    }
    #expect(registration.knownPath?.interface == "a-link-of-15-by")
    let kept = self.textBytes(in: registration)
    #expect(kept <= 16, "\(kept) bytes")
    // The recorded form has the same path.
    let bytes = try #require(RecordedInput(.flow(.add(registration)))).serializedBytes()
    #expect(bytes.count < 256)
  }

  /// Returns the bytes of all texts in a value.
  private func textBytes(in value: Any) -> Int {
    if let text = value as? String { return text.utf8.count }
    return Mirror(reflecting: value).children.reduce(0) { $0 + self.textBytes(in: $1.value) }
  }

  @Test("D4 a refusal repeats at most 1 KiB of the client's text")
  func longRefusal() throws {
    let texts = [
      String(repeating: "x", count: 15 << 10), String(repeating: "\u{301}", count: 7000),
    ]
    for text in texts {
      for change in [
        { $0.remote = text }, { $0.interface = text }, { $0.knownPath.source = text },
      ] as [(inout Connectivity_V1_Flow) -> Void] {
        let refusal = try #require(throws: FlowRefusal.self) { try self.registration(change) }
        #expect(refusal.bounded.message.utf8.count <= GuardService.maxRefusal + 2)
        #expect(refusal.bounded.message.hasPrefix("add."))
      }
    }
    let short = FlowRefusal.invalid("add.remote: 'here' is neither an IPv4 nor an IPv6 address")
    #expect(short.bounded == short)
  }
}

@Suite("The network namespace in messages")
struct NetworkNamespaceTests {
  private let own = ProcessNamespace.own ?? 0

  @Test("every message with a status carries it, also the messages shared by all subscribers")
  func statuses() throws {
    #expect(self.own != 0)
    let snapshot = TransitionDetector().snapshot
    let transition = ConnectivityChange.Transition(
      from: .offline, to: .wifi, bounced: false, cause: ChangeCause(.start, "started"),
      time: WallTime(microseconds: 0), snapshot: snapshot)
    let change = ConnectivityChange.PathChange(
      cause: ChangeCause(.start, "started"), time: WallTime(microseconds: 0), snapshot: snapshot)
    let snapshotMessage = Connectivity_V1_WatchResponse.snapshot(
      snapshot, networkNamespace: self.own)
    #expect(snapshotMessage.snapshot.status.networkNamespace == self.own)
    let gap = Connectivity_V1_WatchResponse.gap(snapshot, networkNamespace: self.own)
    #expect(gap.gap.status.networkNamespace == self.own)
    for change in [ConnectivityChange.transition(transition), .path(change)] {
      let message = try Connectivity_V1_WatchResponse(
        serializedBytes: Published(change).message)
      let status =
        message.transition.hasStatus ? message.transition.status : message.path.status
      #expect(status.networkNamespace == self.own)
      #expect(try WatchEvent(message) == .change(change))
    }
  }
}
