import ArgumentParser
import Connectivity

/// A line of the input of `connctl guard --stdin`: `+ID REMOTE LOCAL [NAME]` or `-ID`.
enum FlowLine: Hashable {
  /// Guard a connection. It replaces a connection with the same id.
  case add(id: UInt64, GuardedConnection)
  /// Guard a connection no longer. It may have ended already.
  case remove(id: UInt64)

  /// The maximum length of a line in bytes.
  static let maxBytes = 1024

  /// - Throws: ``FlowLineError``
  init(_ line: String) throws(FlowLineError) {
    var line = line[...]
    while line.last?.isWhitespace == true { line.removeLast() }
    let words = line.split(maxSplits: 3, whereSeparator: \.isWhitespace)
    guard let first = words.first, let sign = first.first, "+-".contains(sign) else {
      throw FlowLineError(nil, "expected +<id> <remote> <local> [<name>], or -<id>")
    }
    let id: UInt64 = try Self.checked(nil, "the id “\(first.dropFirst())”: ") {
      try .reading(String(first.dropFirst()))
    }
    if sign == "-" {
      guard words.count == 1 else { throw FlowLineError(id, "nothing may follow -<id>") }
      self = .remove(id: id)
      return
    }
    guard words.count >= 3 else {
      throw FlowLineError(id, "a remote and a local end must follow +<id>")
    }
    let remote = try Self.end(words[1], id), local = try Self.end(words[2], id)
    guard remote.address.family == local.address.family else {
      throw FlowLineError(id, "the ends have addresses of different families")
    }
    let name = words.dropFirst(3).first.map { String($0.drop(while: \.isWhitespace)) }
    self = .add(id: id, GuardedConnection(remote: remote, local: local, name: name))
  }

  private static func end(
    _ text: Substring, _ id: UInt64
  ) throws(FlowLineError) -> AddressEndpoint {
    let end = try self.checked(id) { try AddressEndpoint(String(text)) }
    guard end.port != 0 else { throw FlowLineError(id, "“\(text)” has no port") }
    return end
  }

  private static func checked<T>(
    _ id: UInt64?, _ place: String = "", _ body: () throws -> T
  ) throws(FlowLineError) -> T {
    do {
      return try body()
    } catch {
      throw FlowLineError(id, place + ((error as? ValidationError)?.message ?? "\(error)"))
    }
  }
}

/// A connection that a line of input names.
struct GuardedConnection: Hashable {
  var remote: AddressEndpoint
  var local: AddressEndpoint
  /// The text that events repeat, or `nil` without one.
  var name: String?
}

/// The error of a line of input.
struct FlowLineError: Error, Hashable {
  /// The id in the line, or `nil` if it has none.
  var id: UInt64?
  /// The connection's name, or `nil` if it is unknown.
  var name: String?
  var message: String

  init(_ id: UInt64?, _ message: String, name: String? = nil) {
    self.id = id
    self.name = name
    self.message = message
  }
}
