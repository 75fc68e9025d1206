import Connectivity
import Testing

@testable import ConnectivityRules

/// Sockets that only look like evidence for a verdict.
@Suite("Traps of diagnoses")
struct DiagnosisTrapTests {
  private typealias Sockets = ObservedSockets
  private static let hosts = ObservedSockets.hosts

  private func judge(_ body: (inout ObservedSockets) -> Void) -> Diagnosis {
    var sockets = ObservedSockets()
    sockets.addHeard(Self.hosts[3])
    body(&sockets)
    return sockets.diagnosis
  }

  private static let silent = SocketSample.TCPState(
    timeouts: 4, inFlight: 1, sentAgain: 1, timeout: .seconds(3), silence: .seconds(9))

  @Test("Q7 no process has the silent socket open, or it is in TIME_WAIT → it does not count")
  func leftovers() {
    let orphan = self.judge { sockets in
      sockets.add(Self.hosts[0], Self.silent, Self.silent) { $0.inode = 0 }
    }
    #expect(orphan.verdict == .nothingWrong && orphan.connections == 1)
    #expect(self.judge { $0.add(Self.hosts[0], nil, nil) }.connections == 1)
  }

  @Test("Q7 the socket is within this machine → it does not count")
  func local() {
    let diagnosis = self.judge { sockets in
      sockets.add(Sockets.source, Self.silent, Self.silent)
      sockets.add("127.0.0.1", Self.silent, Self.silent)
    }
    #expect(diagnosis.verdict == .nothingWrong && diagnosis.connections == 1)
  }

  @Test("Q7 the peer has closed its window → it is neither silent nor held back")
  func zeroWindow() {
    let state = SocketSample.TCPState(backoff: 3, unsent: 9000, window: 0, silence: .seconds(2))
    let diagnosis = self.judge { sockets in
      sockets.add(Self.hosts[0], state, state) { $0.timer = SocketSample.probeTimer }
    }
    #expect(diagnosis.verdict == .nothingWrong && diagnosis.connections == 1)
  }

  @Test("Q7 a kernel that does not report the window → nothing is held back")
  func unknownWindow() {
    let state = SocketSample.TCPState(backoff: 3, unsent: 9000, window: nil, silence: .seconds(2))
    let diagnosis = self.judge { sockets in
      sockets.add(Self.hosts[0], state, state) { $0.timer = SocketSample.probeTimer }
    }
    #expect(diagnosis.verdict == .nothingWrong)
  }

  @Test("Q7 the link's queue is full, so that the timer does not double → nothing is held back")
  func fullQueue() {
    let state = SocketSample.TCPState(unsent: 9000, silence: .milliseconds(100))
    let diagnosis = self.judge { sockets in
      sockets.add(Self.hosts[0], state, state) { $0.timer = SocketSample.probeTimer }
    }
    #expect(diagnosis.verdict == .nothingWrong)
  }

  @Test(
    "Q7 data was sent again and has not arrived, while small segments are acknowledged → unknown",
    arguments: [(0, 12, false), (1, 3, false), (0, 11, true), (0, 0, true)])
  func notArrived(timeouts: UInt8, sentAgain: UInt32, isLost: Bool) {
    let before = SocketSample.TCPState(inFlight: 14, received: 10)
    let after = SocketSample.TCPState(
      timeouts: timeouts, inFlight: 14, sentAgain: sentAgain, resent: 12, received: 11)
    let diagnosis = self.judge { sockets in
      for host in Self.hosts[0..<2] { sockets.add(host, before, after) }
    }
    #expect(diagnosis.verdict == (isLost ? .packetsLost : .unknown))
  }

  @Test("Q7 SYNs that are not in flight → an unanswered ARP, unless retransmissions failed")
  func connecting() {
    let unanswered = self.judge { sockets in
      for _ in 0..<2 { sockets.addConnecting(Sockets.neighbour) }
    }
    #expect(unanswered.verdict == .onlyDestination && unanswered.hosts == [Sockets.neighbour])
    let dropped = self.judge { sockets in
      sockets.addConnecting(Self.hosts[0])
      sockets.facts.failedRetransmissions = 2
    }
    #expect(dropped.verdict == .notLetOut && dropped.hosts == [Self.hosts[0]])
    let lost = self.judge { sockets in
      sockets.addConnecting(Self.hosts[0], sentAgain: 1)
      sockets.facts.failedRetransmissions = 2
    }
    #expect(lost.verdict == .onlyDestination)
  }

