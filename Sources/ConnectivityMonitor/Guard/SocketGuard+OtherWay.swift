public import Connectivity

/// The other way, for an application that makes its connections itself.
///
/// Implements rules W5 and W6.
extension SocketGuard {
  /// Returns the other way to a host: the path by another link's default route. Use it for a second
  /// connection while the first makes no progress. Returns `nil` if connd is not running, or is in
  /// another network namespace (C7).
  ///
  /// Use the other way only if `OtherWay.isAllowed`. Bind the second socket to its link before you
  /// connect (`SO_BINDTODEVICE`, or `SO_BINDTOIFINDEX`). Use the connection that is ready first,
  /// and do not send the same request on both.
  ///
  /// - Parameters:
  ///   - remote: The address of the host, as the resolver of the default way returned it.
  ///   - port: The port of the host.
  ///   - access: The networks that the connection may use.
  ///   - socket: connd's socket.
  public static func otherWay(
    to remote: IPAddress, port: UInt16, access: NetworkAccess = .unrestricted,
    socket: ConndSocket = .default
  ) async -> OtherWay? {
    let answer = await Connector.shared.otherWay(to: remote, port: port, at: socket.path)
    return answer?.limited(to: access)
  }

  /// Returns the other way to the connection's peer, as ``otherWay(to:port:access:socket:)`` does,
  /// with the guard's ``Config/access``.
  public func otherWay() async -> OtherWay? {
    let (socket, config) = (self.connection, self.config)
    if socket.boundLink != nil { return OtherWay(whyNot: .bound) }
    if socket.mark != 0 { return OtherWay(whyNot: .marked) }
    return await Self.otherWay(
      to: socket.remote, port: socket.remotePort, access: config.access, socket: config.socket)
  }
}

extension OtherWay {
  /// Returns the other way for an application that may not use every network.
  package func limited(to access: NetworkAccess) -> OtherWay {
    guard self.isAllowed, let path = self.path else { return self }
    if access.prohibitedMedia.contains(path.medium) { return OtherWay(whyNot: .noOtherPath) }
    if path.isConstrained, !access.allowsConstrainedAccess {
      return OtherWay(path, whyNot: .constrained)
    }
    // An unknown cost is not free.
    if path.isExpensive != false, !access.allowsExpensiveAccess {
      return OtherWay(path, whyNot: .expensive)
    }
    return self
  }
}
