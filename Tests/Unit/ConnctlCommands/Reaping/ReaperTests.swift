import Connectivity
import ConnectivityMonitor
import ConnectivityProtobuf
import ConnectivityProtocol
import Testing

@testable import ConnctlCommands

@Suite("Ending dead connections of other programs")
struct ReaperTests {
  private let start = SuspendingClock.now
  private static let eth0 = KernelPath.Link(index: 2, name: "eth0")
  private static let wlan0 = KernelPath.Link(index: 3, name: "wlan0")

  private func at(_ seconds: Double) -> Reaper.Instant {
    self.start.advanced(by: .milliseconds(Int64(seconds * 1000)))
  }

  /// A connection by eth0.
  ///
  /// - Parameter heard: When its peer was last heard, in seconds, and when the list was made.
  private func connection(
    _ cookie: UInt64 = 1, heard: (Double, listed: Double) = (0, 0),
    _ reason: Invalidation.Reason? = nil
  ) throws -> ReapableConnection {
    var connection = try #require(
      ReapableConnection(
        .with {
          ($0.local, $0.localPort) = ("192.0.2.7", UInt32(4000 + cookie))
          ($0.remote, $0.remotePort) = ("203.0.113.9", 443)
          ($0.socketCookie, $0.socketInode, $0.tcpState) = (cookie, 10 + cookie, .established)
        }))
    connection.silence = self.at(heard.0).duration(to: self.at(heard.listed))
    connection.reason = reason
    return connection
  }

  private func path(_ link: KernelPath.Link, _ source: String) -> KernelPath {
    KernelPath(status: .satisfied, chain: [link], source: IPAddress(source))
  }

  private func loss(_ reason: Invalidation.Reason, _ severity: Invalidation.Severity = .destroy)
    -> FlowEvent
  {
    .invalidation(
      InvalidationError(
        reason: reason, severity: severity, cause: ChangeCause(.link, "carrierLost"), path: nil))
  }

  private var ways: [IPAddress: KernelPath] {
    guard let peer = IPAddress("203.0.113.9") else { return [:] }
    return [peer: self.path(Self.wlan0, "198.51.100.7")]
  }

  /// A reaper with the guarded connection 1 on eth0.
  private func reaper(_ settings: Reaper.Settings = .init()) throws -> Reaper {
    var reaper = Reaper(settings)
    let connection = try self.connection()
    #expect(
      reaper.listed([connection], ways: [:], at: self.at(0))
        == [.guardFlow(connection.flow, id: 1, madeOn: nil)])
    #expect(
      reaper.received(.path(self.path(Self.eth0, "192.0.2.7")), id: 1, at: self.at(0)).isEmpty)
    return reaper
  }

  @Test(
    "R1 connd destroys a flow for a reason → only a loss has the connection held and its peer asked",
    arguments: Invalidation.Reason.allCases)
  func reasons(_ reason: Invalidation.Reason) throws {
    var reaper = try self.reaper()
    let actions = reaper.received(self.loss(reason), id: 1, at: self.at(1))
    let isLoss = [.sourceAddressLost, .interfaceLost, .networkChanged, .silent].contains(reason)
    #expect(actions == (isLoss ? [.ask(try self.connection())] : []))
    #expect(reaper.deadline == (isLoss ? self.at(3) : nil))
    guard !isLoss else { return }
    // It is guarded again.
    let again = reaper.listed([try self.connection()], ways: self.ways, at: self.at(2))
    #expect(again == [.guardFlow(try self.connection().flow, id: 2, madeOn: nil)])
  }

  @Test("R1 connd only advises → nothing is done")
  func advice() throws {
    var reaper = try self.reaper()
    #expect(reaper.received(self.loss(.interfaceLost, .advise), id: 1, at: self.at(1)).isEmpty)
    #expect(reaper.deadline == nil)
  }

  @Test("R2 another path exists → a lost connection ends after two seconds, and not before")
  func hold() throws {
    var reaper = try self.reaper()
    _ = reaper.received(self.loss(.interfaceLost), id: 1, at: self.at(1))
    let early = try self.connection(heard: (0.9, listed: 2), .interfaceLost)
    #expect(reaper.peers(at: self.at(2)).isEmpty)
    #expect(reaper.listed([early], ways: self.ways, at: self.at(2)).isEmpty)
    let late = try self.connection(heard: (0.9, listed: 3), .interfaceLost)
    #expect(reaper.peers(at: self.at(3)) == [late.flow.remote])
    let way = self.path(Self.wlan0, "198.51.100.7")
    #expect(
      reaper.listed([late], ways: self.ways, at: self.at(3))
        == [.end(late, Reaper.Loss(reason: .interfaceLost, link: Self.eth0, way: way))])
    // The program may have tried again in the meantime.
    #expect(reaper.deadline == self.at(5))
    // If it could not be ended, it is not tried again.
    #expect(reaper.listed([late], ways: self.ways, at: self.at(5)).isEmpty)
    #expect(reaper.deadline == nil)
    #expect(reaper.listed([], ways: [:], at: self.at(6)).isEmpty)
  }

  @Test("R2 no other path exists → a lost connection is held until the patience is over")
  func patience() throws {
    var reaper = try self.reaper()
    _ = reaper.received(self.loss(.sourceAddressLost), id: 1, at: self.at(1))
    // A path from the same address is its own path.
    let own = self.ways.mapValues { _ in self.path(Self.wlan0, "192.0.2.7") }
    for second in [3.0, 5, 7, 9, 10.9] {
      let held = try self.connection(heard: (0.9, listed: second), .sourceAddressLost)
      #expect(reaper.listed([held], ways: own, at: self.at(second)).isEmpty)
    }
    let last = try self.connection(heard: (0.9, listed: 11), .sourceAddressLost)
    #expect(
      reaper.listed([last], ways: [:], at: self.at(11))
        == [.end(last, Reaper.Loss(reason: .sourceAddressLost, link: Self.eth0))])
  }

  struct Return: Sendable, CustomTestStringConvertible {
    var name: String
    var reason: Invalidation.Reason
    var heard: Double
    var listed: Invalidation.Reason?
    var isForgiven: Bool
    var testDescription: String { self.name }
  }

  @Test(
    "R2 R3 a lost connection is judged again → what was heard since, or is back, goes on",
    arguments: [
      Return(
        name: "silent and still lost", reason: .interfaceLost, heard: 0.9, listed: .interfaceLost,
        isForgiven: false),
      Return(
        name: "a packet was under way", reason: .interfaceLost, heard: 1.03, listed: .interfaceLost,
        isForgiven: false),
      Return(
        name: "its peer answers", reason: .interfaceLost, heard: 2.5, listed: .interfaceLost,
        isForgiven: true),
      Return(
        name: "its path is back", reason: .interfaceLost, heard: 0.9, listed: nil, isForgiven: true),
      Return(
        name: "only a better path is left", reason: .interfaceLost, heard: 0.9, listed: .betterPath,
        isForgiven: true),
      Return(
        name: "a loss without a sign in the routing tables", reason: .silent, heard: 0.9,
        listed: nil, isForgiven: false),
      Return(
        name: "silence that has ended", reason: .silent, heard: 2.9, listed: nil, isForgiven: true),
    ])
  func judgedAgain(_ row: Return) throws {
    var reaper = try self.reaper()
    _ = reaper.received(self.loss(row.reason), id: 1, at: self.at(1))
    let connection = try self.connection(heard: (row.heard, listed: 3), row.listed)
    let actions = reaper.listed([connection], ways: self.ways, at: self.at(3))
    if row.isForgiven {
      #expect(actions == [.guardFlow(connection.flow, id: 2, madeOn: nil)])
    } else {
      guard case .end(connection, _)? = actions.first else {
        Issue.record("\(actions)")
        return
      }
    }
  }

  @Test("R2 connd goes away → nothing ends, and what was held is guarded again")
  func absent() throws {
    var reaper = try self.reaper()
    _ = reaper.received(self.loss(.interfaceLost), id: 1, at: self.at(1))
    reaper.lost()
    #expect(reaper.deadline == nil)
    let connection = try self.connection(heard: (0.9, listed: 20), .interfaceLost)
    #expect(
      reaper.listed([connection], ways: self.ways, at: self.at(20))
        == [.guardFlow(connection.flow, id: 2, madeOn: nil)])
  }

  @Test("R6 a connection has ended → it is released; connd refuses one → it is left alone")
  func endings() throws {
    var reaper = try self.reaper()
    #expect(reaper.listed([], ways: [:], at: self.at(1)) == [.release(id: 1)])
    // An event that was under way is late.
    #expect(reaper.received(self.loss(.interfaceLost), id: 1, at: self.at(1)).isEmpty)
    let other = try self.connection(2)
    _ = reaper.listed([other], ways: [:], at: self.at(1))
    let refusal = FlowRefusal(code: .resourceExhausted, message: "full")
    #expect(reaper.received(.refused(refusal), id: 2, at: self.at(1)).isEmpty)
    #expect(reaper.listed([other], ways: [:], at: self.at(2)).isEmpty)
  }

  @Test("R5 what connd lists → which connections may be ended")
  func eligible() {
    func isEligible(_ change: (inout Connectivity_V1_Connection) -> Void) -> Bool {
      var connection = Connectivity_V1_Connection.with {
        ($0.local, $0.localPort) = ("192.0.2.7", 4000)
        ($0.remote, $0.remotePort) = ("203.0.113.9", 443)
        ($0.socketCookie, $0.tcpState) = (1, .established)
      }
      change(&connection)
      return ReapableConnection(connection) != nil
    }
    #expect(isEligible { _ in })
    #expect(isEligible { $0.tcpState = .synSent })
    // A program may end its own direction, and still wait for the answer.
    #expect(isEligible { $0.tcpState = .finWait2 })
    #expect(!isEligible { $0.remote = $0.local })
    #expect(!isEligible { ($0.local, $0.remote) = ("::1", "::1") })
    #expect(!isEligible { $0.remote = "127.0.0.5" })
    // A connd that does not report sockets' numbers.
    #expect(!isEligible { $0.socketCookie = 0 })
  }
}
