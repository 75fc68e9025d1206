import Connectivity
import ConnectivityRules
import Testing

@testable import ConndServer

/// The loop's queries to sockets, and their consequences.
@Suite("Socket queries")
struct SocketInquiryTests {
  private static let port: UInt16 = 40_000

  /// A flow over eth0 that names its socket.
  private func loop() throws -> TestLoop {
    var loop = try TestLoop.started()
    #expect(try loop.guardFlow(1, local: "192.0.2.7", port: Self.port) == ["1 path eth0"])
    return loop
  }

  /// A socket that has been silent for this long, with unacknowledged data.
  private func silent(
    _ milliseconds: Int, timeouts: Int = 0, nextTimeout: Int = 200
  ) -> SocketReport {
    SocketReport(
      silence: .milliseconds(milliseconds), inFlight: 10, roundTrip: .milliseconds(20),
      timeouts: timeouts, hasUnacknowledgedData: true, resent: UInt64(timeouts),
      nextTimeout: .milliseconds(nextTimeout))
  }

  @Test("E3 without a change no socket is queried, and no timer runs")
  func idle() throws {
    var loop = try self.loop()
    loop.kernel.sockets[Self.port] = self.silent(9000, timeouts: 9)
    #expect(loop.turn(after: .seconds(3600)) == [])
    #expect(loop.loop.due == nil)
    #expect(loop.kernel.socketQuestions == 0)
  }

  @Test("E3 a flow that names no socket is never queried, and no timer runs after a change")
  func noSocket() throws {
    var loop = try TestLoop.started()
    #expect(try loop.guardFlow(1, local: "192.0.2.7") == ["1 path eth0"])
    #expect(loop.tell() == [])
    #expect(loop.loop.due == nil)
    #expect(loop.turn(after: .seconds(2)) == [])
    #expect(loop.kernel.socketQuestions == 0)
  }

  @Test("E2 E3 a healthy socket is queried once, a second after a change, and not again")
  func healthy() throws {
    var loop = try self.loop()
    loop.kernel.sockets[Self.port] = SocketReport(
      silence: .milliseconds(300), roundTrip: .milliseconds(20))
    #expect(loop.tell() == [])
    #expect(loop.loop.due == loop.clock.now.advanced(by: .seconds(1)))
    #expect(loop.turn(after: .milliseconds(900)) == [])
    #expect(loop.kernel.socketQuestions == 0)
    #expect(loop.turn(after: .milliseconds(100)) == [])
    #expect(loop.kernel.socketQuestions == 1)
    #expect(loop.loop.due == nil)
  }

