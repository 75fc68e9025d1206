import CSystemd

/// A message from the bus. Its untrusted contents can be read only once, in order.
///
/// Thread-safety: one thread only.
public final class BusMessage {
  private let message: OpaquePointer

  init(adopting message: OpaquePointer) { self.message = message }

  deinit { sd_bus_message_unref(self.message) }

  /// The unique name of the sender as set by the bus, or `nil` if it is missing.
  public var sender: String? { sd_bus_message_get_sender(self.message).map { String(cString: $0) } }
  public var path: String? { sd_bus_message_get_path(self.message).map { String(cString: $0) } }
  public var interface: String? {
    sd_bus_message_get_interface(self.message).map { String(cString: $0) }
  }
  public var member: String? { sd_bus_message_get_member(self.message).map { String(cString: $0) } }

  /// The number of the call that the message answers, or `nil` if it is not an answer.
  public var answeredCall: UInt64? {
    var number: UInt64 = 0
    return sd_bus_message_get_reply_cookie(self.message, &number) >= 0 ? number : nil
  }

  /// Whether the message reports that a call has failed.
  public var isError: Bool { sd_bus_message_is_method_error(self.message, nil) > 0 }

  /// The text of the error, or `nil` if the message is not an error.
  var errorText: String? {
    guard let error = sd_bus_message_get_error(self.message)?.pointee else { return nil }
    return error.message.map { String(cString: $0) } ?? error.name.map { String(cString: $0) }
  }

  /// Whether the message is a signal with this interface and name.
  public func isSignal(_ interface: String, _ member: String) -> Bool {
    sd_bus_message_is_signal(self.message, interface, member) > 0
  }

  /// The maximum numbers of elements to read. Further elements are ignored.
  private enum Max {
    static let objects = 64
    static let interfaces = 64
    static let properties = 128
    static let texts = 64
  }
}

// MARK: - Contents

extension BusMessage {
  /// The error if the next value does not have the expected type.
  private struct OtherType: Error {}

  /// Reads a string or an object path, or returns `nil` if the next value is something else.
  public func readText() -> String? { try? self.text() }

  /// Reads an array of strings or object paths. Ignores elements beyond the first `max`.
  public func readTexts(max: Int = 64) -> [String]? {
    var texts: [String] = []
    do {
      try self.eachText(max: max) { texts.append($0) }
    } catch is Enough {
      // Return the elements so far.
    } catch {
      return nil
    }
    return texts
  }

  /// Reads `a{sv}`: the properties with these names, or `nil` if the next value is something else.
  public func readProperties(_ wanted: Set<String>) -> [String: BusValue]? {
    try? self.properties(wanted)
  }

  /// Reads `a{sa{sv}}`: an object's interfaces, each with the properties of these names.
  public func readInterfaces(_ wanted: [String: Set<String>]) -> [BusProperties]? {
    try? self.interfaces(wanted)
  }

  /// Reads `a{oa{sa{sv}}}`: objects by their paths.
  public func readObjects(
    _ wanted: [String: Set<String>]
  ) -> [(path: String, interfaces: [BusProperties])]? {
    var objects: [(String, [BusProperties])] = []
    do {
      try self.eachEntry("{oa{sa{sv}}}", max: Max.objects) {
        objects.append((try self.text(), try self.interfaces(wanted)))
      }
    } catch is Enough {
      // Return the objects so far.
    } catch {
      return nil
    }
    return objects
  }

  /// Reads the flag at the start of a structure of these types, or returns `nil` if the next value
  /// is something else.
  public func readFlag(at types: String) -> Bool? {
    var value: CInt = 0
    guard (try? self.enter("r", types)) != nil, (try? self.read("b", &value)) != nil else {
      return nil
    }
    return value != 0
  }

  private func interfaces(_ wanted: [String: Set<String>]) throws -> [BusProperties] {
    var interfaces: [BusProperties] = []
    try self.eachEntry("{sa{sv}}", max: Max.interfaces) {
      let interface = try self.text()
      guard let names = wanted[interface] else { return try self.skip("a{sv}") }
      interfaces.append(BusProperties(interface, try self.properties(names)))
    }
    return interfaces
  }

  private func properties(_ wanted: Set<String>) throws -> [String: BusValue] {
    var values: [String: BusValue] = [:]
    try self.eachEntry("{sv}", max: Max.properties) {
      let name = try self.text()
      guard wanted.contains(name) else { return try self.skip("v") }
      values[name] = try self.variant()
    }
    return values
  }

