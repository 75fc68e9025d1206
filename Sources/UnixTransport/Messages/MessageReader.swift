import GRPCCore

/// Assembles a call's messages from raw bytes. gRPC puts a flag of one byte and a length of four
/// bytes before each message.
///
/// The length is checked as soon as it arrives. No part of a message that is too long is kept.
struct MessageReader: Sendable {
  /// The reason why a message cannot be read.
  enum Fault: Error, Hashable {
    case tooLong
    case compressed
    /// There is not enough memory for the message.
    case refused(Refusal)
  }

  private static let prefix = 5

  /// The maximum length of a message.
  private let maxLength: Int
  private var bytes: [UInt8] = []
  /// The number of bytes already taken.
  private var taken = 0

  init(maxLength: Int) {
    self.maxLength = maxLength
  }

  /// The number of bytes that were not taken yet.
  var unread: Int { self.bytes.count - self.taken }

  /// The memory in use, in bytes.
  var kept: Int { self.bytes.capacity }

  /// Adds bytes, which may begin and end anywhere.
  ///
  /// - Throws: An error if the next message is too long or compressed. connd never offers
  ///   compression.
  mutating func append(_ more: UnsafeRawBufferPointer) throws(Fault) {
    self.bytes.append(contentsOf: more)
    // Later messages are checked when it is their turn.
    if let length = try self.length, length > self.maxLength { throw .tooLong }
  }

  /// Takes the next message. Returns `nil` until it is complete.
  mutating func next() throws(Fault) -> [UInt8]? {
    guard let length = try self.length else { return nil }
    guard length <= self.maxLength else { throw .tooLong }
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

  /// Whether the next message is complete or faulty.
  var isReady: Bool {
    guard let length = try? self.length, length <= self.maxLength else {
      return self.unread >= Self.prefix
    }
    return self.unread >= Self.prefix + length
  }

  /// The length in the prefix of the next message.
  private var length: Int? {
    get throws(Fault) {
      guard self.unread >= Self.prefix else { return nil }
      guard self.bytes[self.taken] == 0 else { throw .compressed }
      return self.bytes[self.taken + 1..<self.taken + Self.prefix].reduce(0) { $0 << 8 | Int($1) }
    }
  }
}
