import TestKit
import Testing

/// A TCP connection that `connctl guard` guards: what connd says of it, and what it is worth itself.
final class GuardedFlow {
  let connection: TCPConnection?
  private let command: RunningCommand
  /// The path that was told last.
  private(set) var path: PathReport

  /// Connects from the laboratory to an address outside, and has the connection guarded.
  convenience init(_ laboratory: Laboratory, to remote: String) throws {
    let connection = try TCPConnection(
      from: laboratory.namespace, to: laboratory.outside, at: remote)
    try self.init(laboratory, remote, connection, arguments: ["--local", connection.local])
  }

  /// Guards without a connection.
  init(
    _ laboratory: Laboratory, _ remote: String, _ connection: TCPConnection? = nil,
    arguments: [String] = [], as user: ([String]) -> [String] = { $0 }
  ) throws {
    self.connection = connection
    self.command = try laboratory.namespace.spawn(
      user(
        [Programs.connctl, "--socket", laboratory.socket, "guard", "--json", remote] + arguments))
    guard let line = try self.command.nextLine() else {
      throw CommandError("connctl guard has ended: \(self.command.standardError)")
    }
    self.path = try decode(line)
  }

  /// The next invalidation.
  func invalidation() throws -> InvalidationReport {
    while let line = try self.command.nextLine(within: .seconds(10)) {
      let kind: EventKindReport = try decode(line)
      if kind.event == "invalidation" { return try decode(line) }
      self.path = try decode(line)
    }
    throw CommandError("connctl guard has ended: \(self.command.standardError)")
  }

  /// Checks that the next thing that connd says of the flow is this advice.
  func expectAdvice(
    _ reason: String, sourceLocation: SourceLocation = #_sourceLocation
  ) throws {
    let told = try self.invalidation()
    #expect(
      "\(told.severity) \(told.reason)" == "advise \(reason)", sourceLocation: sourceLocation)
  }

  /// Checks that connd declares the flow dead for one of these reasons, that it was told so before only as `before`, and that TCP
  /// agrees.
  func expectDestroyed(
    _ reasons: String..., after before: [String] = [], cause: String? = nil,
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
      #expect(told == before, sourceLocation: sourceLocation)
      if let cause {
        #expect(invalidation.cause.change == cause, sourceLocation: sourceLocation)
      }
      break
    }
    if let connection = self.connection {
      #expect(!connection.carries(within: .milliseconds(700)), sourceLocation: sourceLocation)
    }
  }

  /// Checks that the connection works, and that connd has given this advice and says nothing more. Then ends the flow by
  /// taking its address away: what connd says of that must be the next thing that it says.
  func expectAlive(
    in laboratory: Laboratory, on link: String, advised advice: [String] = [],
    sourceLocation: SourceLocation = #_sourceLocation
  ) throws {
    // Flows are looked at after the change was published: advice that is on its way must not meet the end of the address.
    for reason in advice { try self.expectAdvice(reason, sourceLocation: sourceLocation) }
    if let connection = self.connection {
      #expect(connection.carries(within: .seconds(10)), sourceLocation: sourceLocation)
      let length = connection.local.contains(":") ? 64 : 24
      try laboratory.namespace.ip("address del \(connection.local)/\(length) dev \(link)")
    }
    try self.expectDestroyed("sourceAddressLost", sourceLocation: sourceLocation)
  }
}
