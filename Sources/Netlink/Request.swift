import CLinux
import CMnl
import Connectivity

/// A request in the making: header, family header, attributes.
struct Request: ~Copyable {
  private let buffer: UnsafeMutableRawBufferPointer
  private let header: UnsafeMutablePointer<nlmsghdr>
  /// What the kernel calls it.
  let operation: String

  /// More than any request here needs: the longest attribute is a link's alternative name, of 128 bytes.
  private static let capacity = 512

  /// Begins a request with an empty family header of `Header`'s size.
  init<Header: BitwiseCopyable>(
    _ type: Int, _ operation: String, isDump: Bool = false, header value: Header
  ) {
    self.operation = operation
    self.buffer = .allocate(byteCount: Self.capacity, alignment: 8)
    // libmnl leaves what pads an attribute as it is: a request is to be the same bytes each time.
    self.buffer.initializeMemory(as: UInt8.self, repeating: 0)
    self.header = mnl_nlmsg_put_header(self.buffer.baseAddress)
    self.header.pointee.nlmsg_type = UInt16(type)
    self.header.pointee.nlmsg_flags = UInt16(isDump ? NLM_F_REQUEST | NLM_F_DUMP : NLM_F_REQUEST)
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

  /// Puts a port, in network byte order.
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

  /// The message's bytes, with a sequence number to know its answers by.
  mutating func bytes(sequence: UInt32) -> UnsafeRawBufferPointer {
    self.header.pointee.nlmsg_seq = sequence
    return UnsafeRawBufferPointer(
      rebasing: self.buffer[..<Int(self.header.pointee.nlmsg_len)])
  }
}
