import Connectivity

// Silent connections beside others that are heard.
extension Diagnosis {
  static func silence(_ survey: SocketSurvey, _ facts: DiagnosisFacts) -> Diagnosis? {
    let large = survey.withLargePackets
    if !large.isEmpty {
      return Diagnosis(
        .largePacketsLost, large, facts,
        [
          "full segments to \(large.hostCount) without an answer",
          "smaller segments to the same hosts are answered",
        ])
    }
    let silent = survey.silentEnds
    guard !silent.isEmpty else { return Self.ofConnections(survey, facts) }
    let hosts = Set(silent.map(\.host))
    guard !survey.isResending else { return Self.undecided(silent, facts, "data is sent again") }
    if let diagnosis = Self.ofUser(survey, facts) { return diagnosis }
    let isOnlyOnLink = hosts.allSatisfy { !survey.isBeyond($0) }
    let heard = survey.heardBeyond.union(survey.heardOnLink)
    let hasContrast = isOnlyOnLink ? !heard.isEmpty : !survey.heardBeyond.isEmpty
    guard hasContrast || !survey.heardByOther.isEmpty else { return nil }
    // The only host that answers may be a DNS server that also loses queries.
    if hosts.count >= SocketCensus.minHosts, survey.heardBeyond.isSubset(of: facts.names.answered),
      !isOnlyOnLink, !facts.names.waiting.isEmpty
    {
      return Self.undecided(silent, facts, "some DNS queries are answered, and others are not")
    }
    return Self.ofDestination(silent, survey, facts)
  }

  /// Returns the diagnosis if other sockets of the same person hear the hosts and ports of all
  /// silent sockets.
  private static func ofConnections(
    _ survey: SocketSurvey, _ facts: DiagnosisFacts
  ) -> Diagnosis? {
    let silent = survey.silent
    switch Set(silent.map(\.host)).count {
    case 0: return nil
    case 1:
      var diagnosis = Self.ofDestination(silent, survey, facts)
      diagnosis.evidence.append(
        "other connections to the same host and port are heard: "
          + "the server or a router may have forgotten this one")
      return diagnosis
    default:
      return Diagnosis(
        .unknown, silent, facts,
        [
          "\(silent.count.of("connection")) to \(silent.hostCount) without an answer, while others to "
            + "the same hosts are answered"
        ])
    }
  }

  /// Most of the silent hosts are heard by another person.
  private static func ofUser(
    _ survey: SocketSurvey, _ facts: DiagnosisFacts
  ) -> Diagnosis? {
    let findings = survey.heardByOthers
    let known = Set(findings.map(\.host))
    guard !known.isEmpty else { return nil }
    guard 2 * known.count > survey.comparableHosts.count else {
      return Self.undecided(survey.silentEnds, facts, "another user hears some of them")
    }
    var diagnosis = Diagnosis(
      .onlyUser, findings, facts,
      ["\(findings.hostCount) silent, which connections of another user hear"])
    let users = Set(findings.map(\.user))
    if users.count == 1 { diagnosis.user = users.first }
    return diagnosis
  }

  private static func undecided(
    _ silent: [SocketFinding], _ facts: DiagnosisFacts, _ why: String
  ) -> Diagnosis {
    Diagnosis(
      .unknown, silent, facts,
      ["\(silent.count.of("connection")) to \(silent.hostCount) without an answer", why])
  }

  private static func ofDestination(
    _ silent: [SocketFinding], _ survey: SocketSurvey, _ facts: DiagnosisFacts
  ) -> Diagnosis {
    let hosts = Set(silent.map(\.host))
    var diagnosis = Diagnosis(
      .onlyDestination, silent, facts,
      ["\(silent.count.of("connection")) to \(silent.hostCount) without an answer"])
    let heard = survey.heardBeyond.union(survey.heardOnLink)
    let others = heard.subtracting(hosts)
    if !others.isEmpty {
      diagnosis.evidence.append("\(others.count.of("other host")) heard meanwhile")
    }
    let (families, ports) = (Set(silent.map(\.host.family)), Set(silent.map(\.port)))
    let isSeveral = hosts.count >= SocketCensus.minHosts
    if isSeveral, families.count == 1, let family = families.first,
      !survey.heardBeyond.isEmpty, survey.heardBeyond.allSatisfy({ $0.family != family })
    {
      diagnosis.family = family
      diagnosis.evidence.append("no host of this address family is heard, hosts of the other are")
    } else if ports.count == 1, let port = ports.first, !survey.heardPorts.contains(port),
      isSeveral || hosts.isSubset(of: heard)
    {
      diagnosis.port = port
      diagnosis.evidence.append("no connection to this port is heard, connections to others are")
    }
    return diagnosis
  }
}