  private func variant() throws -> BusValue {
    let (type, contents) = try self.peek()
    guard type == "v", let contents else { throw OtherType() }
    let types = ["b", "y", "n", "q", "i", "u", "x", "t", "s", "o", "as", "ao", "(ub)"]
    guard types.contains(contents) else {
      try self.skip("v")
      return .other
    }
    try self.enter("v", contents)
    defer { sd_bus_message_exit_container(self.message) }
    switch contents {
    case "b":
      var value: CInt = 0
      try self.read("b", &value)
      return .flag(value != 0)
    case "y": return try self.number("y", UInt8.self)
    case "n": return try self.number("n", Int16.self)
    case "q": return try self.number("q", UInt16.self)
    case "i": return try self.number("i", Int32.self)
    case "u": return try self.number("u", UInt32.self)
    case "x": return try self.number("x", Int64.self)
    case "t": return try self.number("t", UInt64.self)
    case "s", "o": return .text(try self.text())
    case "(ub)":
      var (number, flag): (UInt32, CInt) = (0, 0)
      try self.enter("r", "ub")
      try self.read("u", &number)
      try self.read("b", &flag)
      try self.exit()
      return .flaggedNumber(Int64(number), flag != 0)
    default:
      var texts: [String] = []
      try self.eachText(max: Max.texts) { texts.append($0) }
      return .texts(texts)
    }
  }

  private func number<Number: FixedWidthInteger>(
    _ type: Unicode.Scalar, _: Number.Type
  ) throws -> BusValue {
    var value: Number = 0
    try self.read(type, &value)
    return .number(Int64(clamping: value))
  }

  private func text() throws -> String {
    let (type, _) = try self.peek()
    guard type == "s" || type == "o" else { throw OtherType() }
    var value: UnsafePointer<CChar>?
    try self.read(type, &value)
    guard let value else { throw OtherType() }
    return String(cString: value)
  }

  private func eachText(max: Int, _ take: (String) -> Void) throws {
    let (type, contents) = try self.peek()
    guard type == "a", let contents, contents == "s" || contents == "o" else { throw OtherType() }
    try self.enter("a", contents)
    var count = 0
    while try !self.isAtEnd {
      guard count < max else { throw Enough() }
      count += 1
      take(try self.text())
    }
    try self.exit()
  }

  // MARK: - sd-bus

  /// The error if there are too many elements. The rest of the message cannot be read.
  private struct Enough: Error {}

  /// Reads each entry of a dictionary.
  private func eachEntry(_ entry: String, max: Int, _ read: () throws -> Void) throws {
    let (type, contents) = try self.peek()
    guard type == "a", contents == entry else { throw OtherType() }
    try self.enter("a", entry)
    var count = 0
    while try !self.isAtEnd {
      guard count < max else { throw Enough() }
      count += 1
      try self.enter("e", String(entry.dropFirst().dropLast()))
      try read()
      try self.exit()
    }
    try self.exit()
  }

  private var isAtEnd: Bool {
    get throws {
      let result = sd_bus_message_at_end(self.message, 0)
      guard result >= 0 else { throw OtherType() }
      return result > 0
    }
  }

  private func peek() throws -> (type: Unicode.Scalar, contents: String?) {
    var (type, contents): (CChar, UnsafePointer<CChar>?) = (0, nil)
    guard sd_bus_message_peek_type(self.message, &type, &contents) > 0 else { throw OtherType() }
    return (Unicode.Scalar(UInt8(bitPattern: type)), contents.map { String(cString: $0) })
  }

  private func read(_ type: Unicode.Scalar, _ value: UnsafeMutableRawPointer) throws {
    guard sd_bus_message_read_basic(self.message, busType(type), value) > 0 else {
      throw OtherType()
    }
  }

  private func skip(_ types: String) throws {
    guard sd_bus_message_skip(self.message, types) >= 0 else { throw OtherType() }
  }

  private func enter(_ type: Unicode.Scalar, _ contents: String) throws {
    guard sd_bus_message_enter_container(self.message, busType(type), contents) > 0 else {
      throw OtherType()
    }
  }

  private func exit() throws {
    guard sd_bus_message_exit_container(self.message) >= 0 else { throw OtherType() }
  }
}
