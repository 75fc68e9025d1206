package import Connectivity
private import ConnectivityProtobuf
private import ConnectivityProtocol

extension Connector {
  /// Returns the other way to a host, or `nil` if connd is absent or in another network namespace
  /// (C7).
  ///
  /// - Parameters:
  ///   - port: The TCP port of the host.
  ///   - socket: The path of connd's socket.
  package func otherWay(
    to remote: IPAddress, port: UInt16, at socket: String
  ) async -> OtherWay? {
    var answer: OtherWay?
    var request = Connectivity_V1_GetPathRequest()
    request.destination = remote.description
    request.remotePort = UInt32(port)
    request.withOtherWay = true
    do {
      try await self.stream(
        Connectivity_V1_Connectivity.Method.GetPath.descriptor, request.serializedBytes(),
        at: socket
      ) {
      } _: { message in
        let response = try Connectivity_V1_GetPathResponse(serializedBytes: message)
        guard response.hasOtherWay, response.networkNamespace == ProcessNamespace.reported else {
          return
        }
        answer = try OtherWay(response.otherWay)
      }
    } catch {
      return nil
    }
    return answer
  }

  /// Reports how an attempt to connect by the default way ended. Without connd, does nothing.
  package func report(
    _ outcome: AttemptOutcome, to remote: IPAddress, port: UInt16, at socket: String
  ) async {
    var request = Connectivity_V1_ReportAttemptRequest()
    request.destination = remote.description
    request.remotePort = UInt32(port)
    request.outcome = Connectivity_V1_AttemptOutcome(outcome)
    try? await self.stream(
      Connectivity_V1_Connectivity.Method.ReportAttempt.descriptor, request.serializedBytes(),
      at: socket
    ) {
    } _: { _ in
    }
  }
}
