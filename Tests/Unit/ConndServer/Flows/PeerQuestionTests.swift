import Connectivity
import ConnectivityRules
import Testing

@testable import ConndServer

/// The questions of connd to the owners of flows, and their consequences (E4).
@Suite("Questions to peers, in the loop")
struct PeerQuestionTests {
  private static let port: UInt16 = 40_000

  /// The report of an idle socket, after this many probes and answers.
  private func idle(
    _ milliseconds: Int, probes: UInt32 = 0, answers: UInt32 = 0
  ) -> SocketReport {
    SocketReport(
      silence: .milliseconds(milliseconds), roundTrip: .milliseconds(1), segments: probes,
      probes: Int(probes - answers), acknowledgements: answers)
  }

  /// A loop with a flow over eth0. The flow's owner can ask its peer, and netfilter tracks
  /// connections.
  private func askable() throws -> TestLoop {
    var loop = try TestLoop.started()
    loop.kernel.tracksConnections = true
    loop.kernel.sockets[Self.port] = self.idle(60_000)
    #expect(
      try loop.guardFlow(1, local: "192.0.2.7", port: Self.port, question: .keepalive)
        == ["1 path eth0"])
    return loop
  }

  @Test("E1 E4 a link fails below an idle flow → its owner asks, and the answer decides")
  func asked() throws {
    for isAlive in [true, false] {
      var loop = try self.askable()
      loop.kernel.setState(of: 2, .noCarrier)
      #expect(loop.tell() == ["1 advise interfaceLost, ask"])
      #expect(loop.loop.due == loop.clock.now.advanced(by: .milliseconds(20)))
      loop.kernel.sockets[Self.port] =
        isAlive ? self.idle(15, probes: 1, answers: 1) : self.idle(60_020, probes: 1)
      #expect(loop.turn(after: .milliseconds(20)) == [])
      #expect(loop.count("spared") == (isAlive ? 1 : 0))
      #expect(
        loop.turn(after: .milliseconds(200)) == (isAlive ? [] : ["1 destroy interfaceLost"]))
    }
  }

  @Test("E2 E4 a change touches an idle flow → its owner asks, once a change")
  func idleAsked() throws {
    var loop = try self.askable()
    #expect(loop.tell() == [])
    #expect(loop.turn(after: .seconds(1)) == ["1 path eth0, ask"])
    loop.kernel.sockets[Self.port] = self.idle(1900, probes: 1, answers: 1)
    #expect(loop.turn(after: .seconds(2)) == [])
    #expect(loop.loop.due == nil)
  }

  @Test("E2 E4 an idle flow's peer answers no question → advised, and destroyed after six seconds")
  func idleDead() throws {
    var loop = try self.askable()
    #expect(loop.tell() == [])
    #expect(loop.turn(after: .seconds(1)) == ["1 path eth0, ask"])
    loop.kernel.sockets[Self.port] = self.idle(63_000, probes: 1)
    #expect(loop.turn(after: .seconds(2)) == ["1 path eth0, ask"])
    loop.kernel.sockets[Self.port] = self.idle(65_000, probes: 2)
    #expect(loop.turn(after: .seconds(2)) == ["1 advise silent, ask"])
    loop.kernel.sockets[Self.port] = self.idle(67_000, probes: 3)
    #expect(loop.turn(after: .seconds(2)) == ["1 destroy silent"])
  }

  @Test("E2 E4 the owner of an idle flow asks once only → one loss does not end it")
  func idleAskedOnce() throws {
    var loop = try self.askable()
    #expect(loop.tell() == [])
    #expect(loop.turn(after: .seconds(1)) == ["1 path eth0, ask"])
    loop.kernel.sockets[Self.port] = self.idle(63_000, probes: 1)
    #expect(loop.turn(after: .seconds(2)) == ["1 path eth0, ask"])
    loop.kernel.sockets[Self.port] = self.idle(65_000, probes: 1)
    #expect(loop.turn(after: .seconds(2)) == [])
    #expect(loop.loop.due == nil)
  }

  @Test("E1 E4 a connection that can be asked is registered in doubt → it is asked")
  func registeredAndAsked() throws {
    var loop = try self.askable()
    let known = loop.loop.engine.flows.entries[.init(mailbox: 1, id: 1)]?.reported
    loop.kernel.setState(of: 2, .noCarrier)
    _ = loop.tell()
    loop.kernel.sockets[Self.port + 1] = self.idle(60_000)
    let told = try loop.guardFlow(
      2, local: "192.0.2.7", port: Self.port + 1, known: known, question: .keepalive)
    #expect(told.first?.hasPrefix("2 advise interfaceLost") == true, "\(told)")
    loop.kernel.sockets[Self.port] = self.idle(60_020, probes: 1)
    let later = loop.turn(after: .milliseconds(1))
    #expect(later.contains { $0.hasPrefix("2 ") && $0.hasSuffix(", ask") }, "\(later)")
  }

  @Test("E2 E4 the owner of an idle flow does not ask → nothing happens")
  func idleNotAsked() throws {
    var loop = try self.askable()
    #expect(loop.tell() == [])
    #expect(loop.turn(after: .seconds(1)) == ["1 path eth0, ask"])
    #expect(loop.turn(after: .seconds(2)) == [])
    #expect(loop.loop.due == nil)
  }

  @Test("E0 E1 a spared flow's lookup finds no route any more → proof, and destroyed")
  func sparedAndDropped() throws {
    for isIdle in [false, true] {
      var loop = try self.askable()
      func hear(_ probes: UInt32) {
        loop.kernel.sockets[Self.port] =
          isIdle ? self.idle(60_000, probes: probes, answers: probes) : self.idle(3)
      }
      hear(0)
      loop.kernel.setState(of: 2, .noCarrier)
      #expect(loop.tell().first?.hasPrefix("1 advise interfaceLost") == true)
      hear(1)
      _ = loop.turn(after: .milliseconds(200))
      #expect(loop.count("spared") == 1)
      loop.kernel.routes = []
      loop.kernel.sockets[Self.port] = SocketReport(
        silence: .milliseconds(500), inFlight: 10, roundTrip: .milliseconds(20),
        hasUnacknowledgedData: true, nextTimeout: .milliseconds(200))
      let told = loop.tell() + loop.turn(after: .milliseconds(300))
      #expect(told.last == "1 destroy interfaceLost", "\(told)")
    }
  }
}
