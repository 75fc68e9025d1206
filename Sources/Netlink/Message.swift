import CLinux

/// One message of a datagram: its header, and the bytes between it and the next.
///
/// Implements rule D8.
struct Message {
  var type: UInt16
  var flags: UInt16 = 0
  var sequence: UInt32 = 0
  /// The port of the process that asked, or whose request caused the notification.
  var port: UInt32 = 0
  var payload: Bytes
}

/// The messages of one datagram, in order.
///
/// Reading ends at the first header that cannot be true: shorter than itself, or longer than what is left.
/// `isMalformed` says afterwards whether it ended so.
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
/// Reading ends at the first attribute that cannot be true; `isMalformed` says afterwards whether it ended so.
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
    // The two highest bits say "nested" and "network byte order"; the kernel sets them in some messages only.
    return Attribute(type: Int(type & 0x3FFF), payload: payload)
  }
}

extension AttributeReader {
  /// Of the attributes that are left, those that are nested in one of a type, the last; `nil` where there is none.
  mutating func nested(in type: Int) -> AttributeReader? {
    var nested: AttributeReader?
    while let attribute = self.next() {
      if attribute.type == type { nested = AttributeReader(attribute.payload) }
    }
    return nested
  }
}

/// Messages and attributes begin at multiples of four.
func aligned(_ length: Int) -> Int { (length + 3) & ~3 }
