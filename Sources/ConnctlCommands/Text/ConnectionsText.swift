import Connectivity
import ConnectivityProtocol

/// The state of a connection according to connd, the worst first.
enum ConnectionVerdict: String, CaseIterable, Hashable {
  case dead
  /// The traffic has moved to another path, on which the peer's answers are usually lost.
  case willNotSurvive
  /// The connection's path is gone, and may come back within the grace period.
  case inGrace
  /// The path works, but probably not for this connection.
  case inDoubt
  /// connd does not know the state.
  case unknown
  case alive

  init(_ connection: Connectivity_V1_Connection) {
    guard connection.hasSeverity else {
      self = connection.path.status == .unknown ? .unknown : .alive
      return
    }
    switch (connection.severity, connection.reason) {
    case (.destroy, .betterPath), (.destroy, .policy), (.destroy, .resumed), (.drain, _):
      self = .willNotSurvive
    case (.destroy, _): self = .dead
    default: self = connection.path.status == .satisfied ? .inDoubt : .inGrace
    }
  }

  /// The text for people, that of an invalidation's severity if one is the reason.
  var text: String {
    switch self {
    case .willNotSurvive: Invalidation.Severity.drain.text
    case .inDoubt: Invalidation.Severity.advise.text
    case .dead, .inGrace, .unknown, .alive: self.rawValue.separatedWords
    }
  }

  var ink: TextStyle {
    switch self {
    case .dead: .bad
    case .willNotSurvive, .inGrace, .inDoubt, .unknown: .middling
    case .alive: .good
    }
  }
}

/// A connection with its process.
struct ListedConnection: Equatable {
  var connection: Connectivity_V1_Connection
  var owner: SocketOwner?

  var verdict: ConnectionVerdict { ConnectionVerdict(self.connection) }

  /// Identifies the connection while it exists.
  struct ID: Hashable {
    var socket: UInt64
    var local: String
    var remote: String
  }

  var id: ID {
    ID(socket: self.connection.socketInode, local: self.local, remote: self.remote)
  }

  var local: String { Self.end(self.connection.local, self.connection.localPort) }
  var remote: String { Self.end(self.connection.remote, self.connection.remotePort) }

  private static func end(_ address: String, _ port: UInt32) -> String {
    address.contains(":") ? "[\(address)]:\(port)" : "\(address):\(port)"
  }

  /// The text `dead: eth0 has no carrier`.
  var text: String {
    let (verdict, why) = (self.verdict.text, self.why)
    let note = self.unanswered.map { ", \($0)" } ?? ""
    switch self.verdict {
    case .alive, .unknown: return self.verdict.rawValue + note
    case .dead, .willNotSurvive, .inGrace: return "\(verdict): \(why)"
    case .inDoubt: return "\(verdict): \(why)" + note
    }
  }

  /// The text `no answer for 12 s`, or `nil` if the peer answers or has nothing to answer.
  private var unanswered: String? {
    guard self.connection.hasSocket else { return nil }
    let socket = SocketTestimony(self.connection.socket)
    guard socket.hasUnacknowledgedData, socket.timeouts >= 2 else { return nil }
    return "no answer for \((.zero - socket.lastHeard).text)"
  }

  private var why: String {
    let link = self.connection.hasInterface ? self.connection.interface : nil
    switch Invalidation.Reason(self.connection.reason) {
    case .sourceAddressLost: return "\(self.connection.local) is gone"
    case .interfaceLost:
      guard let link else { return "its link is gone" }
      return self.obstacle?.text(of: link) ?? "no route by \(link)"
    case .networkChanged: return "\(link ?? "its link") is on another network"
    case .betterPath:
      return self.connection.path.chain.first.map { "traffic now leaves by \($0.name)" }
        ?? "traffic now takes another path"
    case .silent: return self.unanswered ?? "no answer"
    case .resumed: return "the machine slept"
    case .policy: return "its path is forbidden"
    case .categoryChanged: return "another network"
    }
  }

  /// Why the connection's link, which exists, carries nothing, or `nil` if its route is missing.
  private var obstacle: KernelPath.Reason? {
    let state =
      self.connection.hasInterfaceState ? LinkState(self.connection.interfaceState) : nil
    return switch state {
    case .down: .linkDown
    case .noCarrier: .noCarrier
    case .dormant: .dormant
    case .up, nil:
      (try? KernelPath(self.connection.path)).flatMap { path in
        path.interface == self.connection.interface ? path.reason : nil
      }
    }
  }

  /// The text `ssh 4711`, or the user's name.
  var ownerText: String {
    if let owner { return "\(owner.name) \(owner.process)" }
    return UserName.name(of: self.connection.user) ?? "uid \(self.connection.user)"
  }

  /// The link that the connection's packets use, or the link with its local address.
  var link: String {
    let path = self.connection.path.chain.first?.name
    return path ?? (self.connection.hasInterface ? self.connection.interface : "-")
  }
}

extension [ListedConnection] {
  /// The connections, worst first, otherwise in the original order.
  var worstFirst: [ListedConnection] {
    ConnectionVerdict.allCases.flatMap { verdict in self.filter { $0.verdict == verdict } }
  }
}

extension Style {
  /// Returns the text of `connctl connections`.
  func connections(_ connections: [ListedConnection]) -> [String] {
    guard !connections.isEmpty else { return [] }
    var table = Table(["LOCAL", "REMOTE", "LINK", "PROCESS", "STATE"])
    for connection in connections.worstFirst {
      table.add(
        Text(connection.local), Text(connection.remote), Text(connection.link),
        Text(connection.ownerText), Text(connection.text, connection.verdict.ink))
    }
    return table.lines(self)
  }

  /// Returns a line of `connctl connections --watch`.
  ///
  /// - Parameter hasEnded: Whether the connection no longer exists.
  func connection(_ connection: ListedConnection, hasEnded: Bool, now: WallTime) -> [String] {
    self.row(
      now, hasEnded ? Text("ended", .faint) : Text(connection.text, connection.verdict.ink),
      "\(connection.local) to \(connection.remote) \(connection.ownerText)")
  }
}
