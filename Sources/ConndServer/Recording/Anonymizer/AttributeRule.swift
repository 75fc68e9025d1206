import Connectivity
import Glibc

/// The treatment of a netlink attribute. Attributes without a rule are removed.
indirect enum AttributeRule {
  /// Numbers with exactly this many bytes. Any other length is removed.
  case same(Int)
  /// Numbers with at most this many bytes. A longer attribute is removed.
  case numbers(atMost: Int)
  /// A 32-bit number at the start of an attribute with exactly this many bytes. The rest becomes
  /// zero, and any other length is removed.
  case number(of: Int)
  /// A name given by the kernel: lower-case letters, digits and punctuation.
  case word
  /// Only the presence of the attribute matters.
  case empty
  case linkName
  /// An IP address or nothing.
  case address
  /// An IP address with this many significant bits.
  case prefix(Int)
  /// An IP address after the number of its family.
  case via
  case hardwareAddress
  case wirelessName
  /// The information elements of a Wi-Fi frame.
  case elements
  case nested([Int: AttributeRule])
  /// Like ``nested``, with the same rules for each element.
  case list([Int: AttributeRule])
  /// The nexthops of a route, with their attributes.
  case legs([Int: AttributeRule])
  /// The link's kind and the known attributes of that kind.
  case linkInformation
}

extension Anonymizer {
  /// Returns a list of attributes with substitutes.
  func attributes(_ bytes: ArraySlice<UInt8>, _ rules: [Int: AttributeRule]) -> [UInt8] {
    var written: [UInt8] = []
    var reader = AttributeBytes(bytes)
    while let (type, payload) = reader.next() {
      guard let rule = rules[Int(type & 0x3FFF)], let payload = self.payload(payload, rule) else {
        continue
      }
      written += AttributeBytes.attribute(type, payload)
    }
    // Keep the list malformed, so that the parser rejects it like the original.
    if reader.isMalformed { written += [0, 0, 0, 0] }
    return written
  }

  private func payload(_ bytes: ArraySlice<UInt8>, _ rule: AttributeRule) -> [UInt8]? {
    switch rule {
    case .same(let count): return bytes.count == count ? Array(bytes) : nil
    case .numbers(let count): return bytes.count <= count ? Array(bytes) : nil
    case .number(let count):
      guard bytes.count == count else { return nil }
      return Array(bytes.prefix(4)) + [UInt8](repeating: 0, count: count - 4)
    case .word:
      let word = bytes.prefix { $0 != 0 }
      return String(decoding: word, as: UTF8.self).isKernelWord ? Array(word) + [0] : nil
    case .empty: return []
    case .linkName:
      let name = String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
      return Array(self.linkName(name).utf8) + [0]
    case .address: return IPAddress(bytes: bytes).map { self.address($0).bytes }
    case .prefix(let length):
      return IPAddress(bytes: bytes).map { self.address($0, length: length).bytes }
    case .via:
      return IPAddress(bytes: bytes.dropFirst(2)).map {
        Array(bytes.prefix(2)) + self.address($0).bytes
      }
    case .hardwareAddress: return bytes.count <= 32 ? self.hardwareAddress(Array(bytes)) : nil
    case .wirelessName: return self.wirelessName(Array(bytes))
    case .elements: return self.elements(bytes)
    case .nested(let rules): return self.attributes(bytes, rules)
    case .list(let rules):
      var written: [UInt8] = []
      var reader = AttributeBytes(bytes)
      while let (type, payload) = reader.next() {
        written += AttributeBytes.attribute(type, self.attributes(payload, rules))
      }
      return written
    case .legs(let rules): return self.legs(bytes, rules)
    case .linkInformation: return self.linkInformation(bytes)
    }
  }

  /// Replaces nexthops. Each begins with a header (struct rtnexthop). The first field of the header
  /// is the length including the attributes.
  private func legs(_ bytes: ArraySlice<UInt8>, _ rules: [Int: AttributeRule]) -> [UInt8] {
    let headerSize = 8
    var (written, rest): ([UInt8], ArraySlice<UInt8>) = ([], bytes)
    while rest.count >= headerSize {
      let length = Int(rest[rest.startIndex]) | Int(rest[rest.startIndex + 1]) << 8
      guard length >= headerSize, length <= rest.count else { break }
      let leg = rest.prefix(length)
      let attributes = self.attributes(leg.dropFirst(headerSize), rules)
      let own = UInt16(clamping: headerSize + attributes.count)
      written += [UInt8(truncatingIfNeeded: own), UInt8(own >> 8)]
      written += leg.prefix(headerSize).dropFirst(2) + attributes
      rest = rest.dropFirst((length + 3) & ~3)
    }
    return written
  }
}

/// The attributes of a message as bytes.
struct AttributeBytes: IteratorProtocol {
  private var rest: ArraySlice<UInt8>
  private(set) var isMalformed = false

  init(_ bytes: ArraySlice<UInt8>) { self.rest = bytes }

  /// Returns the next attribute. The type includes its two flag bits.
  mutating func next() -> (type: UInt16, payload: ArraySlice<UInt8>)? {
    guard !self.rest.isEmpty else { return nil }
    let header = Array(self.rest.prefix(4))
    let length = header.count == 4 ? Int(header[0]) | Int(header[1]) << 8 : 0
    guard length >= 4, length <= self.rest.count else {
      (self.isMalformed, self.rest) = (true, [])
      return nil
    }
    let payload = self.rest.prefix(length).dropFirst(4)
    self.rest = self.rest.dropFirst((length + 3) & ~3)
    return (UInt16(header[2]) | UInt16(header[3]) << 8, payload)
  }

  /// Returns one attribute as bytes, padded with zeros.
  static func attribute(_ type: UInt16, _ payload: [UInt8]) -> [UInt8] {
    let length = UInt16(clamping: 4 + payload.count)
    let header = [
      UInt8(truncatingIfNeeded: length), UInt8(length >> 8), UInt8(truncatingIfNeeded: type),
      UInt8(type >> 8),
    ]
    return header + payload + [UInt8](repeating: 0, count: -payload.count & 3)
  }
}

extension StringProtocol {
  /// Whether the kernel could name a driver, a kind of device or its own interface like this.
  var isKernelWord: Bool {
    (1...32).contains(self.utf8.count)
      && self.utf8.allSatisfy { byte in
        (0x30...0x39).contains(byte) || (0x61...0x7A).contains(byte) || byte == UInt8(ascii: "_")
          || byte == UInt8(ascii: "-") || byte == UInt8(ascii: ".")
      }
  }
}
