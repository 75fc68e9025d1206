import GRPCCore

/// Puts a call's messages together from the bytes in which they come: gRPC writes a flag of a byte and a length of four
/// before each.
///
/// How long a message says it is, is read as it comes: of one that is too long nothing is kept.
struct MessageReader: Sendable {
  /// What keeps a message from being read.
  enum Fault: Error, Hashable {
    case tooLong
    case compressed
    /// There is no memory for more of it.
    case refused(Refusal)
  }

  private static let prefix = 5

  /// How long a message may be.
  private let longest: Int
  private var bytes: [UInt8] = []
  /// What of the bytes was taken.
  private var taken = 0

  init(longest: Int) {
    self.longest = longest
  }

  /// How many bytes wait to be taken.
  var unread: Int { self.bytes.count - self.taken }

  /// The memory that is used, in bytes.
  var kept: Int { self.bytes.capacity }

  /// The next bytes, which may begin and end anywhere.
  ///
  /// - Throws: where a message among them is too long, or compressed, which no client was told it may be.
  mutating func append(_ more: UnsafeRawBufferPointer) throws(Fault) {
    self.bytes.append(contentsOf: more)
    // Messages behind the first are looked at when it is their turn.
    if let length = try self.length, length > self.longest { throw .tooLong }
  }

  /// The next message; `nil` before all of it is there.
  mutating func next() throws(Fault) -> [UInt8]? {
    guard let length = try self.length else { return nil }
    guard length <= self.longest else { throw .tooLong }
    let begin = self.taken + Self.prefix
    guard self.bytes.count >= begin + length else { return nil }
    let message = Array(self.bytes[begin..<begin + length])
    self.taken = begin + length
    if self.unread == 0 {
      (self.bytes, self.taken) = ([], 0)
    } else if self.taken > self.unread {
      self.bytes.removeFirst(self.taken)
      self.taken = 0
    }
    return message
  }

  /// Whether the next message is there, or what keeps it from being read.
  var isReady: Bool {
    guard let length = try? self.length, length <= self.longest else {
      return self.unread >= Self.prefix
    }
    return self.unread >= Self.prefix + length
  }

  /// What the next message says of its length.
  private var length: Int? {
    get throws(Fault) {
      guard self.unread >= Self.prefix else { return nil }
      guard self.bytes[self.taken] == 0 else { throw .compressed }
      return self.bytes[self.taken + 1..<self.taken + Self.prefix].reduce(0) { $0 << 8 | Int($1) }
    }
  }
}
