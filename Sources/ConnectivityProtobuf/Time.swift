/// A time: `google.protobuf.Timestamp`.
public struct Google_Protobuf_Timestamp: Message {
  /// The seconds since 1970, in UTC.
  public var seconds: Int64 = 0
  /// The nanoseconds after that: 0 to 999,999,999.
  public var nanos: Int32 = 0

  public init() {}

  public init(seconds: Int64, nanos: Int32) {
    self.seconds = seconds
    self.nanos = nanos
  }

  public mutating func read(_ field: ProtobufField) throws(ProtobufError) {
    switch field.number {
    case 1: if let value = field.int64 { self.seconds = value }
    case 2: if let value = field.int32 { self.nanos = value }
    default: break
    }
  }

  public func write(to writer: inout ProtobufWriter) {
    writer.write(self.seconds, as: 1)
    writer.write(Int64(self.nanos), as: 2)
  }
}

/// A span of time: `google.protobuf.Duration`.
public struct Google_Protobuf_Duration: Message {
  public var seconds: Int64 = 0
  /// The nanoseconds, with the sign of the seconds: fewer than 1,000,000,000.
  public var nanos: Int32 = 0

  public init() {}

  public init(seconds: Int64, nanos: Int32) {
    self.seconds = seconds
    self.nanos = nanos
  }

  /// Rounds to the nearest nanosecond.
  public init(rounding duration: Duration) {
    let (seconds, attoseconds) = duration.components
    let half: Int64 = attoseconds < 0 ? -500_000_000 : 500_000_000
    let nanoseconds = (attoseconds + half) / 1_000_000_000
    self.seconds = seconds + nanoseconds / 1_000_000_000
    self.nanos = Int32(nanoseconds % 1_000_000_000)
  }

  public mutating func read(_ field: ProtobufField) throws(ProtobufError) {
    switch field.number {
    case 1: if let value = field.int64 { self.seconds = value }
    case 2: if let value = field.int32 { self.nanos = value }
    default: break
    }
  }

  public func write(to writer: inout ProtobufWriter) {
    writer.write(self.seconds, as: 1)
    writer.write(Int64(self.nanos), as: 2)
  }
}

extension Duration {
  public init(_ message: Google_Protobuf_Duration) {
    self = .seconds(message.seconds) + .nanoseconds(message.nanos)
  }
}
