import CLinux
import Glibc
import Testing

@testable import Netlink

@Suite("Answers to one request")
struct ExchangeTests {
  @Test("A dump is complete with NLMSG_DONE")
  func complete() throws {
    #expect(try self.outcome([self.part(), self.part(), self.done()]) == "object object complete")
  }

  @Test("D8 a dump counts as interrupted if any of its messages says so", arguments: 0..<3)
  func interrupted(index: Int) throws {
    var messages = [self.part(), self.part(), self.done()]
    messages[index] =
      index == 2 ? self.done(flags: NLM_F_DUMP_INTR) : self.part(flags: NLM_F_DUMP_INTR)
    #expect(try self.outcome(messages) == "object object interrupted")
  }

  @Test("A dump that fails half-way ends with the error in NLMSG_DONE")
  func failedDump() throws {
    #expect(try self.outcome([self.part(), self.done(code: -ENODEV)]) == "object failed \(ENODEV)")
  }

  @Test(
    "An error has the kernel's text, whether or not it repeats the request",
    arguments: [true, false])
  func error(isCapped: Bool) throws {
    let request = RouteCaptures.defaultRouteByGateway4.bytes
    var header = raw(-EINVAL) + request.prefix(16)
    if !isCapped { header += request.dropFirst(16) }
    let flags = NLM_F_ACK_TLVS | (isCapped ? NLM_F_CAPPED : 0)
    var message = MessageBuilder(type: Int(NLMSG_ERROR), flags: Int(flags), header: header)
    message.put(Int(NLMSGERR_ATTR_OFFS.rawValue), raw(UInt32(17)))
    message.put(Int(NLMSGERR_ATTR_MSG.rawValue), Array("Invalid values".utf8) + [0])
    #expect(try self.outcome([message.bytes]) == "failed \(EINVAL) Invalid values")
  }

  @Test("A number outside of errno becomes EBADMSG", arguments: [Int32.min, 1, .max])
  func absurdError(code: Int32) throws {
    let message = MessageBuilder(
      type: Int(NLMSG_ERROR), header: raw(code) + Array(repeating: 0, count: 16))
    #expect(try self.outcome([message.bytes]) == "failed \(EBADMSG)")
  }

  @Test("An acknowledgement completes, NOOP is ignored, an overrun is an error")
  func control() throws {
    let acknowledgement = MessageBuilder(
      type: Int(NLMSG_ERROR), header: raw(Int32(0)) + Array(repeating: 0, count: 16))
    #expect(try self.outcome([acknowledgement.bytes]) == "complete")
    #expect(
      try self.outcome([MessageBuilder(type: Int(NLMSG_NOOP), header: []).bytes]) == "nothing")
    #expect(
      try self.outcome([MessageBuilder(type: Int(NLMSG_OVERRUN), header: []).bytes])
        == "failed \(ENOBUFS)")
  }

  private func part(flags: Int32 = 0) -> [UInt8] {
    MessageBuilder(type: Int(RTM_NEWLINK), flags: Int(NLM_F_MULTI | flags), header: []).bytes
  }

  private func done(code: Int32 = 0, flags: Int32 = 0) -> [UInt8] {
    MessageBuilder(type: Int(NLMSG_DONE), flags: Int(NLM_F_MULTI | flags), header: raw(code)).bytes
  }

  private func outcome(_ messages: [[UInt8]]) throws -> String {
    var exchange = Exchange(isDump: true)
    return try messages.map { bytes in
      try withMessage(bytes) { message in
        switch exchange.receive(message) {
        case .object: "object"
        case .nothing: "nothing"
        case .complete: "complete"
        case .interrupted: "interrupted"
        case .failed(let code, let text): "failed \(code)" + (text.map { " \($0)" } ?? "")
        }
      }
    }.joined(separator: " ")
  }
}
