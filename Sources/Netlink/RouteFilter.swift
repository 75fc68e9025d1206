import CLinux
import Connectivity
import Glibc

/// A classic BPF program that lets through all notifications but those of routes that can hold neither a default
/// path nor a watched destination (D6).
///
/// A route passes where its prefix is no longer than one bit (OpenVPN's `redirect-gateway def1` covers the default
/// route by 0.0.0.0/1 and 128.0.0.0/1), or where it contains a watched address. So a million routes to elsewhere,
/// multicast routes, and the local routes of each new address never wake connd.
///
/// The program sees the first message of a datagram only. The kernel sends one notification a datagram, but packs
/// many messages into the datagrams of a dump: no request may go over a socket with this filter.
struct RouteFilter {
  private(set) var program: [sock_filter] = []

  /// The kernel's limit, BPF_MAXINSNS.
  static let longest = Int(BPF_MAXINSNS)

  /// Builds the program of at most `limit` instructions (at least 32).
  ///
  /// With more destinations than fit, prefixes are compared with their leading bits alone, then not at all: the
  /// filter lets more through, and never less.
  init(watching destinations: [IPAddress], limit: Int = Self.longest) {
    for words in [
      [.ipv4: 1, .ipv6: 4], [.ipv4: 1, .ipv6: 2], [.ipv4: 1, .ipv6: 1], [.ipv4: 1], [:],
    ]
      as [[AddressFamily: Int]]
    {
      self.program = []
      self.emit(destinations, words)
      if self.program.count <= min(limit, Self.longest) { return }
    }
  }

  // Offsets from the start of a message: nlmsghdr, then rtmsg, then the attributes.
  private static let type: UInt32 = 4
  private static let family = UInt32(MemoryLayout<nlmsghdr>.size)
  private static let prefixLength = Self.family + 1
  private static let attributes = Self.family + UInt32(MemoryLayout<rtmsg>.size)

  // The scratch memory: the words of the prefix, and of its mask.
  private static let prefix: UInt32 = 0
  private static let mask: UInt32 = 4

  private mutating func emit(_ destinations: [IPAddress], _ words: [AddressFamily: Int]) {
    // Loads take the bytes for big-endian, the header's numbers are in host order: so are these constants swapped.
    self.add(BPF_LD | BPF_H | BPF_ABS, Self.type)
    self.add(BPF_JMP | BPF_JEQ | BPF_K, UInt32(UInt16(RTM_NEWROUTE).bigEndian), ifTrue: 2)
    self.add(BPF_JMP | BPF_JEQ | BPF_K, UInt32(UInt16(RTM_DELROUTE).bigEndian), ifTrue: 1)
    self.pass()
    self.add(BPF_LD | BPF_B | BPF_ABS, Self.prefixLength)
    self.add(BPF_JMP | BPF_JGT | BPF_K, 1, ifTrue: 1)
    self.pass()

    for family in AddressFamily.allCases {
      let body = self.comparisons(
        destinations.filter { $0.family == family }, words: words[family] ?? 0)
      self.add(BPF_LD | BPF_B | BPF_ABS, Self.family)
      // A conditional jump reaches 255 instructions, an unconditional one any number.
      self.add(BPF_JMP | BPF_JEQ | BPF_K, UInt32(family.netlinkNumber), ifTrue: 1)
      self.add(BPF_JMP | BPF_JA, UInt32(body.count))
      self.program += body
    }
    self.drop()
  }

