package import Connectivity

/// Why a program gets no answers: a verdict with its evidence. A value without I/O and clock.
///
/// Implements rule Q7.
package struct Diagnosis: Hashable, Sendable {
  package var verdict: DiagnosisVerdict
  /// The hosts of the subject that the verdict is about, sorted, at most ``maxHosts``.
  package var hosts: [IPAddress] = []
  /// The port, if the verdict is about one port only.
  package var port: UInt16?
  /// The address family, if the verdict is about one family only.
  package var family: AddressFamily?
  /// The user, if the verdict is about one user only.
  package var user: UInt32?
  /// The path that was judged.
  package var path: KernelPath
  /// The observations in sentences for people. They contain numbers, but no addresses and names.
  package var evidence: [String] = []
  /// The number of the subject's connections that were judged.
  package var connections = 0
  /// The number of hosts of all users that were heard, and of the subject's silent hosts.
  package var heardHosts = 0
  package var silentHosts = 0

  package static let maxHosts = 8
  /// How long ago a peer of an idle connection may have been heard for the verdict that nothing is
  /// wrong.
  static let recent = Duration.seconds(3)

  /// Judges the sockets of all users.
  ///
  /// - Parameter isFiltered: Whether the question is about a host or a program. Then queries to DNS
  ///   servers only serve as comparison.
  package static func judge(
    _ findings: [SocketFinding], _ facts: DiagnosisFacts, isFiltered: Bool = false
  ) -> Diagnosis {
    let survey = SocketSurvey(findings, facts)
    var diagnosis =
      self.withoutPath(survey, facts) ?? self.heldBack(survey, facts) ?? self.loss(survey, facts)
      ?? self.names(survey, facts, isFiltered) ?? self.silence(survey, facts)
      ?? self.silentNetwork(survey, facts) ?? self.rest(survey, facts)
    diagnosis.connections = survey.subject.count + facts.quietConnections
    diagnosis.heardHosts = survey.heardBeyond.count + survey.heardOnLink.count
    diagnosis.silentHosts = Set(survey.silent.map(\.host)).count
    return diagnosis
  }

  init(
    _ verdict: DiagnosisVerdict, _ findings: [SocketFinding] = [], _ facts: DiagnosisFacts,
    _ evidence: [String]
  ) {
    self.verdict = verdict
    self.hosts = Array(Set(findings.map(\.host)).sorted().prefix(Self.maxHosts))
    self.path = findings.lazy.compactMap { facts.path(of: $0) }.first ?? facts.defaultPath
    self.evidence = evidence
  }

  // MARK: - This machine

  private static func withoutPath(_ survey: SocketSurvey, _ facts: DiagnosisFacts) -> Diagnosis? {
    let stuck = survey.heldBack + survey.silent + survey.waiting
    let lost = stuck.filter { facts.path(of: $0).map { !$0.isUsable } ?? false }
    let isOffline = !facts.defaultPath.isUsable && survey.heardBeyond.isEmpty
    guard !lost.isEmpty || isOffline && survey.heardHosts.isEmpty else { return nil }
    var diagnosis = Diagnosis(.noPath, lost, facts, [])
    diagnosis.evidence = [diagnosis.path.reason.map { "the kernel says: \($0.text)" }].compactMap {
      $0
    }
    return diagnosis
  }

  private static func heldBack(_ survey: SocketSurvey, _ facts: DiagnosisFacts) -> Diagnosis? {
    let held = survey.heldBack
    guard !held.isEmpty else { return nil }
    var evidence = [
      "\(held.count.of("connection")) to \(held.hostCount) with data that this machine does not send, "
        + "although the peer would take it",
      "the kernel has a path, and its links are up",
    ]
    if facts.failedRetransmissions > 0 {
      evidence.append(
        "\(facts.failedRetransmissions.of("retransmission")) did not leave this machine")
    }
    let others = survey.heardBeyond.union(survey.heardOnLink).subtracting(held.map(\.host))
    if !others.isEmpty { evidence.append("\(others.count.of("other host")) heard meanwhile") }
    return Diagnosis(.notLetOut, held, facts, evidence)
  }

  // MARK: - The way

  private static func loss(_ survey: SocketSurvey, _ facts: DiagnosisFacts) -> Diagnosis? {
    let hosts = survey.lossyHosts
    guard !hosts.isEmpty else { return nil }
    let lossy = survey.subject.filter {
      $0.behaviour == .heard(isLossy: true) && hosts.contains($0.host)
    }
    var diagnosis = Diagnosis(.packetsLost, lossy, facts, [])
    let onLink = hosts.filter { !survey.isBeyond($0) }.count
    diagnosis.evidence = [
      "data was sent again on \(lossy.count.of("connection")) to \(hosts.count.of("host")), "
        + "and arrived in the end"
    ]
    if onLink > 0 { diagnosis.evidence.append("\(onLink) of the hosts in this network") }
    let isOfLink = diagnosis.path.chain.contains { facts.troubledLinks.contains($0.name) }
    diagnosis.evidence.append(
      isOfLink
        ? "the link's driver reports lost packets, too: they are lost on the link"
        : "whether they are lost on the link, in the router or beyond is unknown")
    return diagnosis
  }

  private static func names(
    _ survey: SocketSurvey, _ facts: DiagnosisFacts, _ isFiltered: Bool
  ) -> Diagnosis? {
    let names = facts.names
    // If no host of the servers' address family is heard, the servers are not the cause.
    let families = Set(names.waiting.map(\.family))
    guard !isFiltered, !names.waiting.isEmpty, names.answered.isEmpty, !survey.isStruggling,
      survey.silent.isEmpty || survey.heardBeyond.contains(where: { families.contains($0.family) })
    else { return nil }
    var diagnosis = Diagnosis(
      .namesUnresolved, [], facts,
      ["queries to \(names.waiting.count.of("DNS server")) wait for a second or longer"])
    diagnosis.hosts = Array(names.waiting.sorted().prefix(Self.maxHosts))
    diagnosis.evidence.append(
      survey.heardBeyond.isEmpty
        ? "nothing else was heard outside of this network, so it may be the network"
        : "\(survey.heardBeyond.count.of("host")) outside of this network heard meanwhile")
    return diagnosis
  }

  private static func silentNetwork(
    _ survey: SocketSurvey, _ facts: DiagnosisFacts
  ) -> Diagnosis? {
    let silent = survey.silentEnds
    let hosts = survey.silentBeyond.union(facts.names.waiting.filter { survey.isBeyond($0) })
    guard !silent.isEmpty, survey.heardBeyond.isEmpty else { return nil }
    guard hosts.count >= SocketCensus.minHosts else {
      return Diagnosis(
        .unknown, silent, facts,
        [
          "\(silent.hostCount) without an answer, and no other traffic to compare with"
        ])
    }
    return Diagnosis(
      .nothingAnswers, silent, facts,
      [
        "\(hosts.count.of("host")) outside of this network silent, none heard",
        survey.heardOnLink.isEmpty
          ? "nothing was heard in this network either"
          : "\(survey.heardOnLink.count.of("host")) in this network heard",
      ])
  }

  // MARK: - The rest

  private static func rest(_ survey: SocketSurvey, _ facts: DiagnosisFacts) -> Diagnosis {
    guard !survey.isResending else {
      return Diagnosis(
        .unknown, [], facts,
        ["data is sent again, and has not arrived so far: ask again in a second"])
    }
    let recent = survey.recentHosts(within: Self.recent)
    let heard = survey.heardHosts.union(survey.waiting.isEmpty ? recent : [])
    guard heard.isEmpty else {
      let findings = survey.subject.filter { heard.contains($0.host) }
      var diagnosis = Diagnosis(.nothingWrong, findings, facts, [])
      diagnosis.hosts = []
      diagnosis.evidence = ["\(heard.count.of("host")) heard within the last seconds"]
      if !heard.contains(where: { survey.isBeyond($0) }) {
        diagnosis.evidence.append("all of them in this network")
      }
      return diagnosis
    }
    let connections = survey.subject.count + facts.quietConnections
    let evidence =
      if connections == 0 {
        "no connection to judge by"
      } else if survey.waiting.isEmpty {
        "\(connections.of("connection")), and all are idle"
      } else {
        "\(survey.waiting.count.of("connection")) without an answer so far: ask again in a second"
      }
    return Diagnosis(.unknown, survey.waiting, facts, [evidence])
  }
}

extension DiagnosisFacts {
  /// Returns the path of a connection, or `nil` if it was not read.
  func path(of finding: SocketFinding) -> KernelPath? {
    self.paths[finding.origin]
  }
}

extension KernelPath {
  /// Whether the path works, as far as known.
  fileprivate var isUsable: Bool { self.status == .satisfied || self.status == .unknown }
}

extension [SocketFinding] {
  /// The text `3 hosts`.
  var hostCount: String { Set(self.map(\.host)).count.of("host") }
}

extension BinaryInteger {
  /// The text `3 hosts`.
  func of(_ noun: String) -> String { "\(self) \(noun)\(self == 1 ? "" : "s")" }
}
