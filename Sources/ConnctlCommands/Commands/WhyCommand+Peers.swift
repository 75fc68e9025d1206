import Connectivity
import ConnectivityMonitor
import ConnectivityProtocol

extension WhyCommand {
  /// The maximum number of peers that are asked, each of another host.
  private static let maxPeers = 16

  /// Asks the peers of idle connections that the question is about, by a keepalive probe each (E4),
  /// and judges again. Needs no privileges, as far as the kernel lets a user have the sockets of
  /// other processes (pidfd_getfd(2), Yama).
  ///
  /// - Returns: The new diagnosis, or `nil` if no peer could be asked.
  func askPeers(
    _ request: Connectivity_V1_DiagnoseRequest, _ connd: ConndServices
  ) async throws -> Connectivity_V1_Diagnosis? {
    var hosts: Set<IPAddress> = []
    let connections = try await connd.connections().compactMap { ReapableConnection($0) }
      .filter { !$0.isConnecting && request.concerns($0) && hosts.insert($0.flow.remote).inserted }
    let ender = ProcessEnder(root: 1) { _ in }
    let asked = await ender.ask(
      Array(ender.select(connections).prefix(Self.maxPeers)), on: connd.thread)
    guard asked > 0 else { return nil }
    var diagnosis = try await connd.call(ConndServices.Diagnostics.Diagnose.self, request)
    diagnosis.evidence.append(
      asked == 1
        ? "the peer of an idle connection was asked"
        : "the peers of \(asked) idle connections were asked")
    return diagnosis
  }
}

extension Connectivity_V1_DiagnoseRequest {
  /// Whether the question is about a connection. Without a host, port or socket it is about all.
  fileprivate func concerns(_ connection: ReapableConnection) -> Bool {
    let peer = connection.flow
    return (self.socketInodes.isEmpty || self.socketInodes.contains(connection.inode))
      && (self.hosts.isEmpty || self.hosts.contains(peer.remote.description))
      && (!self.hasPort || UInt32(peer.transport?.remotePort ?? 0) == self.port)
  }
}
