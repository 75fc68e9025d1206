import NIOCore

/// Reads of a call's requests how long each says it is, before anything of it is kept: gRPC writes a flag of a byte and a
/// length of four before each message.
struct MessageMeter {
  /// How long a message may be.
  let most: Int
  private var header = 0
  private var length = 0
  /// What of the present message is still to come.
  private var remaining = 0

  init(most: Int) {
    self.most = most
  }

  /// The next bytes, which may begin and end anywhere.
  ///
  /// - Returns: whether no message among them is too long.
  mutating func admits(_ bytes: ByteBuffer) -> Bool {
    var bytes = bytes
    while true {
      let part = min(self.remaining, bytes.readableBytes)
      bytes.moveReaderIndex(forwardBy: part)
      self.remaining -= part
      guard let byte: UInt8 = bytes.readInteger() else { return true }
      self.length = self.length << 8 | (self.header == 0 ? 0 : Int(byte))
      self.header += 1
      if self.header == 5 {
        guard self.length <= self.most else { return false }
        (self.remaining, self.header, self.length) = (self.length, 0, 0)
      }
    }
  }
}
