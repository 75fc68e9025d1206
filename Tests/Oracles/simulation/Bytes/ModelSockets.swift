import CLinux
import Connectivity
import ConnectivityRules
import Glibc
import LinuxSupport
import Netlink

@testable import ConndServer

/// Netlink sockets of the model kernel. Requests, answers and notifications are bytes.
final class ModelSockets: SocketSource {
  /// The network that answers; set before each query.
  var network: ModelNetwork
  /// Whether requests are neither taken nor answered.
  var isFailing = false
  /// The events waiting to be received.
  var notifications: [KernelEvent] = []
  /// Whether events are waiting.
  var hasMessages: () -> Bool = { false }
  /// Whether netfilter tracks connections.
  var tracksConnections = false
  /// The report of a connection's socket, or `nil` without a socket.
  var socketReport: (Destination) -> SocketReport? = { _ in nil }

  init(_ network: ModelNetwork) { self.network = network }

  func open(_ role: SocketRole) throws(NetlinkError) -> any DatagramSocket {
    switch role {
    case .listener, .requester, .socketDiagnosis, .linkDump: return ModelSocket(role, self)
    // nl80211 is missing.
    case .wirelessListener, .wirelessRequester:
      throw NetlinkError(operation: "open a netlink socket", code: EPROTONOSUPPORT)
    }
  }

  func isReadable(_ fileDescriptor: CInt) -> Bool { self.hasMessages() }

  // MARK: - Answers

  /// The messages that answer a request.
  func answer(_ request: NetlinkMessage) -> [[UInt8]] {
    let question = ModelQuestion(request)
    let objects: [[UInt8]]
    var absence = ENOENT
    switch Int(request.type) {
    case Int(RTM_GETLINK):
      objects = self.network.links.map(\.index)
        .filter { request.isDump || $0 == question.index }
        .compactMap { self.network.link($0) }.map { KernelBytes.link($0, type: RTM_NEWLINK) }
      absence = ENODEV
    case Int(RTM_GETADDR):
      objects = self.addresses(question, isDump: request.isDump)
      absence = EADDRNOTAVAIL
    case Int(RTM_GETROUTE): return [self.route(question, request)]
    case Int(RTM_GETNEIGH): objects = self.neighbours(question)
    case Int(SOCK_DIAG_BY_FAMILY):
      objects =
        question.connection.flatMap(self.socketReport).map { [KernelBytes.socket($0)] } ?? []
    default: objects = []
    }
    if request.isDump { return objects + [KernelBytes.end] }
    return [objects.first ?? KernelBytes.error(absence, request.bytes)]
  }

  private func addresses(_ question: ModelQuestion, isDump: Bool) -> [[UInt8]] {
    let links = self.network.links.filter { question.index == 0 || $0.index == question.index }
    let addresses = links.flatMap(\.addresses).filter { address in
      question.family == address.address.family
        && (isDump || address.address == question.address(IFA_ADDRESS))
    }
    return addresses.map { KernelBytes.address($0, type: RTM_NEWADDR) }
  }

  private func neighbours(_ question: ModelQuestion) -> [[UInt8]] {
    if question.isOfBridge {
      let hardware = question.attributes[Int(NDA_LLADDR)] ?? []
      let bridge = question.number(NDA_MASTER)
      guard let port = self.network[bridge]?.learnt[hardware] else { return [] }
      return [KernelBytes.bridgeEntry(BridgeEntry(hardware, port: port, bridge: bridge))]
    }
    guard let address = question.address(NDA_DST),
      let hardware = self.network[question.index]?.neighbours[address]
    else { return [] }
    return [
      KernelBytes.neighbour(
        Neighbour(address, link: question.index, hardwareAddress: hardware))
    ]
  }

  private func route(_ question: ModelQuestion, _ request: NetlinkMessage) -> [UInt8] {
    guard let destination = question.destination else {
      return KernelBytes.error(EINVAL, request.bytes)
    }
    let answer = self.network.route(to: destination)
    switch answer {
    case .unanswered: return KernelBytes.error(EPROTO, request.bytes)
    case .noRoute(let reason): return KernelBytes.error(reason.code, request.bytes)
    case .route(let route):
      guard question.isOfEntry else { return KernelBytes.answer(route, to: destination.address) }
      return self.network.tableEntry(for: destination).map { KernelBytes.entry($0, request.bytes) }
        ?? KernelBytes.error(ENETUNREACH, request.bytes)
    }
  }
}

