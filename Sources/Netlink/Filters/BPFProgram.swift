import CLinux
import Connectivity

/// A classic BPF program under construction. Jumps are relative, so that programs can be composed
/// of parts. A is the accumulator of the kernel's virtual machine, and X its index register.
struct BPFProgram {
  private(set) var instructions: [sock_filter] = []

  /// The kernel's limit, BPF_MAXINSNS.
  static let maxLength = Int(BPF_MAXINSNS)

  var count: Int { self.instructions.count }

  /// Returns the value that a load yields for `number`. A load reads big-endian, but netlink uses
  /// host order.
  static func field(_ number: UInt16) -> UInt32 { UInt32(number.bigEndian) }
  static func field(_ number: UInt32) -> UInt32 { number.bigEndian }

  /// Returns the value that a load yields for up to four bytes.
  static func number(_ octets: ArraySlice<UInt8>) -> UInt32 {
    octets.reduce(0) { $0 << 8 | UInt32($1) }
  }

  mutating func add(_ code: CInt, _ value: UInt32, ifTrue: UInt8 = 0, ifFalse: UInt8 = 0) {
    self.instructions.append(
      sock_filter(code: UInt16(code), jt: ifTrue, jf: ifFalse, k: value))
  }

  mutating func add(_ part: BPFProgram) { self.instructions += part.instructions }

  /// Runs `part` if A equals `value`; `part` must always return. Otherwise skips it and leaves A
  /// unchanged.
  mutating func add(_ part: BPFProgram, ifEqual value: UInt32) {
    self.add(part, ifOneOf: [value])
  }

  /// Runs `part` if A is one of a few `values`; `part` must always return. Otherwise skips it and
  /// leaves A unchanged.
  mutating func add(_ part: BPFProgram, ifOneOf values: [UInt32]) {
    for (index, value) in values.enumerated() {
      self.add(BPF_JMP | BPF_JEQ | BPF_K, value, ifTrue: UInt8(values.count - index))
    }
    // A conditional jump spans at most 255 instructions, an unconditional jump any number.
    self.add(BPF_JMP | BPF_JA, UInt32(part.count))
    self.add(part)
  }

  /// Passes the message if A is one of `values`.
  mutating func pass(ifOneOf values: some Sequence<UInt32>) {
    for value in values {
      self.add(BPF_JMP | BPF_JEQ | BPF_K, value, ifFalse: 1)
      self.pass()
    }
  }

  /// Loads the 32-bit number at `offset` into A. The result of a plain load can be compared for
  /// equality, but not for order.
  mutating func loadNumber(at offset: UInt32) {
    for byte in (0..<4).reversed() {
      let place = UInt32(bigEndian: 1) == 1 ? 3 - byte : byte
      if byte < 3 {
        self.add(BPF_ALU | BPF_LSH | BPF_K, 8)
        self.add(BPF_MISC | BPF_TAX, 0)
      }
      self.add(BPF_LD | BPF_B | BPF_ABS, offset + UInt32(place))
      if byte < 3 { self.add(BPF_ALU | BPF_ADD | BPF_X, 0) }
    }
  }

  mutating func pass() { self.add(BPF_RET | BPF_K, .max) }
  mutating func drop() { self.add(BPF_RET | BPF_K, 0) }

  /// Sets X to the offset of the attribute, searching from `start`. If the attribute is missing,
  /// passes or drops the message.
  mutating func findAttribute(_ type: UInt32, from start: UInt32, passIfNone: Bool) {
    self.add(BPF_LDX | BPF_W | BPF_IMM, type)
    self.add(BPF_LD | BPF_W | BPF_IMM, start)
    self.add(BPF_LD | BPF_W | BPF_ABS, UInt32(bitPattern: SKF_AD_OFF + SKF_AD_NLATTR))
    self.add(BPF_JMP | BPF_JEQ | BPF_K, 0, ifFalse: 1)
    if passIfNone { self.pass() } else { self.drop() }
    self.add(BPF_MISC | BPF_TAX, 0)
  }

  /// Passes the message if an attribute nested in another attribute begins with these four bytes.
  /// The search begins at `start`.
  mutating func pass(
    ifAttribute type: UInt32, in outer: UInt32, from start: UInt32, is octets: [UInt8]
  ) {
    var match = BPFProgram()
    match.add(BPF_MISC | BPF_TAX, 0)
    match.add(BPF_LD | BPF_W | BPF_IND, UInt32(MemoryLayout<nlattr>.size))
    match.pass(ifOneOf: [Self.number(octets[...])])
    var inner = BPFProgram()
    inner.add(BPF_LDX | BPF_W | BPF_IMM, type)
    inner.add(BPF_LD | BPF_W | BPF_ABS, UInt32(bitPattern: SKF_AD_OFF + SKF_AD_NLATTR_NEST))
    inner.add(BPF_JMP | BPF_JEQ | BPF_K, 0, ifTrue: UInt8(match.count))
    inner.add(match)
    self.add(BPF_LDX | BPF_W | BPF_IMM, outer)
    self.add(BPF_LD | BPF_W | BPF_IMM, start)
    self.add(BPF_LD | BPF_W | BPF_ABS, UInt32(bitPattern: SKF_AD_OFF + SKF_AD_NLATTR))
    self.add(BPF_JMP | BPF_JEQ | BPF_K, 0, ifTrue: UInt8(inner.count))
    self.add(inner)
  }

  /// Stores the first words of the payload of the attribute at X in the scratch memory.
  mutating func storePayload(words: Int, at place: UInt32) {
    for word in 0..<UInt32(words) {
      self.add(BPF_LD | BPF_W | BPF_IND, UInt32(MemoryLayout<nlattr>.size) + 4 * word)
      self.add(BPF_ST, place + word)
    }
  }
}

extension IPAddress {
  /// The address as one or four 32-bit numbers, most significant first.
  var words: [UInt32] {
    let bytes = self.bytes
    return stride(from: 0, to: bytes.count, by: 4).map { start in
      bytes[start..<start + 4].reduce(0) { $0 << 8 | UInt32($1) }
    }
  }
}
