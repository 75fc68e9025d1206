import Connectivity
import ConnectivityProtocol
import ConnectivityRules
import GRPCCore
import Netlink
import UnixTransport

/// The call Diagnose.
///
/// Implements rules D4, D7 and Q7.
extension DiagnosticsService {
  /// Diagnoses when it is the caller's turn. Until it ends, the call counts as a pending query.
  func diagnose(
    _ request: Connectivity_V1_DiagnoseRequest, _ caller: PeerCredentials
  ) async throws -> Connectivity_V1_Diagnosis {
    let subject = try DiagnosisSubject(request, caller.uid)
    return try await self.queries.admitted(for: caller) {
      try await self.inTurn(self.diagnoses, for: caller) { turn, memory in
        func check() throws {
          if turn.isCancelled || self.store.isFinished { throw CancellationError() }
        }
        do {
          let sockets = ComparedSockets(subject) { self.queries.limiter.account(ofUID: $0) }
          let result = try await self.sampler.sample(
            into: sockets, servers: self.store.snapshot.dns?.remoteServers ?? [],
            wait: {
              try await self.reactor.sleep(for: SocketSampler.interval)
              try check()
            },
            keep: { bytes in
              try check()
              try memory.keep(.requests, bytes)
            })
          return try await self.judge(result, subject, caller)
        } catch let error as NetlinkError {
          throw RPCError(code: .unavailable, message: "the kernel cannot be asked: \(error)")
        }
      }
    }
  }

  private func judge(
    _ result: SocketSampler.Result, _ subject: DiagnosisSubject, _ caller: PeerCredentials
  ) async throws -> Connectivity_V1_Diagnosis {
    let findings = result.sockets.findings
    var facts = DiagnosisFacts(
      defaultPath: self.store.snapshot.status.path,
      failedRetransmissions: result.failedRetransmissions, names: result.names)
    facts.quietConnections = result.sockets.quiet
    for finding in findings.representatives.prefix(SocketSampler.maxPaths) {
      let (destination, path) = try await self.path(of: finding, among: findings, caller)
      facts.paths[finding.origin] = path
      guard [.minimal, .moderate].contains(path.quality),
        facts.troubledLinks.isDisjoint(with: path.chain.map(\.name))
      else { continue }
      let explanation = try await self.queries.admittedAnswer(for: caller) {
        .explain(destination, links: [], $0)
      }.orUnavailable()
      facts.troubledLinks.formUnion(explanation.confirmedLinks)
    }
    var answer = Connectivity_V1_Diagnosis(
      Diagnosis.judge(findings, facts, isFiltered: subject.isFiltered))
    answer.incomplete = result.sockets.isIncomplete
    return answer
  }

  /// Returns the path of a socket's packets. If its host is on the link, returns the path of
  /// another socket with the same origin, because the path to a host beyond the router has the
  /// router.
  private func path(
    of finding: SocketFinding, among findings: [SocketFinding], _ caller: PeerCredentials
  ) async throws -> (Destination, KernelPath) {
    let destination = Destination(finding)
    let path = try await self.queries.admittedAnswer(for: caller) { .path(destination, $0) }
    guard path.gateway == nil, let prefix = path.sourceNetwork,
      let other = findings.first(where: {
        $0.origin == finding.origin && !prefix.contains($0.host)
      })
    else { return (destination, path) }
    let beyond = Destination(other)
    return (
      beyond, try await self.queries.admittedAnswer(for: caller) { .path(beyond, $0) }
    )
  }
}

extension DNSSettings {
  /// The servers on other machines. Empty if there are only local resolvers.
  fileprivate var remoteServers: Set<IPAddress> {
    let all = self.servers + self.links.flatMap(\.servers)
    return Set(all.map(\.address).filter { !$0.isLoopback && !$0.isUnspecified })
  }
}

extension [SocketFinding] {
  /// One socket of each origin, beginning with stuck sockets of the subject.
  fileprivate var representatives: [SocketFinding] {
    var origins: Set<DiagnosisFacts.Origin> = []
    let sorted = self.filter { $0.isSubject && $0.isStuck } + self.filter(\.isSubject) + self
    return sorted.filter { origins.insert($0.origin).inserted }
  }
}

extension SocketFinding {
  fileprivate var isStuck: Bool {
    switch self.behaviour {
    case .idle, .heard: false
    case .waiting, .silent, .heldBack, .notSentAgain: true
    }
  }
}

extension Destination {
  /// Creates the destination of a socket's packets.
  fileprivate init(_ finding: SocketFinding) {
    self.init(
      finding.host, uid: finding.user, source: finding.source,
      outLink: finding.link == 0 ? nil : finding.link,
      transport: Transport(
        Transport.tcp, localPort: finding.sourcePort, remotePort: finding.port))
  }
}

extension Connectivity_V1_Diagnosis {
  init(_ diagnosis: Diagnosis) {
    self.init()
    self.verdict = Connectivity_V1_DiagnosisVerdict(diagnosis.verdict)
    self.hosts = diagnosis.hosts.map(\.description)
    if let port = diagnosis.port { self.port = UInt32(port) }
    if let family = diagnosis.family { self.family = Connectivity_V1_AddressFamily(family) }
    if let user = diagnosis.user { self.user = user }
    self.path = Connectivity_V1_Path(diagnosis.path)
    self.evidence = diagnosis.evidence
    self.connections = UInt32(clamping: diagnosis.connections)
    self.heardHosts = UInt32(clamping: diagnosis.heardHosts)
    self.silentHosts = UInt32(clamping: diagnosis.silentHosts)
  }
}
