import ConnectivityProtobuf
import TestKit
import Testing

/// Generated code, compared with what protoc does (Tests/Fixtures/messages/make).
@Suite("Messages, compared with protoc's")
struct GoldenTests {
  private static let messages = byName(
    allMessages + [Google_Protobuf_Duration.self, Google_Protobuf_Timestamp.self])

  @Test("every message and enum of the generated code is compared")
  func all() throws {
    func generated(_ pattern: String) throws -> Set<String> {
      let folders = ["ConnectivityProtocol", "StandardServices"]
      let output = try Command.run(
        ["grep", "--recursive", "--no-filename", "--only-matching", "--perl-regexp", pattern]
          + folders.map { Checkout.path("Sources/\($0)/Generated") })
      return Set(output.split(separator: "\n").map(String.init))
    }
    #expect(try Set(allMessages.map { "\($0)" }) == generated(#"struct \K\w+(?=: Message)"#))
    #expect(try Set(allEnums.map { "\($0)" }) == generated(#"enum \K\w+(?=: ProtobufEnum)"#))
    #expect(allMessages.count > 80 && allEnums.count > 25)
  }

  @Test("bytes that protoc writes, reads or refuses → written the same, or refused")
  func bytes() throws {
    var types = Self.messages
    var type: any Message.Type = Google_Protobuf_Duration.self
    for words in try lines("messages") {
      if words[0].contains(".") {
        let next = types.removeValue(forKey: swiftName(words[0]))
        type = try #require(next)
        continue
      }
      let expected = words.last == "refused" ? nil : try fromHexadecimal(words[words.count - 1])
      let message = try? type.init(serializedBytes: fromHexadecimal(words[0]))
      #expect(message?.serializedBytes() == expected, "\(type): \(words)")
    }
    #expect(types.isEmpty)
  }

  @Test("protoc writes one field → the property with its name has the value, and no other has one")
  func fields() throws {
    for words in try lines("fields") {
      let type = try #require(Self.messages[swiftName(words[0])])
      let message = try type.init(serializedBytes: fromHexadecimal(words[2]))
      let changes = changes(in: message)
      #expect(changes.map(\.name) == [plain(words[1])], "\(words)")
      guard words.count > 3, let value = changes.first?.value else { continue }
      #expect(isNamed(value, words[3]), "\(words): \(value)")
    }
  }

  @Test("every value of an enum has the name and number of the .proto file")
  func enums() throws {
    let types = byName(allEnums)
    var numbers: [String: [Int]] = [:]
    for words in try lines("enums") {
      let name = swiftName(words[0])
      let number = try #require(Int(words[2]))
      let value = try #require(types[name]).init(rawValue: number)
      #expect(value.rawValue == number && isNamed(value, words[1]), "\(words): \(value)")
      numbers[name, default: []].append(number)
    }
    #expect(numbers == types.mapValues { type in allNumbers(of: type) })
  }
}

/// Returns the words of each line of a file in Tests/Fixtures/messages.
private func lines(_ name: String) throws -> [[Substring]] {
  try Command.run(["cat", Checkout.path("Tests/Fixtures/messages/\(name).txt")])
    .split(separator: "\n").map { $0.split(separator: " ") }
}

private func fromHexadecimal(_ text: Substring) throws -> [UInt8] {
  guard text != "-" else { return [] }
  return try stride(from: 0, to: text.count, by: 2).map {
    try #require(UInt8(text.dropFirst($0).prefix(2), radix: 16))
  }
}

/// Returns types by their names, without the module, with `_` between the parts.
private func byName<Kind>(_ types: [Kind]) -> [String: Kind] {
  Dictionary(
    uniqueKeysWithValues: types.map {
      (String(reflecting: $0).split(separator: ".").dropFirst().joined(separator: "_"), $0)
    })
}

/// Returns the name of `connectivity.v1.Path` in Swift: `Connectivity_V1_Path`.
private func swiftName(_ name: Substring) -> String {
  name.split(separator: ".").map { $0.prefix(1).uppercased() + $0.dropFirst() }
    .joined(separator: "_")
}

/// Returns a name without what differs between Swift and protobuf.
private func plain(_ name: some StringProtocol) -> String {
  name.lowercased().filter { $0 != "_" }
}

/// Whether protobuf's text format has this text for a value. The values of an enum begin with its
/// name: MEDIUM_WIFI is `NetworkMedium.wifi`.
private func isNamed(_ value: Any, _ text: Substring) -> Bool {
  plain("\(type(of: value))\(value)").hasSuffix(plain(text))
}

/// Returns the properties that differ from those of an empty message. The name has the case of a
/// oneof after a dot. The value is the innermost, without optionals and lists.
private func changes<Value: Message>(in message: Value) -> [(name: String, value: Any)] {
  zip(Mirror(reflecting: message).children, Mirror(reflecting: Value()).children)
    .filter { "\($0.value)" != "\($1.value)" }
    .map { property, _ in
      var (name, value) = (property.label ?? "", property.value)
      while let child = Mirror(reflecting: value).children.first {
        if Mirror(reflecting: value).displayStyle == .enum { name += ".\(child.label ?? "")" }
        value = child.value
      }
      return (plain(name), value)
    }
}

private func allNumbers<Value: ProtobufEnum>(of type: Value.Type) -> [Int] {
  type.allCases.map(\.rawValue)
}