  @Test(
    "E2 a newer connection to the same host is heard → the silent one ends at its third timeout")
  func contrast() throws {
    for (isSameHost, isKnown) in [(true, false), (false, false), (true, true)] {
      var loop = try self.loop()
      loop.kernel.sockets[Self.port] = self.silent(1005, timeouts: 2, nextTimeout: 400)
      #expect(loop.tell() == [])
      #expect(loop.turn(after: .seconds(1)) == ["1 advise silent"])
      // A connection that its user has had for longer has sent everything before.
      loop.kernel.sockets[Self.port + 1] = SocketReport(
        silence: .milliseconds(5), progress: isKnown ? 500 : 1, roundTrip: .milliseconds(20))
      _ = loop.turn(after: .milliseconds(30))
      #expect(
        try loop.guardFlow(
          2, local: isSameHost ? "192.0.2.7" : nil, port: Self.port + 1) == ["2 path eth0"])
      loop.kernel.sockets[Self.port + 1] = SocketReport(
        silence: .milliseconds(400), progress: 500, roundTrip: .milliseconds(20))
      loop.kernel.sockets[Self.port] = self.silent(1545, timeouts: 3, nextTimeout: 1460)
      #expect(
        loop.turn(after: .milliseconds(510))
          == (isSameHost && !isKnown ? ["1 destroy silent"] : []))
    }
  }

  @Test("E2 a change elsewhere → no socket is queried")
  func elsewhere() throws {
    var loop = try self.loop()
    loop.kernel.sockets[Self.port] = self.silent(9000, timeouts: 9)
    #expect(loop.tell([.link(Link(index: 9, name: "veth9"))]) == [])
    #expect(loop.turn(after: .seconds(1)) == [])
    #expect(loop.kernel.socketQuestions == 0)
    #expect(loop.loop.due == nil)
  }

  @Test("E0 E2 netfilter tracks connections → any change leads to a query")
  func elsewhereWithoutProof() throws {
    var loop = try self.loop()
    loop.kernel.tracksConnections = true
    loop.kernel.sockets[Self.port] = SocketReport(
      silence: .milliseconds(300), roundTrip: .milliseconds(20))
    #expect(loop.tell([.link(Link(index: 9, name: "veth9"))]) == [])
    #expect(loop.turn(after: .seconds(1)) == [])
    #expect(loop.kernel.socketQuestions == 1)
  }

  @Test("E2 a flow has the address of another link → any change leads to a query")
  func elsewhereFromOtherLink() throws {
    var loop = try TestLoop.started { kernel in
      kernel.addLink(3, "wlan0")
      try kernel.give("198.51.100.7", to: 3)
    }
    #expect(try loop.guardFlow(1, local: "198.51.100.7", port: Self.port) == ["1 path eth0"])
    loop.kernel.sockets[Self.port] = self.silent(1005, timeouts: 2, nextTimeout: 400)
    #expect(loop.tell([.link(Link(index: 9, name: "veth9"))]) == [])
    #expect(loop.turn(after: .seconds(1)) == ["1 advise silent"])
  }

  @Test("E2 a flow's path moves → its socket is queried, whatever message came with it")
  func moved() throws {
    var loop = try self.loop()
    loop.kernel.sockets[Self.port] = SocketReport(
      silence: .milliseconds(3), roundTrip: .milliseconds(20))
    loop.kernel.routes = []
    try loop.kernel.lead("0.0.0.0", 0, .over(2, via: "192.0.2.2", from: "192.0.2.7"), metric: 100)
    let elsewhere = KernelEvent.link(Link(index: 9, name: "veth9"))
    #expect(loop.tell([elsewhere]) == ["1 path eth0"])
    loop.clock.instant = loop.clock.instant.advanced(by: .milliseconds(600))
    #expect(loop.tell([elsewhere]) == [])
    #expect(loop.turn(after: .milliseconds(400)) == [])
    #expect(loop.kernel.socketQuestions == 1)
    // The kernel may follow its routes only at the later change.
    #expect(loop.turn(after: .milliseconds(600)) == [])
    #expect(loop.kernel.socketQuestions == 2)
  }

  @Test("E2 a silent socket is queried at each timeout until its flow is found dead")
  func found() throws {
    var loop = try self.loop()
    loop.kernel.sockets[Self.port] = self.silent(1010, timeouts: 1, nextTimeout: 400)
    #expect(loop.tell() == [])
    #expect(loop.turn(after: .seconds(1)) == [])
    loop.kernel.sockets[Self.port] = self.silent(1550, timeouts: 2, nextTimeout: 800)
    #expect(loop.turn(after: .milliseconds(540)) == ["1 advise silent"])
    loop.kernel.sockets[Self.port] = self.silent(3030, timeouts: 3, nextTimeout: 1600)
    #expect(loop.turn(after: .milliseconds(1480)) == [])
    loop.kernel.sockets[Self.port] = self.silent(6010, timeouts: 4, nextTimeout: 200)
    #expect(loop.turn(after: .milliseconds(2980)) == [])
    loop.kernel.sockets[Self.port] = self.silent(6350, timeouts: 5, nextTimeout: 6260)
    #expect(loop.turn(after: .milliseconds(340)) == ["1 destroy silent"])
    #expect(loop.count("found") == 1)
    #expect(loop.loop.due == nil)
  }

  @Test("E2 a second change within a second leads to a query of its own")
  func secondChange() throws {
    var loop = try self.loop()
    loop.kernel.sockets[Self.port] = SocketReport(
      silence: .milliseconds(3), roundTrip: .milliseconds(20))
    #expect(loop.tell() == [])
    loop.clock.instant = loop.clock.instant.advanced(by: .milliseconds(600))
    #expect(loop.tell() == [])
    #expect(loop.turn(after: .milliseconds(400)) == [])
    #expect(loop.kernel.socketQuestions == 1)
    #expect(loop.turn(after: .milliseconds(600)) == [])
    #expect(loop.kernel.socketQuestions == 2)
    #expect(loop.loop.due == nil)
  }

  @Test("E1 a flow over a dead link is advised, and spared if its socket still receives")
  func spared() throws {
    var loop = try self.loop()
    loop.kernel.sockets[Self.port] = SocketReport(
      silence: .milliseconds(3), roundTrip: .milliseconds(20))
    loop.kernel.routes = []
    loop.kernel.linkTable[2] = nil
    #expect(loop.tell() == ["1 advise interfaceLost"])
    #expect(loop.turn(after: .milliseconds(60)) == [])
    #expect(loop.count("spared") == 1)
    #expect(loop.turn(after: .seconds(5)) == [])
  }

  @Test("E0 E1 netfilter tracks connections → a flow that speaks has a second over a dead link")
  func notProof() throws {
    var loop = try self.loop()
    func hear(_ milliseconds: Int) {
      loop.kernel.sockets[Self.port] = SocketReport(
        silence: .milliseconds(milliseconds), roundTrip: .milliseconds(20))
    }
    loop.kernel.tracksConnections = true
    hear(5)
    loop.kernel.setState(of: 2, .noCarrier)
    #expect(loop.tell() == ["1 advise interfaceLost"])
    #expect(loop.kernel.trackingQuestions == 1)
    hear(505)
    #expect(loop.turn(after: .milliseconds(500)) == [])
    hear(1005)
    #expect(loop.turn(after: .milliseconds(500)) == ["1 drain interfaceLost"])
    #expect(loop.kernel.trackingQuestions == 1)
  }

  @Test("E0 the kernel has no route for a flow → the lookup is proof, whatever netfilter does")
  func dropped() throws {
    var loop = try self.loop()
    loop.kernel.tracksConnections = true
    loop.kernel.sockets[Self.port] = SocketReport(
      silence: .milliseconds(2000), roundTrip: .milliseconds(20))
    loop.kernel.routes = []
    loop.kernel.linkTable[2] = nil
    #expect(loop.tell() == ["1 destroy interfaceLost"])
    #expect(loop.kernel.trackingQuestions == 0)
  }

  @Test("E0 an explanation says what may send packets elsewhere than the lookup")
  func explained() throws {
    let loop = try TestLoop.started()
    loop.kernel.sockets[Self.port] = self.silent(5)
    var destination = Destination(try IPAddress(spelt: "203.0.113.9"))
    destination.source = try IPAddress(spelt: "192.0.2.7")
    destination.transport = Transport(6, localPort: Self.port, remotePort: 443)
    let connection = destination
    func diversions() throws -> [String] {
      try loop.loop.ask { queries throws(KernelUnavailable) in
        try queries.explain(connection)
      }.get().diversions
    }
    #expect(try diversions() == [])
    loop.kernel.tracksConnections = true
    #expect(try diversions() == ["netfilter or IPVS may translate addresses"])
  }

  @Test("E0 no flow is dead by its lookup → connd does not ask whether the lookup is proof")
  func proofNotNeeded() throws {
    var loop = try self.loop()
    #expect(loop.tell() == [])
    #expect(loop.kernel.trackingQuestions == 0)
  }

  @Test("E1 I10 a connection is registered in doubt → evidence counts from its registration")
  func registeredInDoubt() throws {
    var loop = try TestLoop.started()
    loop.kernel.routes = []
    _ = loop.tell()
    loop.kernel.sockets[Self.port] = SocketReport(
      silence: .milliseconds(5), roundTrip: .milliseconds(1))
    let told = try loop.guardFlow(1, local: "192.0.2.7", port: Self.port)
    #expect(told.first?.hasPrefix("1 advise interfaceLost") == true, "\(told)")
    loop.kernel.sockets[Self.port] = SocketReport(
      silence: .milliseconds(200), roundTrip: .milliseconds(1))
    #expect(loop.turn(after: .seconds(1)) == [])
    #expect(loop.count("spared") == 1)
  }

  @Test("E1 a lookup waits for the kernel's locks → the silence counts from the socket's report")
  func slowLookup() throws {
    var loop = try self.loop()
    loop.kernel.sockets[Self.port] = SocketReport(
      silence: .milliseconds(15), roundTrip: .milliseconds(1))
    loop.kernel.routes = []
    loop.kernel.linkTable[2] = nil
    #expect(loop.tell() == ["1 advise interfaceLost"])
    loop.kernel.sockets[Self.port] = SocketReport(
      silence: .milliseconds(30), roundTrip: .milliseconds(1))
    let clock = loop.clock
    loop.kernel.happens(after: 0) {
      clock.instant = clock.instant.advanced(by: .milliseconds(300))
    }
    #expect(loop.turn(after: .milliseconds(22)) == [])
    #expect(loop.count("spared") == 1)
  }

  @Test("E1 the thread pauses between a report and the clock → data from before proves nothing")
  func pausedThread() throws {
    var loop = try self.loop()
    loop.kernel.sockets[Self.port] = SocketReport(
      silence: .milliseconds(3), roundTrip: .milliseconds(1))
    loop.kernel.routes = []
    loop.kernel.linkTable[2] = nil
    let clock = loop.clock
    loop.kernel.onSocketReports = { clock.instant = clock.instant.advanced(by: .milliseconds(80)) }
    #expect(loop.tell() == ["1 advise interfaceLost"])
    loop.kernel.onSocketReports = {}
    loop.kernel.sockets[Self.port] = self.silent(300)
    #expect(loop.turn(after: .milliseconds(200)) == ["1 destroy interfaceLost"])
    #expect(loop.count("spared") == 0)
  }

  @Test(
    "E1 I1 the address is lost after the route → data from in between proves nothing",
    arguments: [true, false])
  func addressLostLater(isDefaultLost: Bool) throws {
    var loop = try self.loop()
    if isDefaultLost {
      loop.kernel.routes = []
    } else {
      try loop.kernel.lead("203.0.113.9", 32, .noRoute(.unreachable))
    }
    #expect(loop.tell() == ["1 advise interfaceLost"])
    // Data arrives 0.65 s after the loss of the route, and the address is lost 50 ms later.
    loop.clock.instant = loop.clock.instant.advanced(by: .milliseconds(700))
    loop.kernel.sockets[Self.port] = SocketReport(
      silence: .milliseconds(50), roundTrip: .milliseconds(20))
    loop.kernel.take("192.0.2.7")
    #expect(loop.tell() == ["1 advise sourceAddressLost"])
    loop.kernel.sockets[Self.port] = SocketReport(
      silence: .milliseconds(350), roundTrip: .milliseconds(20))
    #expect(loop.turn(after: .milliseconds(300)) == ["1 destroy sourceAddressLost"])
    #expect(loop.count("spared") == 0)
  }

  @Test(
    "E1 I1 the address is lost while another change is read → data from before proves nothing")
  func addressLostMeanwhile() throws {
    var calm = try self.loop()
    let before = calm.kernel.questions
    _ = calm.tell()
    for questions in 0..<(calm.kernel.questions - before) {
      var loop = try self.loop()
      let (kernel, clock) = (loop.kernel, loop.clock)
      kernel.sockets[Self.port] = SocketReport(
        silence: .milliseconds(10), roundTrip: .milliseconds(1))
      // Data arrives 40 ms after the first change, and the address is lost 10 ms later.
      kernel.happens(after: questions) {
        clock.instant = clock.instant.advanced(by: .milliseconds(50))
        kernel.take("192.0.2.7")
        kernel.untold.append { [.rule(.ipv4)] }
      }
      var told = loop.tell() + loop.turn()
      kernel.sockets[Self.port] = SocketReport(
        silence: .milliseconds(1510), roundTrip: .milliseconds(1))
      told += loop.turn(after: .milliseconds(1500))
      #expect(told.last == "1 destroy sourceAddressLost", "\(questions): \(told)")
      #expect(loop.count("spared") == 0)
    }
  }

  @Test(
    "E1 the link is lost while another change is read, and messages never end → data from before proves nothing"
  )
  func linkLostMeanwhile() throws {
    var calm = try self.loop()
    let before = calm.kernel.questions
    calm.kernel.isNeverSilent = true
    _ = calm.tell()
    for questions in 0..<(calm.kernel.questions - before) {
      var loop = try self.loop()
      let (kernel, clock) = (loop.kernel, loop.clock)
      kernel.sockets[Self.port] = SocketReport(
        silence: .milliseconds(10), roundTrip: .milliseconds(1))
      kernel.isNeverSilent = true
      // As above.
      kernel.happens(after: questions) {
        clock.instant = clock.instant.advanced(by: .milliseconds(50))
        kernel.routes = []
        kernel.linkTable[2] = nil
      }
      var told = loop.tell()
      kernel.isNeverSilent = false
      kernel.sockets[Self.port] = SocketReport(
        silence: .milliseconds(1510), roundTrip: .milliseconds(1))
      told += loop.tell()
      told += loop.turn(after: .milliseconds(1500))
      #expect(told.last == "1 destroy interfaceLost", "\(questions): \(told)")
      #expect(loop.count("spared") == 0)
    }
  }

  @Test("E1 a flow over a dead link is destroyed if its socket stays silent")
  func destroyed() throws {
    var loop = try self.loop()
    loop.kernel.sockets[Self.port] = self.silent(3)
    loop.kernel.routes = []
    loop.kernel.linkTable[2] = nil
    #expect(loop.tell() == ["1 advise interfaceLost"])
    loop.kernel.sockets[Self.port] = self.silent(63)
    #expect(loop.turn(after: .milliseconds(60)) == ["1 destroy interfaceLost"])
  }
}
