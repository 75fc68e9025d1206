import Connectivity

/// The testimony of the sockets of all users together.
///
/// Unlike ``SocketCensus``, which votes about one link by single reports on guarded flows, it
/// compares hosts by two samples of all sockets. Both count persons instead of users, and neither
/// lets a socket testify about the network if this machine does not send its data.
struct SocketSurvey {
  typealias Host = IPAddress

  /// The sockets that the question is about.
  private(set) var subject: [SocketFinding] = []
  /// The hosts that were heard, with the persons that heard them.
  private(set) var heard: [Host: Set<UInt32>] = [:]
  /// The hosts that were heard by any socket, or that answered a DNS query, outside of this
  /// machine's networks.
  private(set) var heardBeyond: Set<Host> = []
  /// The same within this machine's networks.
  private(set) var heardOnLink: Set<Host> = []
  /// The silent hosts of all persons outside of this machine's networks.
  private(set) var silentBeyond: Set<Host> = []
  /// The ports of hosts that were heard.
  private(set) var heardPorts: Set<UInt16> = []
  private var heardEnds: Set<Endpoint> = []
  /// The sockets that each person hears.
  private var persons: [UInt32: Moving] = [:]
  /// The hosts to which this machine does not send the data of sockets outside the subject.
  private var withheld: Set<Host> = []
  /// The silent sockets of all persons.
  private var allSilent: [SocketFinding] = []
  private let networks: Set<IPPrefix>

  /// A host and a port that a person connects to.
  private struct Endpoint: Hashable {
    var host: Host
    var port: UInt16
    var person: UInt32

    init(_ finding: SocketFinding) {
      (self.host, self.port, self.person) = (finding.host, finding.port, finding.person)
    }
  }

  private struct Moving {
    var sockets = 0
    var lossy = 0
    var resending = 0
    var lossyHosts: Set<Host> = []
    var resendingHosts: Set<Host> = []

    /// Whether data is sent again on at least a quarter of the sockets.
    var isResending: Bool {
      let count = self.lossy + self.resending
      return count > 0 && 4 * count >= self.sockets
    }

    /// Whether some of that data is known to have arrived, so that packets are lost at random.
    var isLossy: Bool { self.lossy > 0 && self.isResending }
  }

  init(_ findings: [SocketFinding], _ facts: DiagnosisFacts) {
    self.networks = facts.networks
    let isHeldBack = facts.failedRetransmissions > 0
    for var finding in findings {
      if case .notSentAgain(let isFull) = finding.behaviour {
        finding.behaviour = isHeldBack ? .heldBack : .silent(isFull: isFull)
      }
      if case .silent = finding.behaviour, finding.isIncoming { continue }
      if finding.isSubject { self.subject.append(finding) }
      self.note(finding)
    }
    for server in facts.names.answered { self.noteHeard(server) }
  }

  private mutating func note(_ finding: SocketFinding) {
    switch finding.behaviour {
    case .heard(let isLossy, let isResending):
      self.heard[finding.host, default: []].insert(finding.person)
      self.noteHeard(finding.host)
      self.heardPorts.insert(finding.port)
      self.heardEnds.insert(Endpoint(finding))
      self.persons[finding.person, default: Moving()].sockets += 1
      if isResending {
        self.persons[finding.person]?.resending += 1
        self.persons[finding.person]?.resendingHosts.insert(finding.host)
      }
      if isLossy {
        self.persons[finding.person]?.lossy += 1
        self.persons[finding.person]?.lossyHosts.insert(finding.host)
      }
    case .silent:
      if self.isBeyond(finding.host) { self.silentBeyond.insert(finding.host) }
      self.allSilent.append(finding)
    case .heldBack:
      if !finding.isSubject { self.withheld.insert(finding.host) }
    case .idle, .waiting, .notSentAgain: break
    }
  }

  private mutating func noteHeard(_ host: Host) {
    if self.isBeyond(host) { self.heardBeyond.insert(host) } else { self.heardOnLink.insert(host) }
  }