  @Test("Q7 a user talks to a dead host alone, others to living ones → only this server")
  func onlyHostOfUser() {
    var sockets = ObservedSockets()
    sockets.addSilent(Self.hosts[0])
    for host in Self.hosts[1...] { sockets.addHeard(host, user: Sockets.other) }
    #expect(sockets.diagnosis.verdict == .onlyDestination)
  }

  @Test("Q7 two users of one person → not another user's way")
  func samePerson() {
    var sockets = ObservedSockets()
    sockets.addSilent(Self.hosts[0])
    let state = (SocketSample.TCPState(received: 1), SocketSample.TCPState(received: 2))
    sockets.add(Self.hosts[0], state.0, state.1, user: 100_000)
    sockets.findings[1].person = Sockets.own
    #expect(sockets.diagnosis.verdict == .onlyDestination)
  }

  @Test("Q7 only TCP to one port is lost, and a DNS query is answered → not the network")
  func answeredQuery() {
    var sockets = ObservedSockets()
    for host in Self.hosts[..<2] { sockets.addSilent(host, port: 7000) }
    sockets.facts.names = NameQueries(waiting: [], answered: ["203.0.113.53"])
    let diagnosis = sockets.diagnosis
    #expect(diagnosis.verdict == .onlyDestination && diagnosis.port == 7000)
  }

  @Test("Q7 one person has many lossy sockets to one host → nothing about the way")
  func manySockets() {
    let diagnosis = self.judge { sockets in
      for _ in 0..<50 { sockets.addLossy(Self.hosts[0], user: Sockets.other) }
      sockets.addLossy(Self.hosts[1])
      for _ in 0..<9 { sockets.addHeard(Self.hosts[1]) }
    }
    #expect(diagnosis.verdict == .nothingWrong)
  }

  @Test("Q7 clients of a server fall silent → nothing is wrong")
  func incoming() {
    var sockets = ObservedSockets()
    sockets.addHeard(Self.hosts[3])
    sockets.addSilent(Self.hosts[0])
    sockets.findings[1].isIncoming = true
    #expect(sockets.diagnosis.verdict == .nothingWrong)
  }

  @Test("Q7 data was received recently, but data is on its way → not yet nothing wrong")
  func tooEarly() {
    var sockets = ObservedSockets()
    sockets.addIdle(Self.hosts[0], for: .seconds(1))
    #expect(sockets.diagnosis.verdict == .nothingWrong)
    sockets.add(Self.hosts[1], .init(), .init(timeouts: 1, inFlight: 1, sentAgain: 1))
    #expect(sockets.diagnosis.verdict == .unknown)
  }

  // MARK: - DNS

  private func query(_ cookie: UInt64, _ host: IPAddress = "203.0.113.53", unread: UInt32 = 0)
    -> SocketSample
  {
    SocketSample(
      cookie: cookie, inode: cookie, user: 0, source: Sockets.source, sourcePort: 9, host: host,
      port: 53, unread: unread)
  }

  @Test(
    "Q7 a query has the same socket in all samples → it waits; a new socket that ended → answered")
  func queries() {
    let server: IPAddress = "203.0.113.53"
    var names = NameQueries()
    for _ in 0..<3 { names.add([self.query(1)], servers: [server]) }
    #expect(names.waiting == [server] && names.answered.isEmpty)
    names.add([self.query(1), self.query(2)], servers: [server])
    #expect(names.waiting == [server] && names.answered.isEmpty)
    names.add([self.query(1)], servers: [server])
    #expect(names.answered == [server])

    var unread = NameQueries()
    for _ in 0..<2 { unread.add([self.query(1, unread: 60)], servers: [server]) }
    #expect(unread.waiting.isEmpty && unread.answered == [server])
    // A socket of the first sample may have ended by its timeout.
    var ended = NameQueries()
    ended.add([self.query(1)], servers: [server])
    ended.add([], servers: [server])
    #expect(ended.waiting.isEmpty && ended.answered.isEmpty)
  }

  @Test("Q7 a query to a local resolver, or to a server that is not in the settings → ignored")
  func otherServers() {
    var names = NameQueries()
    for _ in 0..<2 {
      names.add([self.query(1, "127.0.0.53"), self.query(2)], servers: [Sockets.router])
    }
    #expect(names.waiting.isEmpty)
    // Only a local resolver is configured: its own queries count.
    var resolver = NameQueries()
    for _ in 0..<2 { resolver.add([self.query(1, "127.0.0.53"), self.query(2)], servers: []) }
    #expect(resolver.waiting == ["203.0.113.53"])
  }
}
