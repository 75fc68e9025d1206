public import Connectivity
private import SwiftProtobuf

extension Connectivity_V1_SocketTestimony {
  public init(_ testimony: SocketTestimony) {
    self.init()
    self.lastHeard = Google_Protobuf_Duration(testimony.lastHeard)
    self.roundTrip = Google_Protobuf_Duration(testimony.roundTrip)
    self.timeouts = UInt32(clamping: testimony.timeouts)
    self.unacknowledged = testimony.hasUnacknowledgedData
  }
}

extension SocketTestimony {
  public init(_ message: Connectivity_V1_SocketTestimony) {
    self.init(
      lastHeard: Duration(message.lastHeard), roundTrip: Duration(message.roundTrip),
      timeouts: Int(message.timeouts), hasUnacknowledgedData: message.unacknowledged)
  }
}

extension Google_Protobuf_Duration {
  /// Both parts must have the same sign.
  fileprivate init(_ duration: Duration) {
    let (seconds, attoseconds) = duration.components
    self.init()
    self.seconds = seconds
    self.nanos = Int32(attoseconds / 1_000_000_000)
  }
}

extension Duration {
  fileprivate init(_ message: Google_Protobuf_Duration) {
    self = .seconds(message.seconds) + .nanoseconds(Int64(message.nanos))
  }
}
