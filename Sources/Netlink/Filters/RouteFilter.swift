import CLinux
import Connectivity

/// The part of ``NotificationFilter`` for RTM_NEWROUTE and RTM_DELROUTE. Drops routes that can
/// contain neither a default path nor a watched destination (D6).
///
/// A route passes if its prefix has at most one bit. (OpenVPN's `redirect-gateway def1` covers the
/// default route with 0.0.0.0/1 and 128.0.0.0/1.) It also passes if it contains a watched address.
/// Thus a million routes to other places, multicast routes, and the local routes of each new
/// address never wake connd.
///
/// Implements rule I3.
struct RouteFilter: FamilyFilterPart {
  let family: AddressFamily
  let program: BPFProgram
  /// The prefixes that a route must overlap to pass: the leading `bits` of the destinations, sorted
  /// and unique.
  private let blocks: [IPPrefix]
  private let bits: Int

  init(_ family: AddressFamily, watching destinations: [IPAddress]) {
    self.init(
      family, destinations.filter { $0.family == family }.sorted(), bits: family.bitWidth)
  }

  private init(_ family: AddressFamily, _ addresses: [IPAddress], bits: Int) {
    var bits = bits
    var blocks = Self.blocks(of: addresses, bits: bits)
    // No program has room for so many blocks, so do not even build one.
    while blocks.count * Self.lengthOfComparison(bits: bits) > BPFProgram.maxLength,
      let fewer = Self.fewerBits(than: bits, family)
    {
      bits = fewer
      blocks = Self.blocks(of: blocks.map(\.address), bits: bits)
    }
    self.family = family
    self.bits = bits
    self.blocks = blocks
    self.program = Self.program(blocks, bits: bits)
  }

  var coarser: RouteFilter? {
    guard !self.blocks.isEmpty, let bits = Self.fewerBits(than: self.bits, self.family) else {
      return nil
    }
    return RouteFilter(self.family, self.blocks.map(\.address), bits: bits)
  }

  private static func fewerBits(than bits: Int, _ family: AddressFamily) -> Int? {
    let steps = family == .ipv4 ? [28, 24, 20, 16, 12, 8, 0] : [64, 56, 48, 32, 16, 0]
    return steps.first { $0 < bits }
  }

  /// Returns the sorted and unique prefixes of sorted addresses.
  private static func blocks(of addresses: [IPAddress], bits: Int) -> [IPPrefix] {
    var blocks: [IPPrefix] = []
    for block in addresses.lazy.compactMap({ IPPrefix($0, length: bits) })
    where block != blocks.last { blocks.append(block) }
    return blocks
  }

  // The offsets in a message: nlmsghdr, then rtmsg, then the attributes.
  static let prefixLength = UInt32(MemoryLayout<nlmsghdr>.size) + 1
  private static let attributes = UInt32(MemoryLayout<nlmsghdr>.size + MemoryLayout<rtmsg>.size)

  // The scratch memory: the words of the prefix, and those of its mask.
  private static let prefix: UInt32 = 0
  private static let mask: UInt32 = 4

  private static func program(_ blocks: [IPPrefix], bits: Int) -> BPFProgram {
    var program = BPFProgram()
    if blocks.isEmpty {
      program.drop()
      return program
    }
    if bits == 0 {
      program.pass()
      return program
    }
    let words = (bits + 31) / 32
    // Without RTA_DST the prefix is unknown.
    program.findAttribute(RTA_DST.rawValue, from: self.attributes, passIfNone: true)
    program.storePayload(words: words, at: self.prefix)
    for word in 0..<words { self.storeMask(ofWord: word, bits: bits, in: &program) }
    for block in blocks { self.compare(with: block.address.words.prefix(words), in: &program) }
    program.drop()
    return program
  }

  /// Computes the bits of one word that both a prefix of rtm_dst_len bits and a block of `bits`
  /// bits define.
  private static func storeMask(ofWord word: Int, bits: Int, in program: inout BPFProgram) {
    let first = UInt32(32 * word)
    program.add(BPF_LD | BPF_B | BPF_ABS, self.prefixLength)
    program.add(BPF_JMP | BPF_JGT | BPF_K, first, ifTrue: 2)
    program.add(BPF_LD | BPF_W | BPF_IMM, 0)
    program.add(BPF_JMP | BPF_JA, 8)
    program.add(BPF_JMP | BPF_JGE | BPF_K, first + 32, ifFalse: 2)
    program.add(BPF_LD | BPF_W | BPF_IMM, .max)
    program.add(BPF_JMP | BPF_JA, 5)
    // The last significant bit is in this word: ~0 << (first + 32 - length), with a shift of 1 to
    // 31.
    program.add(BPF_ALU | BPF_XOR | BPF_K, .max)
    program.add(BPF_ALU | BPF_ADD | BPF_K, first + 33)
    program.add(BPF_MISC | BPF_TAX, 0)
    program.add(BPF_LD | BPF_W | BPF_IMM, .max)
    program.add(BPF_ALU | BPF_LSH | BPF_X, 0)
    let rest = 32 * (word + 1) - bits
    if rest > 0 { program.add(BPF_ALU | BPF_AND | BPF_K, .max << UInt32(rest)) }
    program.add(BPF_ST, self.mask + UInt32(word))
  }

  private static let lengthOfWord = 5

  private static func lengthOfComparison(bits: Int) -> Int {
    (bits + 31) / 32 * self.lengthOfWord + 1
  }

  /// Passes the message if the prefix overlaps the block that begins with `key`.
  private static func compare(with key: ArraySlice<UInt32>, in program: inout BPFProgram) {
    for (index, word) in key.enumerated() {
      let following = key.count - 1 - index
      program.add(BPF_LDX | BPF_W | BPF_MEM, self.mask + UInt32(index))
      program.add(BPF_LD | BPF_W | BPF_MEM, self.prefix + UInt32(index))
      program.add(BPF_ALU | BPF_XOR | BPF_K, word)
      program.add(BPF_ALU | BPF_AND | BPF_X, 0)
      program.add(
        BPF_JMP | BPF_JEQ | BPF_K, 0, ifFalse: UInt8(following * self.lengthOfWord + 1))
    }
    program.pass()
  }
}
