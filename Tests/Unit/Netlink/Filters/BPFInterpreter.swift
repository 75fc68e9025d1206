import CLinux
import Connectivity

@testable import Netlink

/// Runs a classic BPF program on a netlink datagram as the kernel does
/// (Documentation/networking/filter.rst).
struct BPFInterpreter {
  let program: [sock_filter]

  /// The program's result (0 drops the datagram), or `nil` if the kernel would refuse the
  /// program.
  func run(on bytes: [UInt8]) -> UInt32? {
    var (a, x): (UInt32, UInt32) = (0, 0)
    var memory = [UInt32](repeating: 0, count: 16)
    var counter = 0
    while counter < self.program.count {
      let instruction = self.program[counter]
      let (code, k) = (CInt(instruction.code), instruction.k)
      counter += 1
      switch code & 0x07 {
      case BPF_LD
      where code & 0xE0 == BPF_ABS && k == UInt32(bitPattern: SKF_AD_OFF + SKF_AD_NLATTR):
        a = Self.attribute(type: x, from: a, in: bytes)
      case BPF_LD
      where code & 0xE0 == BPF_ABS && k == UInt32(bitPattern: SKF_AD_OFF + SKF_AD_NLATTR_NEST):
        a = Self.attribute(type: x, inAttributeAt: a, in: bytes)
      case BPF_LD:
        switch code & 0xE0 {
        case BPF_IMM: a = k
        case BPF_MEM: a = memory[Int(k)]
        case BPF_ABS, BPF_IND:
          let offset = code & 0xE0 == BPF_IND ? x &+ k : k
          let size = code & 0x18 == BPF_W ? 4 : code & 0x18 == BPF_H ? 2 : 1
          // A load beyond the datagram drops it.
          guard Int(offset) + size <= bytes.count else { return 0 }
          a = bytes[Int(offset)..<Int(offset) + size].reduce(0) { $0 << 8 | UInt32($1) }
        default: return nil
        }
      case BPF_LDX:
        switch code & 0xE0 {
        case BPF_IMM: x = k
        case BPF_MEM: x = memory[Int(k)]
        default: return nil
        }
      case BPF_ST: memory[Int(k)] = a
      case BPF_ALU:
        let operand = code & BPF_X != 0 ? x : k
        switch code & 0xF0 {
        case BPF_ADD: a = a &+ operand
        case BPF_AND: a &= operand
        case BPF_XOR: a ^= operand
        case BPF_LSH:
          guard operand < 32 else { return nil }
          a <<= operand
        default: return nil
        }
      case BPF_JMP:
        let operand = code & BPF_X != 0 ? x : k
        let holds: Bool
        switch code & 0xF0 {
        case BPF_JA:
          counter += Int(k)
          continue
        case BPF_JEQ: holds = a == operand
        case BPF_JGT: holds = a > operand
        case BPF_JGE: holds = a >= operand
        default: return nil
        }
        counter += Int(holds ? instruction.jt : instruction.jf)
      case BPF_RET: return k
      case BPF_MISC: x = a
      default: return nil
      }
    }
    return nil
  }

  /// SKF_AD_NLATTR_NEST: the same among the attributes in the payload of another one.
  private static func attribute(
    type: UInt32, inAttributeAt start: UInt32, in bytes: [UInt8]
  ) -> UInt32 {
    let start = Int(start)
    guard start + 4 <= bytes.count else { return 0 }
    let length = bytes.withUnsafeBytes {
      Int($0.loadUnaligned(fromByteOffset: start, as: UInt16.self))
    }
    guard length >= 4, start + length <= bytes.count else { return 0 }
    return self.attribute(
      type: type, from: UInt32(start + 4), in: Array(bytes[..<(start + length)]))
  }

  /// SKF_AD_NLATTR: the offset of the first attribute of a type, or 0 without one.
  private static func attribute(type: UInt32, from start: UInt32, in bytes: [UInt8]) -> UInt32 {
    var offset = Int(start)
    while offset + 4 <= bytes.count {
      let length = bytes.withUnsafeBytes {
        Int($0.loadUnaligned(fromByteOffset: offset, as: UInt16.self))
      }
      let kind = bytes.withUnsafeBytes {
        $0.loadUnaligned(fromByteOffset: offset + 2, as: UInt16.self) & 0x3FFF
      }
      guard length >= 4, offset + length <= bytes.count else { return 0 }
      if UInt32(kind) == type { return UInt32(offset) }
      offset += (length + 3) & ~3
    }
    return 0
  }
}

extension BPFInterpreter {
  /// Creates a listener's filter.
  init(
    watching destinations: [IPAddress] = [], gateways: [Neighbour] = [],
    limit: Int = BPFProgram.maxLength
  ) {
    self.init(FilterSpec(destinations: destinations, gateways: gateways), limit: limit)
  }

  init(_ watched: FilterSpec, limit: Int = BPFProgram.maxLength) {
    self.init(program: NotificationFilter(watched, limit: limit).program)
  }
}
