import CLinux
import Connectivity

/// The part of ``NotificationFilter`` for RTM_NEWNEIGH of AF_BRIDGE. Passes watched MAC addresses
/// that a bridge has learnt behind a port.
///
/// A bridge learns and forgets the address of each host that sends. Addresses that are not watched
/// must not wake connd (D7).
struct BridgeFilter: FilterPart {
  /// The program always returns.
  let program: BPFProgram
  private let isExact: Bool

  init(watching addresses: [[UInt8]]) {
    self.isExact = true
    self.program = Self.program(Set(addresses.filter { $0.count == 6 }))
  }

  /// Creates a part that passes everything.
  private init() {
    self.isExact = false
    var program = BPFProgram()
    program.pass()
    self.program = program
  }

  /// A program of one instruction, a drop, cannot be shortened.
  var coarser: BridgeFilter? { self.isExact && self.program.count > 1 ? BridgeFilter() : nil }

  // The offset in a message: nlmsghdr, then ndmsg, then the attributes.
  private static let attributes = UInt32(MemoryLayout<nlmsghdr>.size + MemoryLayout<ndmsg>.size)

  // The scratch memory: the first four bytes of the MAC address, and the other two.
  private static let upper: UInt32 = 0
  private static let lower: UInt32 = 1

  private static func program(_ addresses: Set<[UInt8]>) -> BPFProgram {
    var program = BPFProgram()
    if !addresses.isEmpty {
      let header = UInt32(MemoryLayout<nlattr>.size)
      program.findAttribute(UInt32(NDA_LLADDR), from: self.attributes, passIfNone: false)
      program.add(BPF_LD | BPF_H | BPF_IND, 0)
      program.add(BPF_JMP | BPF_JEQ | BPF_K, BPFProgram.field(UInt16(header + 6)), ifTrue: 1)
      program.drop()
      program.add(BPF_LD | BPF_W | BPF_IND, header)
      program.add(BPF_ST, self.upper)
      program.add(BPF_LD | BPF_H | BPF_IND, header + 4)
      program.add(BPF_ST, self.lower)
      for address in addresses.sorted(by: { $0.lexicographicallyPrecedes($1) }) {
        program.add(BPF_LD | BPF_W | BPF_MEM, self.upper)
        program.add(BPF_JMP | BPF_JEQ | BPF_K, BPFProgram.number(address[..<4]), ifFalse: 3)
        program.add(BPF_LD | BPF_W | BPF_MEM, self.lower)
        program.add(BPF_JMP | BPF_JEQ | BPF_K, BPFProgram.number(address[4...]), ifFalse: 1)
        program.pass()
      }
    }
    program.drop()
    return program
  }
}
