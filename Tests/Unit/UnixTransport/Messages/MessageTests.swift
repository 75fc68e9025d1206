import GRPCCore
import TestKit
import Testing

@testable import UnixTransport

@Suite("Messages on the wire")
struct MessageTests {
  static let messages: [[UInt8]] = [[], [7], Array(repeating: 1, count: 300), [], [1, 2, 3]]

  /// The messages, each behind a flag and its length.
  static func bytes(_ messages: [[UInt8]]) -> [UInt8] {
    messages.flatMap { message in
      [0] + [24, 16, 8, 0].map { UInt8(message.count >> $0 & 0xFF) } + message
    }
  }

  private static func append(_ bytes: [UInt8], to reader: inout MessageReader) throws {
    try bytes.withUnsafeBytes { try reader.append($0) }
  }

  @Test("messages are assembled however their bytes are split", arguments: 1...40)
  func reading(size: Int) throws {
    let bytes = Self.bytes(Self.messages)
    var reader = MessageReader(maxLength: 300)
    var read: [[UInt8]] = []
    for start in stride(from: 0, to: bytes.count, by: size) {
      try Self.append(Array(bytes[start..<min(start + size, bytes.count)]), to: &reader)
      #expect(reader.isReady || reader.unread < 305)
      while let message = try reader.next() { read.append(message) }
      #expect(!reader.isReady)
    }
    #expect(read == Self.messages)
    #expect(reader.unread == 0)
  }

  @Test("parsing keeps no bytes of complete messages, even if the next one has always begun")
  func keepingNothing() throws {
    let bytes = Self.bytes([Array(repeating: 1, count: 95)])
    var reader = MessageReader(maxLength: 95)
    try Self.append(Array(bytes[..<50]), to: &reader)
    for _ in 0..<10_000 {
      try Self.append(Array(bytes[50...] + bytes[..<50]), to: &reader)
      let messages = [try reader.next(), try reader.next()]
      #expect(messages.map { $0?.count } == [95, nil])
      #expect(reader.kept < 400)
    }
  }

  @Test("D4 a task has read a message → its bytes count until the task reads the next one")
  func lastMessage() async throws {
    let inbox = MessageInbox(maxLength: 300, hasBegun: true) { _, _ in }
    for size in [200, 20] {
      let bytes = Self.bytes([Array(repeating: 1, count: size)])
      _ = try bytes.withUnsafeBytes { (data) throws(MessageReader.Fault) in
        try inbox.append(data)
      }
    }
    #expect(inbox.kept >= 230)
    // The beginning of the call, then both messages. A task has a message and its decoded copy.
    _ = try await inbox.next()
    #expect(inbox.kept >= 230)
    _ = try await inbox.next()
    #expect(inbox.kept >= 400)
    _ = try await inbox.next()
    #expect(inbox.kept == 40)
    inbox.finish()
    _ = try await inbox.next()
    #expect(inbox.kept == 40)
  }

  @Test("a message that is too long is refused by its length alone, first or later")
  func tooLong() throws {
    var reader = MessageReader(maxLength: 4)
    #expect(throws: MessageReader.Fault.tooLong) { try Self.append([0, 0, 0, 0, 5], to: &reader) }
    var later = MessageReader(maxLength: 4)
    try Self.append(Self.bytes([[9]]) + [0, 1, 0, 0, 0], to: &later)
    let message = try later.next()
    #expect(message == [9])
    #expect(later.isReady)
    #expect(throws: MessageReader.Fault.tooLong) { _ = try later.next() }
  }

  @Test("a compressed message is refused: the server never advertised compression")
  func compressed() throws {
    var reader = MessageReader(maxLength: 4)
    #expect(throws: MessageReader.Fault.compressed) {
      try Self.append([1, 0, 0, 0, 1], to: &reader)
    }
  }

  @Test("frames of any size hold the messages, and then the end", arguments: 1...40)
  func writing(size: Int) {
    let source = List(Self.messages, end: Status(code: .ok, message: ""))
    var writer = MessageWriter()
    var written: [UInt8] = []
    var frame = [UInt8](repeating: 0, count: size)
    while true {
      let filling = frame.withUnsafeMutableBytes { writer.fill($0, from: source) }
      switch filling {
      case .bytes(let count):
        written += frame[..<count]
        continue
      case .end(let count, let status):
        written += frame[..<count]
        #expect(status.code == .ok)
      case .nothing:
        Issue.record("nothing")
      }
      break
    }
    #expect(written == Self.bytes(Self.messages))
  }

  @Test("a source without data leaves a frame unfilled or partly filled")
  func later() {
    let source = List([[1]], end: nil)
    var writer = MessageWriter()
    var frame = [UInt8](repeating: 0, count: 100)
    guard case .bytes(6) = frame.withUnsafeMutableBytes({ writer.fill($0, from: source) }),
      case .nothing = frame.withUnsafeMutableBytes({ writer.fill($0, from: source) })
    else {
      Issue.record("not six bytes and nothing")
      return
    }
  }
}

/// Messages that exist from the start.
final class List: MessageSource {
  private var messages: ArraySlice<[UInt8]>
  private let end: Status?
  private(set) var isClosed = false

  init(_ messages: [[UInt8]], end: Status?) {
    self.messages = messages[...]
    self.end = end
  }

  func next() -> NextMessage {
    if let message = self.messages.popFirst() { return .message(message) }
    return self.end.map { .end($0) } ?? .later
  }

  func close() { self.isClosed = true }
}
