import Connectivity

@testable import ConnectivityRules

/// Sockets of several users, sampled twice, for diagnoses in tests.
struct ObservedSockets {
  static let own: UInt32 = 1000
  static let other: UInt32 = 1001
  static let source: IPAddress = "192.0.2.7"
  static let source6: IPAddress = "2001:db8::7"
  static let hosts: [IPAddress] = ["203.0.113.1", "203.0.113.2", "203.0.113.3", "203.0.113.4"]
  static let hosts6: [IPAddress] = ["2001:db8:1::1", "2001:db8:1::2"]
  static let neighbour: IPAddress = "192.0.2.9"
  static let router: IPAddress = "192.0.2.1"

  var findings: [SocketFinding] = []
  var facts = DiagnosisFacts()
  var isFiltered = false
  private var cookie: UInt64 = 0

  init() {
    for user in [Self.own, Self.other] {
      self.setPath(Self.source, 24, user)
      self.setPath(Self.source6, 64, user)
    }
  }

  private mutating func setPath(_ source: IPAddress, _ length: Int, _ user: UInt32) {
    let origin = DiagnosisFacts.Origin(source: source, user: user)
    self.facts.paths[origin] = KernelPath(
      status: .satisfied, chain: [KernelPath.Link(index: 2, name: "wlan0")], source: source,
      sourcePrefixLength: length, gateway: Self.router)
  }

  /// Adds a socket.
  ///
  /// - Parameters:
  ///   - before: The state at the first sample, or `nil` for a new socket.
  ///   - change: Changes the second sample.
  mutating func add(
    _ host: IPAddress, _ before: SocketSample.TCPState?, _ after: SocketSample.TCPState?,
    user: UInt32 = Self.own, isSubject: Bool? = nil,
    _ change: (inout SocketSample) -> Void = { _ in }
  ) {
    self.cookie += 1
    let source = host.family == .ipv4 ? Self.source : Self.source6
    var sample = SocketSample(
      cookie: self.cookie, inode: self.cookie, user: user, source: source,
      sourcePort: UInt16(40_000 + self.cookie), host: host, port: 443, queued: 300, tcp: after)
    change(&sample)
    let finding = SocketFinding(
      before, sample, person: user, isSubject: isSubject ?? (user == Self.own))
    if let finding { self.findings.append(finding) }
  }

  var diagnosis: Diagnosis { .judge(self.findings, self.facts, isFiltered: self.isFiltered) }

  // MARK: - Kinds of sockets

  mutating func addHeard(_ host: IPAddress, user: UInt32 = Self.own, port: UInt16 = 443) {
    self.add(host, .init(received: 10), .init(received: 12), user: user) { $0.port = port }
  }

  mutating func addLossy(_ host: IPAddress, user: UInt32 = Self.own) {
    self.add(host, .init(resent: 1, received: 10), .init(resent: 3, received: 12), user: user)
  }

  /// A socket with three timeouts.
  mutating func addSilent(
    _ host: IPAddress, user: UInt32 = Self.own, port: UInt16 = 443, isFull: Bool = false
  ) {
    let state = SocketSample.TCPState(
      timeouts: 3, backoff: 3, inFlight: 1, sentAgain: 1, resent: 3, received: 10,
      timeout: .milliseconds(1600), silence: .seconds(2))
    self.add(host, state, state, user: user) {
      $0.port = port
      if isFull { $0.queued = 5000 }
    }
  }

  /// A socket with data that a local firewall drops.
  mutating func addHeldBack(_ host: IPAddress, user: UInt32 = Self.own) {
    let state = SocketSample.TCPState(
      backoff: 2, received: 10, unsent: 300, window: 64_000, silence: .seconds(2))
    self.add(host, state, state, user: user) { $0.timer = SocketSample.probeTimer }
  }

  /// A socket whose SYN is unanswered, and not in flight.
  mutating func addConnecting(
    _ host: IPAddress, user: UInt32 = Self.own, timeouts: UInt8 = 1, sentAgain: UInt32 = 0
  ) {
    let state = SocketSample.TCPState(
      isConnecting: true, timeouts: timeouts, inFlight: 1, sentAgain: sentAgain,
      timeout: .seconds(2))
    self.add(host, nil, state, user: user)
  }

  mutating func addIdle(_ host: IPAddress, for silence: Duration, user: UInt32 = Self.own) {
    let state = SocketSample.TCPState(received: 10, silence: silence)
    self.add(host, state, state, user: user) { $0.queued = 0 }
  }
}
