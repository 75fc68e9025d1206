import TestKit
import Testing

/// A TCP connection that `connctl guard` guards: connd's verdict, compared with what the connection
/// still carries.
final class GuardedFlow {
  let connection: TCPConnection?
  private let laboratory: Laboratory
  private let command: RunningCommand
  /// The lines after the first, to explain a failure.
  private var lines: [String] = []
  /// The last reported path.
  private(set) var path: PathReport

  /// Connects from the laboratory to an address outside, and has the connection guarded.
  ///
  /// - Parameter other: the namespace of the address, if it is not outside.
  convenience init(
    _ laboratory: Laboratory, to remote: String, _ options: TCPConnection.Options = .init(),
    in other: NetworkNamespace? = nil
  ) throws {
    let connection = try TCPConnection(
      from: laboratory.namespace, to: other ?? laboratory.outside, at: remote, options)
    var arguments = ["--local", connection.localEndpoint]
    if let link = options.link { arguments += ["--interface", link] }
    if let mark = options.mark { arguments += ["--mark", "\(mark)"] }
    try self.init(laboratory, connection.remoteEndpoint, connection, arguments: arguments)
  }

  /// Guards without a connection.
  init(
    _ laboratory: Laboratory, _ remote: String, _ connection: TCPConnection? = nil,
    arguments: [String] = [], as user: ([String]) -> [String] = { $0 }
  ) throws {
    self.connection = connection
    self.laboratory = laboratory
    self.command = try laboratory.namespace.spawn(
      user(
        [Programs.connctl, "--socket", laboratory.socket, "guard", "--json", remote] + arguments))
    guard let line = try self.command.nextLine() else {
      throw CommandError("connctl guard has ended: \(self.command.standardError)")
    }
    let kind: EventKindReport = try decode(line)
    guard kind.event != "invalidation" else {
      throw CommandError("connd refutes the flow at its registration: \(line)")
    }
    self.path = try decode(line)
  }

  /// The standard error of connctl.
  var remarks: String { self.command.standardError }

  /// The next invalidation.
  func invalidation() throws -> InvalidationReport {
    while let line = try self.nextLine() {
      let kind: EventKindReport = try decode(line)
      if kind.event == "invalidation" { return try decode(line) }
      self.path = try decode(line)
    }
    throw CommandError("connctl guard has ended: \(self.command.standardError)")
  }

  private func nextLine() throws -> String? {
    do {
      let line = try self.command.nextLine(within: .seconds(10))
      if let line { self.lines.append(line) }
      return line
    } catch {
      let lines = self.lines.joined(separator: "\n")
      throw CommandError("\(error); connctl's lines:\n\(lines)\n\(self.laboratory.recentLog)")
    }
  }

  /// Checks that connd's next report about the flow is this advice.
  func expectAdvice(
    _ reason: String, sourceLocation: SourceLocation = #_sourceLocation
  ) throws {
    let told = try self.invalidation()
    #expect(
      "\(told.severity) \(told.reason)" == "advise \(reason)", "\(told)",
      sourceLocation: sourceLocation)
  }

  /// Checks that connd destroys the flow for one of these reasons, after reporting only `before`
  /// (`nil`: anything weaker), and that TCP agrees. An active flow is first advised for the same
  /// reason, while its socket is queried (E1), and on a busy machine it may seem silent meanwhile
  /// (E2). A better path first drains (I3).
  func expectDestroyed(
    _ reasons: String..., after before: [String]? = [], cause: String? = nil,
    sourceLocation: SourceLocation = #_sourceLocation
  ) throws {
    var told: [String] = []
    while true {
      let invalidation = try self.invalidation()
      guard invalidation.severity == "destroy" else {
        told.append("\(invalidation.severity) \(invalidation.reason)")
        continue
      }
      #expect(
        reasons.contains(invalidation.reason), "\(invalidation)", sourceLocation: sourceLocation)
      if let before {
        let isDrained = invalidation.reason == "betterPath"
        let examined = [
          "\(isDrained ? "drain" : "advise") \(invalidation.reason)", "advise silent",
        ]
        let others = told.filter { before.contains($0) || !examined.contains($0) }
        #expect(others == before, "\(told)", sourceLocation: sourceLocation)
      }
      if let cause {
        #expect(invalidation.cause.change == cause, sourceLocation: sourceLocation)
      }
      break
    }
    if let connection = self.connection {
      #expect(!connection.carries(within: .milliseconds(700)), sourceLocation: sourceLocation)
    }
  }

  /// Checks that the connection works, and that connd has given this advice (`nil`: any) and
  /// nothing more. Then removes the flow's address: its loss must be connd's next report.
  func expectAlive(
    in laboratory: Laboratory, on link: String, advised advice: [String]? = [],
    sourceLocation: SourceLocation = #_sourceLocation
  ) throws {
    // Flows are evaluated after the change is published: pending advice must not mix with the loss
    // of the address.
    for reason in advice ?? [] { try self.expectAdvice(reason, sourceLocation: sourceLocation) }
    if let connection = self.connection {
      #expect(connection.carries(within: .seconds(10)), sourceLocation: sourceLocation)
      try laboratory.awaitEvaluation()
      let length = connection.local.contains(":") ? 64 : 24
      try laboratory.namespace.ip("address del \(connection.local)/\(length) dev \(link)")
    }
    try self.expectDestroyed(
      "sourceAddressLost", after: advice == nil ? nil : [], sourceLocation: sourceLocation)
  }

  /// Checks that connd reports nothing stronger than `severity` for these flows, and that their
  /// traffic continues. Finally removes their source addresses: that must cause their first
  /// `destroy`.
  static func expectSpared(
    _ flows: [GuardedFlow], atMost severity: Severity = .advise,
    sourceLocation: SourceLocation = #_sourceLocation, end: () throws -> Void
  ) throws {
    for flow in flows {
      let carries = try #require(flow.connection).carries(within: .seconds(20))
      #expect(carries, "\(flow.path)", sourceLocation: sourceLocation)
    }
    try flows.first?.laboratory.awaitEvaluation()
    try end()
    for flow in flows {
      var told: InvalidationReport
      repeat {
        told = try flow.invalidation()
        #expect(
          told.reason == "sourceAddressLost"
            || Severity(rawValue: told.severity).map { $0 <= severity } == true,
          "\(told)", sourceLocation: sourceLocation)
      } while told.severity != "destroy"
      #expect(told.reason == "sourceAddressLost", sourceLocation: sourceLocation)
    }
  }

  func expectSpared(
    atMost severity: Severity = .advise, sourceLocation: SourceLocation = #_sourceLocation,
    end: () throws -> Void
  ) throws {
    try Self.expectSpared([self], atMost: severity, sourceLocation: sourceLocation, end: end)
  }
}

/// The severity of an invalidation.
enum Severity: String, Comparable {
  case nothing, advise, drain, destroy

  private var rank: Int {
    switch self {
    case .nothing: 0
    case .advise: 1
    case .drain: 2
    case .destroy: 3
    }
  }

  static func < (left: Severity, right: Severity) -> Bool { left.rank < right.rank }
}
