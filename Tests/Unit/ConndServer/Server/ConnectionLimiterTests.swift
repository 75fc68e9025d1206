import Invariants
import Logging
import Synchronization
import Testing
import UnixTransport

@testable import ConndServer

@Suite("ConnectionLimiter")
struct ConnectionLimiterTests {
  @Test("each limit is logged separately, and not once per client")
  func log() {
    let lines = Lines()
    let keeper = ConnectionLimiter(
      Limits(), statistics: Statistics(), logger: Logger(label: "test") { _ in lines })
    let peer = PeerCredentials(uid: 1000, pid: 7)
    for _ in 0..<100 { keeper.refused(peer, limit: "messageSize") }
    for _ in 0..<100 { keeper.refused(peer, limit: "streams") }
    #expect(
      lines.all == [
        "a client has exceeded limits.messageSize", "a client has exceeded limits.streams",
      ])
  }

  private static let peer = PeerCredentials(uid: 1000, pid: 7)

  private func limiter(_ change: (inout Limits) -> Void = { _ in }) -> ConnectionLimiter {
    var limits = Limits()
    change(&limits)
    return ConnectionLimiter(
      limits, statistics: Statistics(),
      logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
  }

  private final class Owner {
    private let charge: Charge
    init(_ charge: consuming Charge) { self.charge = charge }
  }

  @Test("D4 a user has its limit → it gets no more until the owner of a charge ends")
  func released() throws {
    let limiter = self.limiter { $0.connectionsPerUser = 2 }
    func owner() throws -> Owner {
      Owner(try Charge(1, of: .connections, by: Self.peer, limiter))
    }
    var owners = [try owner(), try owner()]
    #expect(throws: UnixTransport.Refusal.self) { try owner() }
    #expect(limiter.inUse(.connections) == 2)
    owners.removeFirst()
    owners.append(try owner())
    owners = []
    #expect(limiter.inUse(.connections) == 0)
  }

  @Test(
    "D4 users without a known owner hold all that they get → another such user is served",
    arguments: LimitedResource.allCases)
  func unknownUsers(resource: LimitedResource) throws {
    let limiter = self.limiter()
    var owners: [Owner] = []
    func fill(_ uid: UInt32) -> UnixTransport.Refusal? {
      let peer = PeerCredentials(uid: uid, pid: 7)
      let amount = resource == .pendingMemory ? 64 << 10 : 1
      while true {
        do throws(UnixTransport.Refusal) {
          owners.append(Owner(try Charge(amount, of: resource, by: peer, limiter)))
        } catch {
          return error
        }
      }
    }
    let refusal = fill(100_000)
    let key = "limits.\(resource.rawValue)PerUser"
    #expect(refusal?.message.contains("of all users without a known owner (\(key))") == true)
    let held = owners.count
    _ = fill(1_234_567)
    #expect(owners.count > held + held / 4)
    owners = []
    #expect(limiter.inUse(resource) == 0)
  }

  @Test("D4 a charge grows and shrinks → the difference is admitted, and all is released once")
  func changed() throws {
    let limiter = self.limiter { $0.pendingMemoryPerUser = 1000 }
    func use() throws {
      var charge = Charge(of: .pendingMemory, by: Self.peer, limiter)
      #expect(limiter.inUse(.pendingMemory) == 0)
      for (bytes, used) in [(600, 600), (1000, 1000), (400, 400), (0, 0), (900, 900)] {
        try charge.grow(to: bytes)
        charge.shrink(to: bytes)
        #expect(limiter.inUse(.pendingMemory) == used)
      }
      var refusal: UnixTransport.Refusal?
      do throws(UnixTransport.Refusal) { try charge.grow(to: 1001) } catch { refusal = error }
      #expect(refusal != nil && charge.amount == 900)
    }
    try use()
    #expect(limiter.inUse(.pendingMemory) == 0)
  }

  @Test("D4 a call's memory is closed twice and ends → its bytes are released once")
  func closedTwice() throws {
    let limiter = self.limiter()
    var memory: CallMemory? = CallMemory(of: Self.peer, limiter)
    try memory?.set(.answers, to: CallMemory.free + 100)
    let other = CallMemory(of: Self.peer, limiter)
    try other.set(.requests, to: CallMemory.free + 10)
    #expect(limiter.inUse(.pendingMemory) == 110)
    memory?.close()
    memory?.close()
    memory = nil
    #expect(limiter.inUse(.pendingMemory) == 10)
  }

  @Test("all charges end → the limiter ends with nothing in use; otherwise that is reported")
  func end() throws {
    let faults = Invariants { _ in }
    try Invariants.$observer.withValue(faults) {
      _ = try Charge(3, of: .streams, by: Self.peer, self.limiter())
      #expect(faults.count == 0)
      // Without a charge, no owner releases it.
      try self.limiter().admit(1, of: .streams, by: Self.peer)
      #expect(faults.count == 1)
    }
  }

  @Test("more is released than was admitted → reported, and nothing is counted below zero")
  func releasedTwice() throws {
    let limiter = self.limiter()
    let faults = Invariants { _ in }
    try limiter.admit(2, of: .streams, by: Self.peer)
    Invariants.$observer.withValue(faults) { limiter.release(3, of: .streams, by: Self.peer) }
    #expect(faults.count == 1 && limiter.inUse(.streams) == 0)
  }
}

/// Keeps the messages that are logged.
private final class Lines: LogHandler {
  private let lines = Mutex<[String]>([])
  var all: [String] { self.lines.withLock { $0 } }

  var metadata: Logger.Metadata {
    get { [:] }
    set {}
  }
  var logLevel: Logger.Level {
    get { .notice }
    set {}
  }
  subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { nil }
    set {}
  }

  func log(event: LogEvent) { self.lines.withLock { $0.append("\(event.message)") } }
}
