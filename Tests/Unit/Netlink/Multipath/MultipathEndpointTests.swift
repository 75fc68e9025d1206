import CLinux
import Connectivity
import TestKit
import Testing

@testable import Netlink

/// Messages of `mptcp_pm`, compared with those of `ip mptcp endpoint` on Linux 6.18.
@Suite("Multipath TCP's endpoints")
struct MultipathEndpointTests {
  private let family = GenericFamily(name: "mptcp_pm", id: 28)

  private func endpoint(id: UInt8 = 0, _ flags: MultipathEndpoint.Flags) throws -> MultipathEndpoint
  {
    MultipathEndpoint(id: id, try address("10.1.0.2"), link: 1, flags)
  }

  @Test("M2 the request to add an endpoint has the bytes of ip mptcp endpoint add")
  func add() throws {
    var request = MultipathRequester.adding(try self.endpoint([.subflow, .backup]), self.family)
    let expected = Capture(
      """
      38000000 | nlmsg_len 56
      1c00 | nlmsg_type mptcp_pm
      0500 | nlmsg_flags NLM_F_REQUEST, NLM_F_ACK
      07000000 | nlmsg_seq 7
      00000000 | nlmsg_pid 0
      01010000 | cmd MPTCP_PM_CMD_ADD_ADDR, version 1
      24000180 | MPTCP_PM_ATTR_ADDR, nested
      0800060006000000 | flags subflow, backup
      0800070001000000 | link 1
      0600010002000000 | family AF_INET
      080003000a010002 | address 10.1.0.2
      """)
    #expect(Array(request.bytes(sequence: 7)) == expected.bytes)
  }

  @Test("M2 the kernel's answer about an endpoint is parsed")
  func read() throws {
    let capture = Capture(
      """
      48000000 | nlmsg_len 72
      1c00 | nlmsg_type mptcp_pm
      0200 | nlmsg_flags NLM_F_MULTI
      00000000f0440000 | nlmsg_seq, nlmsg_pid
      03010000 | cmd MPTCP_PM_CMD_GET_ADDR, version 1
      34000180 | MPTCP_PM_ATTR_ADDR, nested
      0600010002000000 | family AF_INET
      0600050000000000 | port 0
      0500020001000000 | id 1
      0800060006000000 | flags subflow, backup
      0800070001000000 | link 1
      080003000a010002 | address 10.1.0.2
      """)
    let endpoint = try withMessage(capture.bytes) { MultipathEndpoint(message: $0) }
    #expect(try endpoint == self.endpoint(id: 1, [.subflow, .backup]))
    for count in 0..<capture.bytes.count {
      for isConsistent in [false, true] {
        let bytes = capture.truncated(to: count, isConsistent: isConsistent)
        let read = try? withMessage(bytes) { MultipathEndpoint(message: $0) }
        #expect(read == nil || read == .some(nil), "\(count) bytes")
      }
    }
  }

  @Test("M2 a request to delete names the endpoint by its number, and first subflows by address")
  func delete() throws {
    var request = MultipathRequester.deleting(3, try address("10.1.0.2"), self.family)
    #expect(
      Array(request.bytes(sequence: 0).dropFirst(20))
        == Capture("0c00018005000200030000 | id 3\n00").bytes)
    var first = MultipathRequester.deleting(0, try address("2001:db8::2"), self.family)
    #expect(
      Array(first.bytes(sequence: 0).dropFirst(20))
        == Capture(
          """
          28000180 | MPTCP_PM_ATTR_ADDR, nested
          0500020000000000 | id 0
          060001000a000000 | family AF_INET6
          1400040020010db8000000000000000000000002 | address
          """
        ).bytes)
  }

  @Test(
    "M2 endpoints are added, flagged and deleted → the kernel lists them so",
    .enabled(
      if: NetworkNamespace.isEnabled, "network namespaces: \(NetworkNamespace.obstacle ?? "")"))
  func kernel() throws {
    let namespace = try NetworkNamespace()
    let requester = try namespace.perform { try MultipathRequester() }
    #expect(try requester.endpoints().isEmpty)
    for text in ["10.1.0.2", "2001:db8::2"] {
      try requester.add(MultipathEndpoint(try address(text), link: 1, [.subflow, .backup]))
      let made = try #require(try requester.endpoints().first)
      #expect(made.address == (try address(text)) && made.link == 1 && made.id != 0)
      #expect(made.flags == [.subflow, .backup])
      try requester.setBackup(false, of: made)
      #expect(try requester.endpoints().first?.flags == .subflow)
      try requester.delete(made)
      #expect(try requester.endpoints().isEmpty)
      // Deleted again, as after a change by another program.
      try requester.delete(made)
    }
  }
}
