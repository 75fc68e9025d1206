internal import Connectivity
private import ConnectivityProtocol
internal import ConnectivitySession
private import GRPCCore
private import Synchronization

/// Follows the path to one destination, across restarts of connd.
///
/// A lost connection is reported once. It is retried after 100 ms, and then in growing intervals of
/// at most 2 s. Each connection begins with the current path.
final class PathStream: Sendable {
  private let destination: IPAddress
  private let mark: UInt32
  private let socket: String
  private let outage = Mutex(Outage())

  /// - Parameter mark: The mark (`SO_MARK`) of the traffic; 0 means none.
  init(to destination: IPAddress, mark: UInt32, socket: String) {
    self.destination = destination
    self.mark = mark
    self.socket = socket
  }

  /// Connects, reads, and reconnects.
  ///
  /// - Throws: Only `CancellationError`.
  func run(_ tell: @escaping @Sendable (PathEvent) -> Void) async throws {
    while true {
      let error = await self.connection(tell)
      try Task.checkCancellation()
      let (news, pause) = self.outage.withLock { $0.lost(error) }
      if news != nil { tell(.lost) }
      try await Task.sleep(for: pause)
    }
  }

  /// Reads from one connection until it ends, and returns the reason.
  private func connection(_ tell: @escaping @Sendable (PathEvent) -> Void) async -> any Error {
    var request = Connectivity_V1_WatchPathRequest()
    request.destination = self.destination.description
    if self.mark != 0 { request.mark = self.mark }
    do {
      try await SharedConnection.with(self.socket) { [request] connd in
        try await connd.watchPath(request) { response in
          for try await message in response.messages {
            let path = NetworkPath(try Path(message.path), family: self.destination.family)
            self.outage.withLock { outage in
              _ = outage.accepted()
              outage.received()
            }
            tell(.path(path, interrupted: false))
          }
        }
      }
      return ConndError.notThere("connd ended the stream")
    } catch {
      return await NIODialler().reading(error, of: self.socket)
    }
  }
}