extension KernelPath.Reason {
  /// The error of a failed lookup.
  fileprivate var code: CInt {
    switch self {
    case .unreachable: EHOSTUNREACH
    case .prohibited: EACCES
    case .blackhole: EINVAL
    case .throw: EAGAIN
    default: ENETUNREACH
    }
  }
}

/// The contents of a request.
private struct ModelQuestion {
  let header: [UInt8]
  let attributes: [Int: [UInt8]]

  init(_ request: NetlinkMessage) {
    let sizes = [
      Int(RTM_GETLINK): 16, Int(RTM_GETADDR): 8, Int(RTM_GETROUTE): 12, Int(RTM_GETNEIGH): 12,
      Int(RTM_GETRULE): 12, Int(SOCK_DIAG_BY_FAMILY): MemoryLayout<inet_diag_req_v2>.size,
    ]
    let payload = request.bytes[16...]
    let size = sizes[Int(request.type)] ?? 0
    self.header = Array(payload.prefix(size))
    var attributes: [Int: [UInt8]] = [:]
    var reader = AttributeBytes(payload.dropFirst(size))
    while let (type, payload) = reader.next() { attributes[Int(type & 0x3FFF)] = Array(payload) }
    self.attributes = attributes
  }

  var isOfBridge: Bool { self.header.first == UInt8(AF_BRIDGE) }
  var family: AddressFamily? {
    switch CInt(self.header.first ?? 0) {
    case AF_INET: .ipv4
    case AF_INET6: .ipv6
    default: nil
    }
  }

  /// The index has the same offset in the headers of links, addresses and neighbours.
  var index: UInt32 { Self.number(self.header.dropFirst(4).prefix(4)) }
  var isOfEntry: Bool {
    Self.number(self.header.dropFirst(8).prefix(4)) & UInt32(RTM_F_FIB_MATCH) != 0
  }

  func address(_ type: some BinaryInteger) -> IPAddress? {
    self.attributes[Int(type)].flatMap { IPAddress(bytes: $0) }
  }

  func number(_ type: some BinaryInteger) -> UInt32? {
    self.attributes[Int(type)].map { Self.number($0[...]) }
  }

  var destination: Destination? {
    guard let address = self.address(RTA_DST.rawValue) else { return nil }
    var destination = Destination(
      address, uid: self.number(RTA_UID.rawValue) ?? 0, mark: self.number(RTA_MARK.rawValue) ?? 0,
      source: self.address(RTA_SRC.rawValue), outLink: self.number(RTA_OIF.rawValue))
    if let number = self.attributes[Int(RTA_IP_PROTO.rawValue)]?.first {
      destination.transport = Transport(
        number, localPort: self.port(RTA_SPORT.rawValue), remotePort: self.port(RTA_DPORT.rawValue))
    }
    return destination
  }

  /// The addresses and ports in an `inet_diag_req_v2`, after four octets and the states.
  var connection: Destination? {
    let ports = self.header.dropFirst(8)
    func address(at offset: Int) -> IPAddress? {
      let size = self.family == .ipv4 ? 4 : 16
      return IPAddress(bytes: Array(self.header.dropFirst(offset).prefix(size)))
    }
    guard let source = address(at: 12), let remote = address(at: 28) else { return nil }
    var connection = Destination(remote, source: source)
    connection.transport = Transport(
      Transport.tcp, localPort: Self.port(ports), remotePort: Self.port(ports.dropFirst(2)))
    return connection
  }

  private func port(_ type: some BinaryInteger) -> UInt16 {
    Self.port((self.attributes[Int(type)] ?? [])[...])
  }

  private static func port(_ bytes: ArraySlice<UInt8>) -> UInt16 {
    bytes.prefix(2).reduce(0) { $0 << 8 | UInt16($1) }
  }

  private static func number(_ bytes: ArraySlice<UInt8>) -> UInt32 {
    bytes.reversed().reduce(0) { $0 << 8 | UInt32($1) }
  }
}

