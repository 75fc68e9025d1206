import Connectivity
import ConnectivityProtobuf
import ConnectivityProtocol
import Synchronization
import Testing
import TestKit

@testable import ConnectivityClient
@testable import ConnectivityMonitor

/// A connection's guard changes on one thread while another thread changes it.
@Suite("Overlapping changes of a guard", .timeLimit(.minutes(1)), .namesWaits)
struct GuardOverlapTests {
  private static let local = "192.0.2.7"

  /// Two changes of a guard, the second of which happens while the first is registered.
  enum Overlap: CaseIterable, CustomTestStringConvertible {
    case keptWhileConnecting
    case connectedWhileKept

    var testDescription: String { "\(self)" }

    /// The changes, in order.
    fileprivate var changes: [@Sendable (ConnectionGuard) -> Void] {
      let connected: @Sendable (ConnectionGuard) -> Void = { connection in
        guard let local = IPAddress(GuardOverlapTests.local) else { return }
        connection.connected(local: local, port: 40_000)
      }
      let kept: @Sendable (ConnectionGuard) -> Void = { $0.keep(on: "wlan0") }
      return self == .keptWhileConnecting ? [connected, kept] : [kept, connected]
    }
  }

  @Test(
    "I11 a connection is made while it is kept → connd guards the flow that the guard listens to",
    arguments: Overlap.allCases)
  func overlap(_ overlap: Overlap) async throws {
    let remote = try #require(IPAddress("203.0.113.9"))
    let flow = FlowGuard.Flow(remote: remote, transport: Transport(6, remotePort: 443))
    try await PathConnd.withSocket { socket in
      let hub = GuardHub(socket: socket.path)
      let (absences, absence) = AsyncStream.makeStream(of: Void.self)
      let second = Mutex<(@Sendable () -> Void)?>(nil)
      let heard = Mutex<[ConnectionGuard.EventPhase]>([])
      let connection = ConnectionGuard(flow, hub: hub) { _ in
        absence.yield()
        second.withLock { second in
          defer { second = nil }
          return second
        }?()
      } onEvent: { report in
        heard.withLock { $0.append(report.phase) }
      }
      // Then the hub reports connd's absence while it registers a flow, on the caller's thread.
      for await _ in absences { break }
      second.withLock { $0 = { [weak connection] in connection.map(overlap.changes[1]) } }
      overlap.changes[0](connection)
      #expect(second.withLock { $0 == nil })

      let registered = Mutex<[Connectivity_V1_Flow]>([])
      try await PathConnd.serving(socket) { request in
        if case .add(let flow) = request.request { registered.withLock { $0.append(flow) } }
        return .with {
          $0.path.status = .satisfied
          ($0.path.interface, $0.path.source) = ("wlan0", Self.local)
          $0.path.chain = [.with { $0.name = "wlan0" }]
        }
      } _: { _ in
        // Its answer follows those of the flows that were registered before.
        let (answers, answer) = AsyncStream.makeStream(of: Void.self)
        let witness = ConnectionGuard(flow, hub: hub) { _ in answer.yield() }
        for await _ in answers { break }
        #expect(heard.withLock { $0 } == [.again])
        let flows = registered.withLock { $0 }.filter(\.hasLocal)
        #expect(flows.map(\.interface) == ["wlan0"])
        #expect(flows.map(\.local) == [Self.local])
        #expect(flows.map(\.localPort) == [40_000])
        witness.end()
      }
      connection.end()
    }
  }
}
