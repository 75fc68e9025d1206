internal import Connectivity
internal import ConnectivityProtocol
internal import GRPCCore

/// The path to one destination. Each connection to connd begins with the current path.
struct FollowedPath: FollowedState {
  static let method = Connectivity_V1_Connectivity.Method.WatchPath.descriptor

  let destination: IPAddress
  /// The mark (`SO_MARK`) of the traffic; 0 means none.
  let mark: UInt32
  private var outage = Outage()

  init(to destination: IPAddress, mark: UInt32) {
    self.destination = destination
    self.mark = mark
  }

  var request: Connectivity_V1_WatchPathRequest {
    var request = Connectivity_V1_WatchPathRequest()
    request.destination = self.destination.description
    if self.mark != 0 { request.mark = self.mark }
    return request
  }

  /// connd's first message follows at once.
  mutating func accepted() -> PathEvent? { nil }

  mutating func received(_ message: Connectivity_V1_WatchPathResponse) throws -> PathEvent? {
    let path = NetworkPath(try Path(message.path), family: self.destination.family)
    _ = self.outage.accepted()
    self.outage.received()
    return .path(path, interrupted: false)
  }

  mutating func lost(_ error: any Error) -> (PathEvent?, pause: Duration) {
    let (error, pause) = self.outage.lost(error)
    return (error.map { _ in .lost }, pause)
  }
}
