internal import Connectivity
import Glibc

/// Untrusted bytes of a message. Reads outside of them return `nil` or nothing.
///
/// The bytes are borrowed from a socket's buffer and must not outlive the call that received them.
struct Bytes {
  private let buffer: UnsafeRawBufferPointer

  init() { self.buffer = UnsafeRawBufferPointer(start: nil, count: 0) }

  init(_ buffer: UnsafeRawBufferPointer) { self.buffer = buffer }

  var count: Int { self.buffer.count }
  var isEmpty: Bool { self.buffer.isEmpty }

  /// Returns the number in host order at `offset`, at any alignment.
  func load<Number: FixedWidthInteger & BitwiseCopyable>(_: Number.Type, at offset: Int) -> Number?
  {
    guard offset >= 0, offset <= self.count - MemoryLayout<Number>.size else { return nil }
    return self.buffer.loadUnaligned(fromByteOffset: offset, as: Number.self)
  }

  /// Returns the bytes from `start` up to `end`, as far as they exist.
  func slice(from start: Int, to end: Int = .max) -> Bytes {
    let end = min(end, self.count)
    guard start >= 0, start < end else { return Bytes() }
    return Bytes(UnsafeRawBufferPointer(rebasing: self.buffer[start..<end]))
  }

  var uint8: UInt8? { self.load(UInt8.self, at: 0) }
  var uint32: UInt32? { self.load(UInt32.self, at: 0) }

  /// A number in network byte order, as ports are.
  var bigEndian16: UInt16? { self.load(UInt16.self, at: 0).map(UInt16.init(bigEndian:)) }

  /// The string up to the first zero byte, or `nil` if it is empty.
  var string: String? {
    let text = self.buffer.prefix { $0 != 0 }
    return text.isEmpty ? nil : String(decoding: text, as: UTF8.self)
  }

  var array: [UInt8] { Array(self.buffer) }

  func isEqual(to array: [UInt8]) -> Bool {
    array.withUnsafeBytes { other in
      guard other.count == self.count, let others = other.baseAddress,
        let bytes = self.buffer.baseAddress
      else { return other.count == self.count }
      return memcmp(others, bytes, self.count) == 0
    }
  }

  /// The address of the family that has this number of bytes.
  var address: IPAddress? { IPAddress(bytes: self.buffer) }

  /// Returns an address of `family`, or `nil` if the bytes are not exactly one address.
  func address(_ family: AddressFamily) -> IPAddress? {
    self.count * 8 == family.bitWidth ? self.address : nil
  }
}
