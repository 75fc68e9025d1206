import CLinux
import Connectivity

/// The part of ``NotificationFilter`` for RTM_NEWNEIGH of IPv4 and IPv6. Passes messages that a
/// watched gateway has a new MAC address, no longer answers, or answers again. Drops messages about
/// all other neighbours.
///
/// As traffic comes and goes, the kernel reports each entry that becomes reachable or stale. It
/// keeps reporting a failed entry while programs send to it. On a large network it reports hundreds
/// of hosts (an ARP storm). None of these messages may wake connd (D7).
///
/// Implements rules I4 and D6.
struct NeighbourFilter: FamilyFilterPart {
  /// The precision of the comparison.
  private enum Exactness {
    case hardwareAddress
    case link
    case none
  }

  let family: AddressFamily
  let program: BPFProgram
  private let gateways: Set<Neighbour>
  private let exactness: Exactness

  init(_ family: AddressFamily, watching gateways: [Neighbour]) {
    self.init(family, Set(gateways.filter { $0.address.family == family }), .hardwareAddress)
  }

  private init(_ family: AddressFamily, _ gateways: Set<Neighbour>, _ exactness: Exactness) {
    self.family = family
    self.gateways = gateways
    self.exactness = exactness
    self.program = Self.program(family, gateways, exactness)
  }

  var coarser: NeighbourFilter? {
    guard !self.gateways.isEmpty else { return nil }
    return switch self.exactness {
    case .hardwareAddress: NeighbourFilter(self.family, self.gateways, .link)
    case .link: NeighbourFilter(self.family, self.gateways, .none)
    case .none: nil
    }
  }

  // The offsets in a message: nlmsghdr, then ndmsg, then the attributes.
  private static let link = UInt32(MemoryLayout<nlmsghdr>.size) + 4
  private static let state = UInt32(MemoryLayout<nlmsghdr>.size) + 8
  private static let attributes = UInt32(MemoryLayout<nlmsghdr>.size + MemoryLayout<ndmsg>.size)

  // The scratch memory: the words of the address, the first four bytes of the MAC address, and the
  // other two.
  private static let address: UInt32 = 0
  private static let upper: UInt32 = 4
  private static let lower: UInt32 = 5

  /// The value stored for a MAC address that does not have six bytes, so that it never compares as
  /// equal.
  private static let otherLength = UInt32.max
  /// The value stored for the MAC address of a failed entry.
  private static let failed = UInt32.max - 1

  private static func program(
    _ family: AddressFamily, _ gateways: Set<Neighbour>, _ exactness: Exactness
  ) -> BPFProgram {
    var program = BPFProgram()
    switch exactness {
    case _ where gateways.isEmpty: program.drop()
    case .none: program.pass()
    case .link:
      program.add(BPF_LD | BPF_W | BPF_ABS, self.link)
      program.pass(ifOneOf: Set(gateways.map(\.link)).sorted().map { BPFProgram.field($0) })
      program.drop()
    case .hardwareAddress:
      program.findAttribute(UInt32(NDA_DST), from: self.attributes, passIfNone: false)
      program.storePayload(words: family.bitWidth / 32, at: self.address)
      var hardwareAddress = BPFProgram()
      hardwareAddress.findAttribute(
        UInt32(NDA_LLADDR), from: self.attributes, passIfNone: false)
      self.storeHardwareAddress(in: &hardwareAddress)
      // The message of a failed entry has no MAC address.
      program.add(BPF_LD | BPF_H | BPF_ABS, self.state)
      program.add(
        BPF_JMP | BPF_JEQ | BPF_K, BPFProgram.field(UInt16(NUD_FAILED)), ifFalse: 4)
      self.store(self.failed, in: &program)
      program.add(BPF_JMP | BPF_JA, UInt32(hardwareAddress.count))
      program.add(hardwareAddress)
      for gateway in gateways.sorted(by: { ($0.link, $0.address) < ($1.link, $1.address) }) {
        self.compare(with: gateway, in: &program)
      }
      program.drop()
    }
    return program
  }

  /// Stores the six bytes of the attribute at X. For another length, stores a value that no six
  /// bytes equal.
  private static func storeHardwareAddress(in program: inout BPFProgram) {
    func length(_ octets: Int) -> UInt32 {
      BPFProgram.field(UInt16(MemoryLayout<nlattr>.size + octets))
    }
    let payload = UInt32(MemoryLayout<nlattr>.size)
    program.add(BPF_LD | BPF_H | BPF_IND, 0)
    program.add(BPF_JMP | BPF_JEQ | BPF_K, length(0), ifFalse: 1)
    program.drop()
    program.add(BPF_JMP | BPF_JEQ | BPF_K, length(6), ifTrue: 4)
    self.store(self.otherLength, in: &program)
    program.add(BPF_JMP | BPF_JA, 4)
    program.add(BPF_LD | BPF_W | BPF_IND, payload)
    program.add(BPF_ST, self.upper)
    program.add(BPF_LD | BPF_H | BPF_IND, payload + 4)
    program.add(BPF_ST, self.lower)
  }

  private static func store(_ number: UInt32, in program: inout BPFProgram) {
    program.add(BPF_LD | BPF_W | BPF_IMM, number)
    program.add(BPF_ST, self.upper)
    program.add(BPF_ST, self.lower)
  }

  /// Passes the message if it is about `gateway` and differs from the known state.
  private static func compare(with gateway: Neighbour, in program: inout BPFProgram) {
    var news = BPFProgram()
    if gateway.isFailed {
      news.add(BPF_LD | BPF_W | BPF_MEM, self.lower)
      news.add(BPF_JMP | BPF_JEQ | BPF_K, self.failed, ifTrue: 1)
    } else if let known = gateway.hardwareAddress, known.count == 6 {
      news.add(BPF_LD | BPF_W | BPF_MEM, self.upper)
      news.add(BPF_JMP | BPF_JEQ | BPF_K, BPFProgram.number(known[..<4]), ifFalse: 2)
      news.add(BPF_LD | BPF_W | BPF_MEM, self.lower)
      news.add(BPF_JMP | BPF_JEQ | BPF_K, BPFProgram.number(known[4...]), ifTrue: 1)
    }
    news.pass()

    let words = gateway.address.words
    program.add(BPF_LD | BPF_W | BPF_ABS, self.link)
    program.add(
      BPF_JMP | BPF_JEQ | BPF_K, BPFProgram.field(gateway.link),
      ifFalse: UInt8(2 * words.count + news.count))
    for (index, word) in words.enumerated() {
      program.add(BPF_LD | BPF_W | BPF_MEM, self.address + UInt32(index))
      program.add(
        BPF_JMP | BPF_JEQ | BPF_K, word,
        ifFalse: UInt8(2 * (words.count - 1 - index) + news.count))
    }
    program.add(news)
  }
}
