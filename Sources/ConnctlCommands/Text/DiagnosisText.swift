import Connectivity
import ConnectivityProtocol

extension Style {
  /// Returns the text of `connctl why`: the verdict, the evidence, and where to look.
  ///
  /// - Parameters:
  ///   - subject: The host, program or process that the user asked about, if any.
  ///   - router: The router's answer, or `nil` if it was not asked.
  ///   - isAnonymous: Whether to omit addresses and names.
  func diagnosis(
    _ diagnosis: Connectivity_V1_Diagnosis, of subject: String? = nil,
    _ router: RouterProbe.Answer? = nil, isAnonymous: Bool = false
  ) throws -> [String] {
    let verdict = DiagnosisVerdict(diagnosis.verdict)
    let path = try KernelPath(diagnosis.path)
    let ink: TextStyle = verdict == .nothingWrong ? .good : verdict == .unknown ? .middling : .bad
    let headline =
      if verdict == .unknown, let subject {
        "Unknown: too little traffic to judge “\(subject.printable)” by"
      } else {
        verdict.headline(diagnosis, path, router, isAnonymous)
      }
    var evidence = diagnosis.evidence
    if !isAnonymous {
      // The first line has a single host that does not answer.
      if diagnosis.hosts.count > 1 || verdict != .onlyDestination, !diagnosis.hosts.isEmpty {
        let noun = verdict == .namesUnresolved ? "DNS server" : "host"
        let plural = diagnosis.hosts.count == 1 ? "" : "s"
        evidence.append("\(noun)\(plural): \(diagnosis.hosts.joined(separator: ", "))")
      }
      if let link = path.interface {
        evidence.append("by \(link)" + (path.gateway.map { ", router \($0)" } ?? ""))
      }
    }
    switch router {
    case .answers: evidence.append("the router answers")
    case .silent: evidence.append("the router did not answer, which proves nothing")
    case .notSent: evidence.append("this machine could not send a datagram to the router")
    case nil: break
    }
    if diagnosis.incomplete { evidence.append("there are more connections than connd compares") }
    var table = Table(indent: 2)
    for line in evidence { table.add(Text(line)) }
    for line in verdict.advice(path, of: subject, wasAsked: router != nil) {
      table.add(Text(line, .faint))
    }
    return [self.paint(headline, ink)] + table.lines(self)
  }
}

extension DiagnosisVerdict {
  fileprivate func headline(
    _ diagnosis: Connectivity_V1_Diagnosis, _ path: KernelPath, _ router: RouterProbe.Answer?,
    _ isAnonymous: Bool
  ) -> String {
    switch self {
    case .nothingWrong: return "Nothing is wrong"
    case .noPath:
      let reason = path.reason.map { ": " + $0.text(of: isAnonymous ? nil : path.interface) }
      return "This machine has no path" + (reason ?? "")
    case .notLetOut: return "This machine does not let it out"
    case .packetsLost: return "Packets are lost on the way"
    case .nothingAnswers:
      return router == .answers
        ? "Nothing beyond the router answers" : "Nothing off this network answers"
    case .namesUnresolved: return "Names are not resolved"
    case .onlyDestination:
      if diagnosis.hasFamily {
        return "Only \(diagnosis.family == .ipv6 ? "IPv6" : "IPv4") does not work"
      }
      let host =
        !isAnonymous && diagnosis.hosts.count == 1 ? diagnosis.hosts[0] : nil
      if diagnosis.hasPort {
        return "Only port \(diagnosis.port)" + (host.map { " of \($0)" } ?? "") + " does not answer"
      }
      if let host { return "Only \(host) does not answer" }
      return diagnosis.silentHosts == 1
        ? "Only one host does not answer" : "Only some hosts do not answer"
    case .onlyUser:
      guard diagnosis.hasUser, !isAnonymous else {
        return "Only one user's connections do not work"
      }
      let name = UserName.name(of: diagnosis.user) ?? "uid \(diagnosis.user)"
      return "Only the connections of \(name) do not work"
    case .largePacketsLost: return "Large packets are lost"
    case .unknown: return "Unknown: too little traffic to judge by"
    }
  }

  /// Returns where to look next.
  fileprivate func advice(_ path: KernelPath, of subject: String?, wasAsked: Bool) -> [String] {
    let command = "connctl why" + (subject.map { " \($0.printable.shellWord)" } ?? "")
    return switch self {
    case .nothingWrong: []
    case .noPath: ["“connctl explain” shows why"]
    case .notLetOut:
      [
        "look, as root, at “nft list ruleset”, at the kill switch of a VPN, at quotas, and at "
          + "IPAddressDeny= of the unit"
      ]
    case .packetsLost: ["“connctl links” shows the signal, “ip -s link” errors of the link"]
    case .nothingAnswers, .unknown:
      (wasAsked || path.gateway == nil ? [] : ["“\(command) --ask” asks the router"])
        + (self == .unknown && subject != nil ? ["“connctl why” judges all connections"] : [])
    case .namesUnresolved: ["“connctl dns” shows the servers"]
    case .onlyDestination: []
    case .onlyUser:
      ["look at “ip rule”, and, as root, at “nft list ruleset” for rules about the user"]
    case .largePacketsLost:
      [
        "look at the MTU of the link and of VPNs; “sysctl net.ipv4.tcp_mtu_probing=1” works around it"
      ]
    }
  }
}