  /// Whether a host is outside of this machine's networks.
  func isBeyond(_ host: Host) -> Bool {
    !host.isLinkLocal && !self.networks.contains { $0.contains(host) }
  }

  // MARK: - The subject

  var heldBack: [SocketFinding] { self.subject.filter { $0.behaviour == .heldBack } }

  var silent: [SocketFinding] {
    self.subject.filter { if case .silent = $0.behaviour { true } else { false } }
  }

  var waiting: [SocketFinding] { self.subject.filter { $0.behaviour == .waiting } }

  /// The subject's hosts that were heard.
  var heardHosts: Set<Host> {
    Set(
      self.subject.filter { if case .heard = $0.behaviour { true } else { false } }.map(\.host))
  }

  /// The hosts of the subject's idle sockets that were heard recently.
  func recentHosts(within limit: Duration) -> Set<Host> {
    Set(
      self.subject.filter { finding in
        if case .idle(let silence) = finding.behaviour { silence <= limit } else { false }
      }.map(\.host))
  }

  /// The subject's silent sockets that hold full segments, if other sockets of the same person hear
  /// their hosts and ports, and nothing is lost at random. If the same person hears nothing from
  /// the host and port of a silent socket, its silence may have another cause.
  var withLargePackets: [SocketFinding] {
    let silent = self.silent.filter { self.isHeard($0) }
    let areFull = silent.allSatisfy { $0.behaviour == .silent(isFull: true) }
    let isLossy = self.persons.values.contains { $0.lossy > 0 }
    return areFull && !isLossy && Set(silent.map(\.host)).count >= SocketCensus.minHosts
      ? silent : []
  }

  /// Whether data is sent again to several hosts on so many connections that the cause of silence
  /// is unknown until some of it arrives.
  var isResending: Bool { self.resendingHosts.count >= SocketCensus.minHosts }

  /// Whether data is sent again to several hosts, or to hosts with connections that are silent
  /// while the same person hears other connections to the same port. Then packets to more than one
  /// destination are lost.
  var isStruggling: Bool {
    let silent = self.allSilent.filter { self.isHeard($0) }.map(\.host)
    return self.resendingHosts.union(silent).count >= SocketCensus.minHosts
  }

  private var resendingHosts: Set<Host> {
    self.persons.values.filter(\.isResending).reduce(into: Set<Host>()) {
      $0.formUnion($1.lossyHosts)
      $0.formUnion($1.resendingHosts)
    }
  }

  /// The hosts to which data of the subject is lost, if data of the persons is lost to several
  /// hosts. A person counts if at least a quarter of the sockets that it hears lose data.
  var lossyHosts: Set<Host> {
    let lossy = self.persons.filter(\.value.isLossy)
    let all = lossy.values.reduce(into: Set<Host>()) { $0.formUnion($1.lossyHosts) }
    guard all.count >= SocketCensus.minHosts else { return [] }
    return Set(
      self.subject.filter {
        $0.behaviour == .heard(isLossy: true) && lossy[$0.person] != nil
      }.map(\.host))
  }

  /// The silent sockets to hosts and ports that no other socket of the same person hears. Only the
  /// silence of these sockets is evidence about the host.
  var silentEnds: [SocketFinding] { self.silent.filter { !self.isHeard($0) } }

  /// The hosts of ``silentEnds`` to which this machine sends the data of other persons.
  var comparableHosts: Set<Host> { Set(self.silentEnds.map(\.host)).subtracting(self.withheld) }

  /// The silent sockets to hosts that another person hears, and the socket's own person does not.
  var heardByOthers: [SocketFinding] {
    self.silentEnds.filter { finding in
      let persons = self.heard[finding.host] ?? []
      return !persons.isEmpty && !persons.contains(finding.person)
    }
  }

  /// The silent sockets to hosts that the same person hears on another port.
  var heardByOther: [SocketFinding] {
    self.silentEnds.filter { self.heard[$0.host]?.contains($0.person) ?? false }
  }

  /// Whether the same person heard the same host and port.
  func isHeard(_ finding: SocketFinding) -> Bool { self.heardEnds.contains(Endpoint(finding)) }
}
