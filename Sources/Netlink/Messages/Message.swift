import CLinux

/// One message of a datagram: its header and payload.
///
/// Implements rule D8.
struct Message {
  var type: UInt16
  var flags: UInt16 = 0
  var sequence: UInt32 = 0
  /// The port of the process that sent the request, or that caused the notification by a request.
  var port: UInt32 = 0
  var payload: Bytes
}

/// The messages of one datagram, in order.
///
/// Reading stops at the first invalid header: shorter than a header, or longer than the rest. Then
/// `isMalformed` is set.
struct MessageReader: IteratorProtocol {
  private var rest: Bytes
  private(set) var isMalformed = false

  init(_ datagram: UnsafeRawBufferPointer) {
    self.rest = Bytes(datagram)
  }

  mutating func next() -> Message? {
    guard !self.rest.isEmpty else { return nil }
    guard
      let length = self.rest.load(UInt32.self, at: 0).map(Int.init),
      length >= MemoryLayout<nlmsghdr>.size, length <= self.rest.count,
      let type = self.rest.load(UInt16.self, at: 4),
      let flags = self.rest.load(UInt16.self, at: 6),
      let sequence = self.rest.load(UInt32.self, at: 8),
      let port = self.rest.load(UInt32.self, at: 12)
    else {
      self.isMalformed = true
      self.rest = Bytes()
      return nil
    }
    let payload = self.rest.slice(from: MemoryLayout<nlmsghdr>.size, to: length)
    self.rest = self.rest.slice(from: aligned(length))
    return Message(type: type, flags: flags, sequence: sequence, port: port, payload: payload)
  }
}

/// One netlink attribute.
struct Attribute {
  var type: Int
  var payload: Bytes
}

/// The attributes after a message's family header, or those nested in another attribute.
///
/// Reading stops at the first invalid attribute. Then `isMalformed` is set.
struct AttributeReader: IteratorProtocol {
  private var rest: Bytes
  private(set) var isMalformed = false

  init(_ bytes: Bytes, after header: Int = 0) {
    self.rest = bytes.slice(from: aligned(header))
  }

  mutating func next() -> Attribute? {
    guard !self.rest.isEmpty else { return nil }
    guard
      let length = self.rest.load(UInt16.self, at: 0).map(Int.init),
      length >= MemoryLayout<nlattr>.size, length <= self.rest.count,
      let type = self.rest.load(UInt16.self, at: 2)
    else {
      self.isMalformed = true
      self.rest = Bytes()
      return nil
    }
    let payload = self.rest.slice(from: MemoryLayout<nlattr>.size, to: length)
    self.rest = self.rest.slice(from: aligned(length))
    // The two highest bits mean "nested" and "network byte order". The kernel sets them in some
    // messages only.
    return Attribute(type: Int(type & 0x3FFF), payload: payload)
  }
}

extension AttributeReader {
  /// Returns the attributes nested in the last remaining attribute of a type, or `nil` without one.
  mutating func nested(in type: Int) -> AttributeReader? {
    var nested: AttributeReader?
    while let attribute = self.next() {
      if attribute.type == type { nested = AttributeReader(attribute.payload) }
    }
    return nested
  }
}

/// Rounds up to a multiple of four, at which messages and attributes begin.
func aligned(_ length: Int) -> Int { (length + 3) & ~3 }
