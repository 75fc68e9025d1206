/// SipHash-2-4: without the key, the hash reveals nothing about its input (Aumasson and Bernstein,
/// "SipHash: a fast short-input PRF"). Swift's Hasher uses another key in each process.
struct SipHash {
  private let key: (UInt64, UInt64)

  /// - Parameter key: Sixteen bytes. Missing bytes are zero.
  init(key: [UInt8]) {
    self.key = (Self.word(key[...]), Self.word(key.dropFirst(8)))
  }

  func hash(_ bytes: [UInt8]) -> UInt64 { self.hash(bytes[...]) }

  func hash(_ bytes: ArraySlice<UInt8>) -> UInt64 {
    var state = SIMD4<UInt64>(
      self.key.0 ^ 0x736f_6d65_7073_6575, self.key.1 ^ 0x646f_7261_6e64_6f6d,
      self.key.0 ^ 0x6c79_6765_6e65_7261, self.key.1 ^ 0x7465_6462_7974_6573)
    var rest = bytes
    while rest.count >= 8 {
      Self.absorb(Self.word(rest), into: &state)
      rest = rest.dropFirst(8)
    }
    Self.absorb(Self.word(rest) | UInt64(bytes.count) << 56, into: &state)
    state[2] ^= 0xff
    for _ in 0..<4 { Self.round(&state) }
    return state[0] ^ state[1] ^ state[2] ^ state[3]
  }

  /// Returns the first eight bytes as a word, least significant first.
  private static func word(_ bytes: ArraySlice<UInt8>) -> UInt64 {
    bytes.prefix(8).reversed().reduce(0) { $0 << 8 | UInt64($1) }
  }

  private static func absorb(_ word: UInt64, into state: inout SIMD4<UInt64>) {
    state[3] ^= word
    for _ in 0..<2 { Self.round(&state) }
    state[0] ^= word
  }

  private static func round(_ v: inout SIMD4<UInt64>) {
    v[0] &+= v[1]
    v[1] = v[0] ^ rotated(v[1], 13)
    v[0] = rotated(v[0], 32)
    v[2] &+= v[3]
    v[3] = v[2] ^ rotated(v[3], 16)
    v[0] &+= v[3]
    v[3] = v[0] ^ rotated(v[3], 21)
    v[2] &+= v[1]
    v[1] = v[2] ^ rotated(v[1], 17)
    v[2] = rotated(v[2], 32)
  }

  private static func rotated(_ word: UInt64, _ count: UInt64) -> UInt64 {
    word << count | word >> (64 - count)
  }
}
