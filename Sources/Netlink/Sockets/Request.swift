import CLinux
import CMnl
import Connectivity

/// A request under construction: header, family header, attributes.
struct Request: ~Copyable {
  private let buffer: UnsafeMutableRawBufferPointer
  private let header: UnsafeMutablePointer<nlmsghdr>
  /// The kernel's name for the operation.
  let operation: String

  /// The buffer's size in bytes, more than any request here needs. The longest attribute is a
  /// link's alternative name, of 128 bytes.
  private static let capacity = 512

  /// Starts a request with a family header of type `Header`.
  ///
  /// - Parameter isCommand: Whether the kernel confirms the request instead of answering with an
  ///   object.
  init<Header: BitwiseCopyable>(
    _ type: Int, _ operation: String, isDump: Bool = false, isCommand: Bool = false,
    header value: Header
  ) {
    self.operation = operation
    self.buffer = .allocate(byteCount: Self.capacity, alignment: 8)
    // Zeroed, because libmnl does not initialise padding, and equal requests must have equal bytes.
    self.buffer.initializeMemory(as: UInt8.self, repeating: 0)
    self.header = mnl_nlmsg_put_header(self.buffer.baseAddress)
    self.header.pointee.nlmsg_type = UInt16(type)
    self.header.pointee.nlmsg_flags = UInt16(
      NLM_F_REQUEST | (isDump ? NLM_F_DUMP : 0) | (isCommand ? NLM_F_ACK : 0))
    let size = MemoryLayout<Header>.size
    mnl_nlmsg_put_extra_header(self.header, size)?.storeBytes(of: value, as: Header.self)
  }

  deinit { self.buffer.deallocate() }

  var isDump: Bool { Int32(self.header.pointee.nlmsg_flags) & NLM_F_DUMP == NLM_F_DUMP }

  mutating func put(_ type: Int, _ value: UInt32) {
    mnl_attr_put_u32_check(self.header, Self.capacity, UInt16(type), value)
  }

  mutating func put(_ type: Int, _ value: UInt8) {
    mnl_attr_put_u8_check(self.header, Self.capacity, UInt16(type), value)
  }

  mutating func put(_ type: Int, _ value: UInt16) {
    mnl_attr_put_u16_check(self.header, Self.capacity, UInt16(type), value)
  }

  /// Adds an attribute that contains the attributes that `body` adds.
  mutating func nest(_ type: Int, _ body: (inout Request) -> Void) {
    let nest = mnl_attr_nest_start_check(self.header, Self.capacity, UInt16(type))
    body(&self)
    if let nest { mnl_attr_nest_end(self.header, nest) }
  }

  /// Adds a port, in network byte order.
  mutating func put(_ type: Int, port: UInt16) {
    mnl_attr_put_u16_check(self.header, Self.capacity, UInt16(type), port.bigEndian)
  }

  mutating func put(_ type: Int, _ bytes: [UInt8]) {
    mnl_attr_put_check(self.header, Self.capacity, UInt16(type), bytes.count, bytes)
  }

  mutating func put(_ type: Int, _ address: IPAddress) { self.put(type, address.bytes) }

  mutating func put(_ type: Int, _ text: String) {
    mnl_attr_put_strz_check(self.header, Self.capacity, UInt16(type), text)
  }

  /// Returns the message's bytes, with a sequence number that identifies its answers.
  mutating func bytes(sequence: UInt32) -> UnsafeRawBufferPointer {
    self.header.pointee.nlmsg_seq = sequence
    return UnsafeRawBufferPointer(
      rebasing: self.buffer[..<Int(self.header.pointee.nlmsg_len)])
  }
}
