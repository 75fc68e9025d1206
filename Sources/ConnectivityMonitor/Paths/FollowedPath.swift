internal import Connectivity
private import ConnectivityProtobuf
private import ConnectivityProtocol
internal import GRPCCore

/// The path to one destination. Each connection to connd begins with the current path.
struct FollowedPath: FollowedState {
  static let method = Connectivity_V1_Connectivity.Method.WatchPath.descriptor

  let destination: IPAddress
  /// The mark (`SO_MARK`) of the traffic; 0 means none.
  let mark: UInt32
  /// The name of the link that the traffic is bound to, or `nil` if it is not.
  let link: String?
  private var outage = Outage()

  init(to destination: IPAddress, mark: UInt32, via link: String?) {
    self.destination = destination
    self.mark = mark
    self.link = link
  }

  var request: [UInt8] {
    var request = Connectivity_V1_WatchPathRequest()
    request.destination = self.destination.description
    if self.mark != 0 { request.mark = self.mark }
    if let link = self.link { request.via = link }
    return request.serializedBytes()
  }

  /// Returns no event, because connd's first message follows immediately.
  mutating func accepted() -> PathEvent? { nil }

  mutating func accepted(by foreign: ForeignNamespace) -> PathEvent? {
    self.outage.accepted(by: foreign).map { _ in .lost }
  }

  mutating func received(_ message: [UInt8]) throws -> PathEvent? {
    let response = try Connectivity_V1_WatchPathResponse(serializedBytes: message)
    let path = NetworkPath(try KernelPath(response.path), family: self.destination.family)
    _ = self.outage.accepted()
    self.outage.received()
    return .path(path, interrupted: false)
  }

  mutating func lost(_ error: any Error) -> (PathEvent?, pause: Duration) {
    let (error, pause) = self.outage.lost(error)
    return (error.map { _ in .lost }, pause)
  }
}
