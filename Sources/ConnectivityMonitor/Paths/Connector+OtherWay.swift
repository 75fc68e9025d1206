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
}
