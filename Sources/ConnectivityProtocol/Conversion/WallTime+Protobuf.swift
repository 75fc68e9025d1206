public import Connectivity
public import ConnectivityProtobuf

extension Google_Protobuf_Timestamp {
  public init(_ timestamp: WallTime) {
    // protobuf requires a positive fraction even before 1970.
    var (seconds, fraction) = timestamp.microseconds.quotientAndRemainder(dividingBy: 1_000_000)
    if fraction < 0 {
      seconds -= 1
      fraction += 1_000_000
    }
    self.init(seconds: seconds, nanos: Int32(fraction) * 1_000)
  }
}

extension WallTime {
  /// Creates the time, in microseconds.
  ///
  /// - Throws: ``ConversionError`` if the number of microseconds exceeds 64 bits.
  public init(_ message: Google_Protobuf_Timestamp) throws(ConversionError) {
    let (whole, tooLong) = message.seconds.multipliedReportingOverflow(by: 1_000_000)
    let (sum, overflow) = whole.addingReportingOverflow(Int64(message.nanos / 1_000))
    guard !tooLong, !overflow else {
      throw ConversionError("seconds", "\(message.seconds) is out of range")
    }
    self.init(microseconds: sum)
  }
}