/// One of the sockets.
private final class ModelSocket: DatagramSocket {
  private let role: SocketRole
  private let sockets: ModelSockets
  private var answers: [[UInt8]] = []
  private var datagram = UnsafeMutableRawBufferPointer(start: nil, count: 0)
  private(set) var port: UInt32 = 0

  let fileDescriptor: CInt = -1

  init(_ role: SocketRole, _ sockets: ModelSockets) {
    self.role = role
    self.sockets = sockets
  }

  deinit { self.datagram.deallocate() }

  func bind() throws(NetlinkError) { self.port = 4000 + UInt32(self.role.rawValue) }

  func set(_ option: CInt, _ value: CInt) -> Bool { self.succeeds }
  func setSocket<Value: BitwiseCopyable>(_ option: CInt, _ value: Value) -> Bool { self.succeeds }

  private var succeeds: Bool {
    if self.sockets.isFailing { errno = EIO }
    return !self.sockets.isFailing
  }

  func send(_ messages: UnsafeRawBufferPointer, operation: String) throws(NetlinkError) {
    if self.sockets.isFailing { throw NetlinkError(operation: operation, code: EIO) }
    self.answers = NetlinkMessage.messages(of: messages).flatMap { request in
      self.sockets.answer(request).map { bytes in
        var answer = NetlinkMessage(bytes: bytes)
        (answer.sequence, answer.port) = (request.sequence, self.port)
        return answer.bytes
      }
    }
  }

  func receive(flags: CInt) -> Reception {
    guard self.role == .listener else {
      return self.answers.isEmpty ? .nothing : .datagram(self.keep(self.answers.removeFirst()))
    }
    if self.sockets.isFailing { return .failed(errno: EIO) }
    while !self.sockets.notifications.isEmpty {
      let event = self.sockets.notifications.removeFirst()
      if event == .overrun { return .overrun }
      if let bytes = KernelBytes.notification(event) { return .datagram(self.keep(bytes)) }
    }
    return .nothing
  }

  func receiveSmall(_ take: (UnsafeRawBufferPointer) -> Bool) -> Bool {
    guard !self.answers.isEmpty else { return false }
    var isWell = true
    while !self.answers.isEmpty { isWell = take(self.keep(self.answers.removeFirst())) && isWell }
    return isWell
  }

  private func keep(_ bytes: [UInt8]) -> UnsafeRawBufferPointer {
    self.datagram.deallocate()
    self.datagram = .allocate(byteCount: bytes.count, alignment: 8)
    self.datagram.copyBytes(from: bytes)
    return UnsafeRawBufferPointer(self.datagram)
  }
}

/// The contents of sysfs for the model's links.
struct ModelFiles: FileReader {
  let sockets: ModelSockets

  func answer(_ question: FileQuestion) -> FileAnswer {
    let parts = question.subject.split(separator: "/").dropFirst(3)
    let network = self.sockets.network
    if question.subject == "/proc/sys/net/netfilter/nf_conntrack_count" {
      return .success(Array((self.sockets.tracksConnections ? "7\n" : "0\n").utf8))
    }
    if question.subject == "/proc/self/net/ip_vs" { return .failure(SystemError(ENOENT)) }
    // DNS files cannot be read here.
    guard question.subject.hasPrefix("/sys/class/net/"), let name = parts.first else {
      return .failure(SystemError(EACCES))
    }
    guard let link = network.named(String(name)) else { return .failure(SystemError(ENOENT)) }
    let device = network.device(link.index)
    let lower = device.lowerLinks.compactMap { network[$0]?.name }
    func text(_ text: String) -> FileAnswer { .success(Array(text.utf8)) }
    switch (question.kind, parts.dropFirst().joined(separator: "/")) {
    case (.page, "ifindex"): return text("\(link.index)\n")
    case (.page, "uevent"): return text(device.type.map { "DEVTYPE=\($0)\n" } ?? "")
    case (.names, ""): return text(lower.map { "lower_\($0)\0" }.joined())
    case (.page, let path) where path.hasPrefix("lower_") && path.hasSuffix("/ifindex"):
      let below = network.named(String(path.dropFirst(6).dropLast(8)))
      return below.map { text("\($0.index)\n") } ?? .failure(SystemError(ENOENT))
    default: return .failure(SystemError(ENOENT))
    }
  }
}
