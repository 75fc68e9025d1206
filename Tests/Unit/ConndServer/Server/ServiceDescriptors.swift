import ConnectivityProtobuf
import StandardServices

/// The methods of connd's services and the messages of their requests, from the descriptors that
/// connd's reflection service serves.
struct ServiceDescriptors {
  struct Field: Hashable {
    /// The name of the message and that of the field: `Flow.known_path`.
    var name: String
    /// The full name of a message, or an empty text.
    var type: String
    /// Whether a client chooses the size of the field: a list, a text, bytes or a message.
    var isLarge: Bool
  }

  /// The full names of the requests' messages, by method: `Connectivity.Watch`.
  private(set) var methods: [String: String] = [:]
  private var messages: [String: [Field]] = [:]

  init() throws {
    let files = try FileDescriptors()
    for service in files.services {
      guard let file = files.file(declaring: service) else { continue }
      for file in files.withImports(file) { try self.read(file.bytes) }
    }
  }

  /// The fields with a size that a client chooses, of all requests and of the messages in requests.
  var largeFields: Set<String> {
    var (fields, seen): (Set<String>, Set<String>) = ([], [])
    var next = Array(self.methods.values)
    while let message = next.popLast() {
      guard seen.insert(message).inserted else { continue }
      for field in self.messages[message] ?? [] where field.isLarge {
        fields.insert(field.name)
        if !field.type.isEmpty { next.append(field.type) }
      }
    }
    return fields
  }

  /// Reads a `google.protobuf.FileDescriptorProto`.
  private mutating func read(_ file: [UInt8]) throws {
    let package = try Self.text(2, in: file[...])
    for message in try Self.parts(4, in: file[...]) { try self.add(message, in: package) }
    for service in try Self.parts(6, in: file[...]) {
      for method in try Self.parts(2, in: service) {
        let name = "\(try Self.text(1, in: service)).\(try Self.text(1, in: method))"
        self.methods[name] = String(try Self.text(2, in: method).dropFirst())
      }
    }
  }

  /// Adds a `DescriptorProto` and the messages in it.
  private mutating func add(_ message: ProtobufReader.Bytes, in scope: String) throws {
    let name = try Self.text(1, in: message)
    self.messages["\(scope).\(name)"] = try Self.parts(2, in: message).map { field in
      let (label, type) = (try Self.number(4, in: field), try Self.number(5, in: field))
      // LABEL_REPEATED; TYPE_STRING, TYPE_MESSAGE and TYPE_BYTES
      return Field(
        name: "\(name).\(try Self.text(1, in: field))",
        type: type == 11 ? String(try Self.text(6, in: field).dropFirst()) : "",
        isLarge: label == 3 || [9, 11, 12].contains(type))
    }
    for inner in try Self.parts(3, in: message) { try self.add(inner, in: "\(scope).\(name)") }
  }

  private static func parts(
    _ number: Int, in bytes: ProtobufReader.Bytes
  ) throws -> [ProtobufReader.Bytes] {
    var parts: [ProtobufReader.Bytes] = []
    try ProtobufReader.read(bytes) { (field) throws(ProtobufError) in
      if field.number == number, let part = field.message { parts.append(part) }
    }
    return parts
  }

  private static func text(_ number: Int, in bytes: ProtobufReader.Bytes) throws -> String {
    String(decoding: try Self.parts(number, in: bytes).last ?? [], as: UTF8.self)
  }

  private static func number(_ number: Int, in bytes: ProtobufReader.Bytes) throws -> UInt64? {
    var found: UInt64?
    try ProtobufReader.read(bytes) { (field) throws(ProtobufError) in
      if field.number == number { found = field.uint64 }
    }
    return found
  }
}