  /// The part of the program for one family: returns in every case.
  private func comparisons(_ destinations: [IPAddress], words: Int) -> [sock_filter] {
    var part = RouteFilter()
    let keys = Set(destinations.map { Array($0.words.prefix(words)) }).sorted {
      $0.lexicographicallyPrecedes($1)
    }
    if keys.isEmpty {
      part.drop()
      return part.program
    }
    if words == 0 {
      part.pass()
      return part.program
    }
    // A = where RTA_DST is; 0 where there is none, and then nothing is known of the prefix.
    part.add(BPF_LDX | BPF_W | BPF_IMM, RTA_DST.rawValue)
    part.add(BPF_LD | BPF_W | BPF_IMM, Self.attributes)
    part.add(
      BPF_LD | BPF_W | BPF_ABS, UInt32(bitPattern: SKF_AD_OFF + SKF_AD_NLATTR))
    part.add(BPF_JMP | BPF_JEQ | BPF_K, 0, ifFalse: 1)
    part.pass()
    part.add(BPF_MISC | BPF_TAX, 0)
    for word in 0..<UInt32(words) {
      part.add(BPF_LD | BPF_W | BPF_IND, UInt32(MemoryLayout<nlattr>.size) + 4 * word)
      part.add(BPF_ST, Self.prefix + word)
    }
    for word in 0..<UInt32(words) { part.storeMask(ofWord: word) }
    for key in keys { part.compare(with: key) }
    part.drop()
    return part.program
  }

  private init() {}

  /// Computes the bits of one word that a prefix of rtm_dst_len bits fixes.
  private mutating func storeMask(ofWord word: UInt32) {
    let first = 32 * word
    self.add(BPF_LD | BPF_B | BPF_ABS, Self.prefixLength)
    self.add(BPF_JMP | BPF_JGT | BPF_K, first, ifTrue: 2)
    self.add(BPF_LD | BPF_W | BPF_IMM, 0)
    self.add(BPF_JMP | BPF_JA, 8)
    self.add(BPF_JMP | BPF_JGE | BPF_K, first + 32, ifFalse: 2)
    self.add(BPF_LD | BPF_W | BPF_IMM, .max)
    self.add(BPF_JMP | BPF_JA, 5)
    // The last bit that counts is in this word: ~0 << (first + 32 - length), with a shift of 1 to 31.
    self.add(BPF_ALU | BPF_XOR | BPF_K, .max)
    self.add(BPF_ALU | BPF_ADD | BPF_K, first + 33)
    self.add(BPF_MISC | BPF_TAX, 0)
    self.add(BPF_LD | BPF_W | BPF_IMM, .max)
    self.add(BPF_ALU | BPF_LSH | BPF_X, 0)
    self.add(BPF_ST, Self.mask + word)
  }

  /// Passes the message where the prefix contains an address that begins with `key`.
  private mutating func compare(with key: [UInt32]) {
    let lengthOfWord = 4
    for (index, word) in key.enumerated() {
      let following = key.count - 1 - index
      self.add(BPF_LDX | BPF_W | BPF_MEM, Self.mask + UInt32(index))
      self.add(BPF_LD | BPF_W | BPF_MEM, Self.prefix + UInt32(index))
      self.add(BPF_ALU | BPF_XOR | BPF_K, word)
      self.add(BPF_ALU | BPF_AND | BPF_X, 0)
      self.add(
        BPF_JMP | BPF_JEQ | BPF_K, 0, ifFalse: UInt8(following * (lengthOfWord + 1) + 1))
    }
    self.pass()
  }

  private mutating func pass() { self.add(BPF_RET | BPF_K, .max) }
  private mutating func drop() { self.add(BPF_RET | BPF_K, 0) }

  private mutating func add(
    _ code: CInt, _ value: UInt32, ifTrue: UInt8 = 0, ifFalse: UInt8 = 0
  ) {
    self.program.append(sock_filter(code: UInt16(code), jt: ifTrue, jf: ifFalse, k: value))
  }
}

extension IPAddress {
  /// The address as 32-bit numbers, the first bits first: one or four.
  fileprivate var words: [UInt32] {
    let bytes = self.bytes
    return stride(from: 0, to: bytes.count, by: 4).map { start in
      bytes[start..<start + 4].reduce(0) { $0 << 8 | UInt32($1) }
    }
  }
}
