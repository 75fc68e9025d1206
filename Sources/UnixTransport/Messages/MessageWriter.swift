package import GRPCCore

/// The messages of a response, one after the other, as the client accepts them. Called on the
/// reactor's thread.
package protocol MessageSource: AnyObject {
  /// Returns the next message.
  func next() -> NextMessage
  /// Called when the call ends. The source receives no more requests for messages.
  func close()
}

/// The answer of a ``MessageSource``.
package enum NextMessage {
  /// A serialised message.
  case message([UInt8])
  /// Nothing yet. The source calls ``ServerStream/resume()`` when there is a message.
  case later
  /// No more messages: the call ends.
  case end(Status)
}

/// Writes a source's messages into frames, each after gRPC's prefix: a flag of one byte and a
/// length of four bytes.
struct MessageWriter {
  private static let prefix = 5

  /// The message being written, and the number of bytes written, including the prefix.
  private var message: [UInt8] = []
  private var written: Int?

  /// The result of filling a frame.
  enum Filling {
    case bytes(Int)
    /// The source has no message yet.
    case nothing
    /// The last bytes, and the source's status.
    case end(Int, Status)
  }

  /// Fills a frame with as much as the source has to send.
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

  /// Writes as much of the message as fits.
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
