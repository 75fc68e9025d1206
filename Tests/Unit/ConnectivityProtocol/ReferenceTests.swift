import ConnectivityProtobuf
import ReferenceMessages
import SwiftProtobuf
import TestTraits
import Testing
import TestKit

/// Protobuf's messages, compared with those of SwiftProtobuf.
@Suite("Messages, compared with SwiftProtobuf's")
struct ReferenceTests {
  private static let references = Dictionary(
    uniqueKeysWithValues: ReferenceMessages.allMessages.map { ("\($0)", $0) })

  @Test("every message of the generated code is compared")
  func all() throws {
    let names = try ["ConnectivityProtocol", "StandardServices"].flatMap { module in
      try Command.run([
        "grep", "--recursive", "--no-filename", "--only-matching", "--perl-regexp",
        #"struct \K\w+(?=: Message)"#, Checkout.path("Sources/\(module)/Generated"),
      ]).split(separator: "\n").map(String.init)
    }
    #expect(Set(allMessages.map { "\($0)" }) == Set(names) && names.count > 80)
    #expect(Set(Self.references.keys) == Set(names))
  }

  @Test("every value of an enum has the same name and number in both")
  func enums() throws {
    func values(_ folders: String...) throws -> [Substring] {
      try Command.run(
        [
          "grep", "--recursive", "--no-filename", "--only-matching", "--extended-regexp",
          #"case [0-9]+: self = \.\w+"#,
        ] + folders.map { Checkout.path($0) }
      ).split(separator: "\n").sorted()
    }
    let ours = try values(
      "Sources/ConnectivityProtocol/Generated", "Sources/StandardServices/Generated")
    #expect(ours.count > 150)
    #expect(try ours == values("Tests/Support/ReferenceMessages/Generated"))
  }

  @Test(
    "random fields → both read the same and write the same bytes, or both refuse them", .blocking)
  func random() throws {
    var options = BinaryDecodingOptions()
    options.discardUnknownFields = true
    for type in allMessages {
      let reference = try #require(Self.references["\(type)"])
      var generator = RandomFields(seed: 1)
      var (equal, refused) = (0, 0)
      for _ in 0..<400 {
        let bytes = generator.message()
        let theirs = try? reference.init(serializedBytes: bytes, options: options)
        let expected: [UInt8]? = try theirs?.serializedBytes()
        let ours = try? type.init(serializedBytes: bytes).serializedBytes()
        #expect(ours == expected, "\(type): \(bytes)")
        if expected == nil { refused += 1 } else { equal += 1 }
      }
      #expect(equal > 50 && refused > 10, "\(type)")
    }
  }
}

/// Makes messages with random fields. Most of the field numbers exist in the real messages.
private struct RandomFields {
  private var generator: SeededGenerator

  init(seed: UInt64) { self.generator = SeededGenerator(seed: seed) }

  /// One in ten is cut short.
  mutating func message() -> [UInt8] {
    let bytes = self.fields(depth: 0)
    return self.one(in: 10) ? Array(bytes.dropLast()) : bytes
  }

  private mutating func fields(depth: Int) -> [UInt8] {
    (0..<Int.random(in: 0...(6 - depth), using: &self.generator)).flatMap { _ in
      self.field(depth: depth)
    }
  }

  private mutating func field(depth: Int) -> [UInt8] {
    let number = UInt64.random(in: self.one(in: 100) ? 0...200_000 : 1...24, using: &self.generator)
    switch Int.random(in: 0..<20, using: &self.generator) {
    case 0: return self.varint(number << 3 | 1) + self.bytes(8)
    case 1: return self.varint(number << 3 | 5) + self.bytes(4)
    case 2 where depth < 4:
      return self.varint(number << 3 | 3) + self.fields(depth: depth + 1)
        + self.varint(number << 3 | 4)
    case 3 where self.one(in: 10): return self.varint(number << 3 | 4)
    case 4..<10:
      let value = UInt64.random(in: 0...(.max), using: &self.generator)
      return self.varint(number << 3) + self.varint(value >> (value % 64))
    default:
      let content = self.content(depth: depth)
      return self.varint(number << 3 | 2) + self.varint(UInt64(content.count)) + content
    }
  }

  /// The content of a text, a message or a list.
  private mutating func content(depth: Int) -> [UInt8] {
    switch Int.random(in: 0..<20, using: &self.generator) {
    case 0: return self.bytes(3)
    case 1: return Array("Zürich".utf8)
    case 2..<8: return []
    default: return depth < 4 ? self.fields(depth: depth + 1) : []
    }
  }

  private mutating func bytes(_ count: Int) -> [UInt8] {
    (0..<count).map { _ in .random(in: 0...255, using: &self.generator) }
  }

  private func varint(_ number: UInt64) -> [UInt8] {
    number < 0x80
      ? [UInt8(number)] : [UInt8(number & 0x7F) | 0x80] + self.varint(number >> 7)
  }

  private mutating func one(in count: Int) -> Bool {
    Int.random(in: 0..<count, using: &self.generator) == 0
  }
}
