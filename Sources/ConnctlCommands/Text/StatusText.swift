import Connectivity

extension Style {
  /// Returns the text of `connctl status`: the summary, and one line per family.
  func status(_ snapshot: ConnectivitySnapshot, now: WallTime) -> [String] {
    let status = snapshot.status
    let age = Duration.microseconds(
      now.microseconds.subtractingReportingOverflow(snapshot.since.microseconds).partialValue)
    var header = self.paint(status.summary, status.category.ink)
    header += self.paint("\(status.costs) (since \(age.text))", nil)
    if status.category == .unknown { header += ": assume online" }
    var families = Table(indent: 2)
    for family in AddressFamily.allCases {
      let path = status[family]
      guard !status.isUnused(family) else {
        families.add(Text(family.rawValue), Text("none", .faint))
        continue
      }
      var row = [Text(family.rawValue), Text(path.status.text, path.status.ink)]
      if let interface = path.interface { row.append(Text(interface)) }
      families.rows.append(row + [Text(path.details)])
    }
    if status.category.isOnline, let portal = status.path.validation.portal {
      families.rows.append([Text("portal"), Text(portal.printable)])
    }
    if let dns = snapshot.dns { families.rows.append([Text("dns"), Text(dns.text)]) }
    return [header] + families.lines(self)
  }

  /// Returns the text of `connctl path`: one block per destination.
  func path(_ path: KernelPath, to destination: String) -> [String] {
    var header = Table()
    header.add(Text(destination), Text(path.verdict, path.status.ink))
    return header.lines(self) + self.steps(path).lines(self)
  }

  private func steps(_ path: KernelPath) -> Table {
    var steps = Table(indent: 2)
    if !path.chain.isEmpty {
      steps.add("link", Text(path.chainText))
      steps.add("medium", Text(path.medium.rawValue + path.costs))
    }
    if let source = path.source { steps.add("source", Text(source.description)) }
    if let gateway = path.gateway { steps.add("gateway", Text(gateway.description)) }
    if let table = path.table { steps.add("table", Text(RoutingTable.name(table))) }
    return steps
  }
}

extension DNSSettings {
  /// The text `192.0.2.53 2001:db8::53, search example.org`.
  var text: String {
    let servers = self.servers.map(\.description).joined(separator: " ")
    let search = self.search.isEmpty ? "" : ", search \(self.search.joined(separator: " "))"
    return (servers.isEmpty ? "no servers" : servers) + search
  }
}

extension ConstraintLevel {
  /// The text `ultra-constrained`, or `nil` if programs need not save data.
  var word: String? {
    switch self {
    case .unconstrained: nil
    case .constrained: "constrained"
    case .ultra: "ultra-constrained"
    @unknown default: "constrained"
    }
  }
}

extension KernelPath {
  /// The text `unsatisfied: no route`.
  var verdict: String { self.status.text + (self.reason.map { ": " + $0.text } ?? "") }

  /// The text `, metered, constrained, captive portal`.
  var costs: String {
    (self.isMetered ? ", metered" : "") + (self.constraint.word.map { ", " + $0 } ?? "")
      + self.validation.text
  }
}

/// The names of the kernel's own tables (rtnetlink(7)).
enum RoutingTable {
  static func name(_ number: UInt32) -> String {
    switch number {
    case 253: "253 (default)"
    case 254: "254 (main)"
    case 255: "255 (local)"
    default: "\(number)"
    }
  }
}
