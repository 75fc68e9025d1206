package import GRPCCore

/// Where the messages of a response come from, one after the other, as the client takes them. Asked on the reactor's thread.
package protocol MessageSource: AnyObject {
  /// The next message.
  func next() -> NextMessage
  /// The call is over: nothing more is asked for.
  func close()
}

/// What a ``MessageSource`` has to send.
package enum NextMessage {
  /// A serialised message.
  case message([UInt8])
  /// Nothing yet: the source says so when there is (``ResponseStream/resume()``).
  case later
  /// Nothing more: the call ends.
  case end(Status)
}

/// Writes a source's messages into frames, each behind gRPC's prefix: a flag of a byte and a length of four.
struct MessageWriter {
  private static let prefix = 5

  /// What is being written, and how many bytes of it and of its prefix were.
  private var message: [UInt8] = []
  private var written: Int?

  /// What became of a frame.
  enum Filling {
    case bytes(Int)
    /// The source has nothing yet.
    case nothing
    /// The last bytes, and the source's status.
    case end(Int, Status)
  }

  /// Fills a frame as far as there is something to be sent.
  mutating func fill(
    _ frame: UnsafeMutableRawBufferPointer, from source: any MessageSource
  ) -> Filling {
    var count = 0
    while count < frame.count {
      if self.written == nil {
        switch source.next() {
        case .message(let message): (self.message, self.written) = (message, 0)
        case .later: return count > 0 ? .bytes(count) : .nothing
        case .end(let status): return .end(count, status)
        }
      }
      count += self.write(to: UnsafeMutableRawBufferPointer(rebasing: frame[count...]))
    }
    return .bytes(count)
  }

  /// Writes as much of the message as there is room for.
  private mutating func write(to frame: UnsafeMutableRawBufferPointer) -> Int {
    var written = self.written ?? 0
    var count = 0
    while written < Self.prefix, count < frame.count {
      let shift = 8 * (Self.prefix - 1 - written)
      frame[count] = written == 0 ? 0 : UInt8(truncatingIfNeeded: self.message.count >> shift)
      (written, count) = (written + 1, count + 1)
    }
    let part = self.message[max(0, written - Self.prefix)...].prefix(frame.count - count)
    UnsafeMutableRawBufferPointer(rebasing: frame[count...]).copyBytes(from: part)
    written += part.count
    count += part.count
    let isDone = written == Self.prefix + self.message.count
    self.written = isDone ? nil : written
    if isDone { self.message = [] }
    return count
  }
}
