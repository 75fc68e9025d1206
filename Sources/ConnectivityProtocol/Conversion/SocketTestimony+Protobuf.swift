public import Connectivity
private import ConnectivityProtobuf

extension Connectivity_V1_SocketTestimony {
  public init(_ testimony: SocketTestimony) {
    self.init()
    self.lastHeardOffset = Google_Protobuf_Duration(rounding: testimony.lastHeard)
    self.roundTripDuration = Google_Protobuf_Duration(rounding: testimony.roundTrip)
    self.timeouts = UInt32(clamping: testimony.timeouts)
    self.unacknowledged = testimony.hasUnacknowledgedData
  }
}

extension SocketTestimony {
  public init(_ message: Connectivity_V1_SocketTestimony) {
    self.init(
      lastHeard: Duration(message.lastHeardOffset), roundTrip: Duration(message.roundTripDuration),
      timeouts: Int(message.timeouts), hasUnacknowledgedData: message.unacknowledged)
  }
}
