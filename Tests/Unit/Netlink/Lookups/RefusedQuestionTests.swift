import CLinux
import Connectivity
import Glibc
import TestKit
import Testing

@testable import Netlink

/// Errors with which the kernel answers a single query.
@Suite("Refused queries")
struct RefusedQuestionTests {
  private static let refused = IPAddress("198.51.100.9")
  private static let answered = IPAddress("203.0.113.9")

  private func destinations() throws -> [Destination] {
    try [Self.answered, Self.refused, Self.answered].map { Destination(try #require($0)) }
  }

  @Test("K8 a lookup is refused with any errno → the others are answered", arguments: 1...133)
  func lookups(code: CInt) throws {
    let sockets = RefusingSocket(refusing: try #require(Self.refused), with: code)
    let requester = try Requester(on: sockets)
    let answers = try requester.routes(to: self.destinations())
    let way = RouteAnswer.route(
      Route(outLink: 2, gateway: IPAddress("192.0.2.1"), source: IPAddress("192.0.2.7")))
    #expect(answers[0] == way && answers[2] == way)
    switch KernelPath.Reason(lookup: .answer("RTM_GETROUTE", code), of: .ipv4) {
    case let reason?: #expect(answers[1] == .noRoute(reason))
    case nil: #expect(answers[1].isUnanswered)
    }
  }

  @Test(
    "K8 an error in the kernel's answer belongs to the query, any other error to the socket",
    arguments: 1...133)
  func kinds(code: CInt) throws {
    let socket = RefusingSocket(refusing: try #require(Self.refused), with: code)
    let requester = try Requester(on: socket)
    func error(_ ask: () throws(NetlinkError) -> Void) -> NetlinkError? {
      do throws(NetlinkError) {
        try ask()
        return nil
      } catch {
        return error
      }
    }
    let answer = error { () throws(NetlinkError) in _ = try requester.links() }
    #expect(answer?.isAnswer == true && answer?.code == code)
    socket.sendError = code
    let loss = error { () throws(NetlinkError) in _ = try requester.link(index: 2) }
    #expect(loss?.isAnswer == false && loss?.code == code)
  }
}

/// A socket whose kernel knows one route, and refuses everything else.
private final class RefusingSocket: DatagramSocket {
  private let refused: IPAddress
  private let code: CInt
  /// The error of sending.
  var sendError: CInt?
  private var answers: [[UInt8]] = []
  private var datagram = UnsafeMutableRawBufferPointer(start: nil, count: 0)
  let fileDescriptor: CInt = -1
  let port: UInt32 = 4711

  init(refusing refused: IPAddress, with code: CInt) {
    (self.refused, self.code) = (refused, code)
  }

  deinit { self.datagram.deallocate() }

  func bind() throws(NetlinkError) {}
  func set(_ option: CInt, _ value: CInt) -> Bool { true }
  func setSocket<Value: BitwiseCopyable>(_ option: CInt, _ value: Value) -> Bool { true }

  func send(_ messages: UnsafeRawBufferPointer, operation: String) throws(NetlinkError) {
    if let sendError { throw NetlinkError(operation: operation, code: sendError) }
    self.answers = []
    var requests = MessageReader(messages)
    while let request = requests.next() {
      var answer = self.answer(to: request)
      answer.replaceSubrange(8..<16, with: raw(request.sequence) + raw(self.port))
      self.answers.append(answer)
    }
  }

  private func answer(to request: Message) -> [UInt8] {
    var destination: IPAddress?
    var attributes = AttributeReader(request.payload, after: MemoryLayout<rtmsg>.size)
    while Int(request.type) == Int(RTM_GETROUTE), let attribute = attributes.next() {
      if attribute.type == Int(RTA_DST.rawValue) {
        destination = attribute.payload.address(.ipv4)
      }
    }
    guard let destination, destination != self.refused else {
      return MessageBuilder(
        type: Int(NLMSG_ERROR), header: raw(-self.code) + raw(UInt64(0)) + raw(UInt64(0))
      )
      .bytes
    }
    var header = rtmsg()
    (header.rtm_family, header.rtm_dst_len) = (UInt8(AF_INET), 32)
    (header.rtm_type, header.rtm_table) = (UInt8(RTN_UNICAST), 254)
    var message = MessageBuilder(
      type: Int(RTM_NEWROUTE), header: withUnsafeBytes(of: header) { Array($0) })
    message.put(Int(RTA_DST.rawValue), destination.bytes)
    message.put(Int(RTA_OIF.rawValue), raw(UInt32(2)))
    message.put(Int(RTA_GATEWAY.rawValue), [192, 0, 2, 1])
    message.put(Int(RTA_PREFSRC.rawValue), [192, 0, 2, 7])
    return message.bytes
  }

  func receive(flags: CInt) -> Reception {
    guard !self.answers.isEmpty else { return .nothing }
    return .datagram(self.keep(self.answers.removeFirst()))
  }

  func receiveSmall(_ take: (UnsafeRawBufferPointer) -> Bool) -> Bool {
    guard !self.answers.isEmpty else { return false }
    while !self.answers.isEmpty { _ = take(self.keep(self.answers.removeFirst())) }
    return true
  }

  private func keep(_ bytes: [UInt8]) -> UnsafeRawBufferPointer {
    self.datagram.deallocate()
    self.datagram = .allocate(byteCount: bytes.count, alignment: 8)
    self.datagram.copyBytes(from: bytes)
    return UnsafeRawBufferPointer(self.datagram)
  }
}
