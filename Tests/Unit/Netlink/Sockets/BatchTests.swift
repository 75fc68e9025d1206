import CLinux
import Glibc
import Testing

@testable import Netlink

@Suite("Batches of requests")
struct BatchTests {
  private typealias Answers = Batch<[UInt8]>

  private func receive(_ batch: inout Answers, _ message: MessageBuilder) throws {
    try withMessage(message.bytes) { batch.receive($0) { $0.payload.array } }
  }

  private func object(_ sequence: UInt32, _ payload: [UInt8]) -> MessageBuilder {
    MessageBuilder(type: Int(RTM_NEWROUTE), sequence: sequence, header: payload)
  }

  private func error(_ sequence: UInt32, _ code: CInt) -> MessageBuilder {
    MessageBuilder(
      type: Int(NLMSG_ERROR), flags: Int(NLM_F_CAPPED), sequence: sequence,
      header: raw(-code) + Array(repeating: 0, count: 16))
  }

  private func failure(_ code: CInt) -> Result<[UInt8], NetlinkError> {
    .failure(.answer("RTM_GETROUTE", code))
  }

  @Test("Answers are matched by their sequence numbers, in any order, even when the numbers wrap")
  func order() throws {
    var batch = Answers("RTM_GETROUTE", first: .max, count: 3)
    try self.receive(&batch, self.object(1, [1, 1, 1, 1]))
    try self.receive(&batch, self.object(.max, [2, 2, 2, 2]))
    #expect(!batch.isComplete)
    try self.receive(&batch, self.object(0, [3, 3, 3, 3]))
    #expect(batch.isComplete)
    #expect(
      batch.answers == [.success([2, 2, 2, 2]), .success([3, 3, 3, 3]), .success([1, 1, 1, 1])])
  }

  @Test("An error for one request does not affect the others")
  func error() throws {
    var batch = Answers("RTM_GETROUTE", first: 7, count: 2)
    try self.receive(&batch, self.error(7, ENETUNREACH))
    try self.receive(&batch, self.object(8, [1, 1, 1, 1]))
    #expect(batch.isComplete)
    #expect(batch.answers == [self.failure(ENETUNREACH), .success([1, 1, 1, 1])])
  }

  @Test("D8 answers to other requests and second answers are ignored")
  func foreign() throws {
    var batch = Answers("RTM_GETROUTE", first: 7, count: 2)
    try self.receive(&batch, self.object(6, [9, 9, 9, 9]))
    try self.receive(&batch, self.object(9, [9, 9, 9, 9]))
    try self.receive(&batch, self.object(8, [1, 1, 1, 1]))
    try self.receive(&batch, self.error(8, EINVAL))
    #expect(!batch.isComplete)
    #expect(batch.answers == [nil, .success([1, 1, 1, 1])])
  }

  @Test("D8 an unreadable or missing answer is an error of that request")
  func unreadable() throws {
    var batch = Answers("RTM_GETROUTE", first: 7, count: 2)
    try withMessage(self.object(7, [1, 1, 1, 1]).bytes) { batch.receive($0) { _ in nil } }
    try self.receive(&batch, self.error(8, 0))
    #expect(batch.answers == [self.failure(EBADMSG), self.failure(EBADMSG)])
  }
}
