import Connectivity
import ConnectivityJSON
import ConnectivityProtocol

extension JSON {
  /// Returns the object of `connctl connections --json`.
  ///
  /// - Parameter hasEnded: Whether the connection no longer exists, as `--watch` reports.
  static func connection(_ listed: ListedConnection, hasEnded: Bool = false) throws -> JSON {
    let connection = listed.connection
    return [
      "local": .string(connection.local),
      "localPort": .number(connection.localPort),
      "remote": .string(connection.remote),
      "remotePort": .number(connection.remotePort),
      "state": .string(hasEnded ? "ended" : listed.verdict.rawValue),
      "reason": .string(
        connection.hasReason ? Invalidation.Reason(connection.reason).rawValue : nil),
      "severity": .string(
        connection.hasSeverity ? Invalidation.Severity(connection.severity).rawValue : nil),
      "interface": .string(connection.hasInterface ? connection.interface : nil),
      "interfaceState": .string(
        connection.hasInterfaceState ? LinkState(connection.interfaceState).rawValue : nil),
      "path": .path(try KernelPath(connection.path)),
      "user": .number(connection.user),
      "process": .number(listed.owner.map { UInt32(clamping: $0.process) }),
      "program": .string(listed.owner?.name),
      "socket": connection.hasSocket ? .socket(SocketTestimony(connection.socket)) : .null,
      "tcpState": .string(TCPStateWord(connection.tcpState)?.rawValue),
      // As text, because JSON's numbers are exact only up to 2^53.
      "socketCookie": .string("\(connection.socketCookie)"),
      "subflow": .bool(connection.subflow),
      "accepted": .bool(connection.accepted),
      "controlGroup": .string(connection.hasControlGroup ? "\(connection.controlGroup)" : nil),
    ]
  }
}

/// The states of a connection in JSON.
private enum TCPStateWord: String {
  case established, synSent, finWait1, finWait2, closeWait

  init?(_ state: Connectivity_V1_TcpState) {
    switch state {
    case .established: self = .established
    case .synSent: self = .synSent
    case .finWait1: self = .finWait1
    case .finWait2: self = .finWait2
    case .closeWait: self = .closeWait
    case .unspecified, .UNRECOGNIZED: return nil
    }
  }
}
