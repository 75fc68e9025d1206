package import Connectivity

extension Connector {
  /// Returns the way to a host by another link now, or `nil` if connd is absent or in another
  /// network namespace (C7).
  ///
  /// - Parameters:
  ///   - port: The TCP port of the host.
  ///   - socket: The path of connd's socket.
  package func otherWay(
    to remote: IPAddress, port: UInt16, at socket: String
  ) async -> OtherWay? {
    var way: OtherWay?
    do {
      let request = OtherWayMessages.request(remote, port: port)
      try await self.stream(.connd("GetPath"), request, at: socket) {
      } _: { message in
        way = try OtherWayMessages.otherWay(message)
      }
    } catch {
      return nil
    }
    return way
  }

  /// Reports how an attempt to connect by the default way ended. Without connd, does nothing.
  package func report(
    _ outcome: AttemptOutcome, to remote: IPAddress, port: UInt16, at socket: String
  ) async {
    let request = OtherWayMessages.report(outcome, remote, port: port)
    try? await self.stream(.connd("ReportAttempt"), request, at: socket) {
    } _: { _ in
    }
  }
}
