import Connectivity
import Testing

@testable import ConndMultipath
@testable import Netlink

@Suite("Subflows of connections")
struct SubflowTests {
  /// A subflow's socket, by link 1 or 2.
  private struct Socket: Sendable {
    var link: UInt8
    var inode: UInt64 = 0
    var token: UInt32?
  }

  private struct Row: Sendable, CustomTestStringConvertible {
    var name: String
    var sockets: [Socket]
    var isDeleted: Bool
    var testDescription: String { self.name }
  }

  private static let rows: [Row] = [
    Row(
      name: "a connection has two subflows",
      sockets: [Socket(link: 1, inode: 7, token: 9), Socket(link: 2, inode: 7, token: 9)],
      isDeleted: true),
    Row(
      name: "the process has closed the connection, and it has two subflows",
      sockets: [Socket(link: 1, token: 9), Socket(link: 2, token: 9)], isDeleted: true),
    Row(
      name: "the process closes the connection during the dump",
      sockets: [Socket(link: 1, token: 9), Socket(link: 2, inode: 7, token: 9)], isDeleted: true),
    Row(
      name: "two closed connections have one subflow each",
      sockets: [Socket(link: 1, token: 8), Socket(link: 2, token: 9)], isDeleted: false),
    Row(
      name: "the kernel reports no tokens",
      sockets: [Socket(link: 1, inode: 7), Socket(link: 2, inode: 7)], isDeleted: true),
    Row(
      name: "two connections fell back before they had tokens",
      sockets: [Socket(link: 1, inode: 7), Socket(link: 2, inode: 8)], isDeleted: false),
    Row(
      name: "two closed connections fell back before they had tokens",
      sockets: [Socket(link: 1), Socket(link: 2)], isDeleted: false),
  ]

  @Test(
    "M6 link 1 is lost → its endpoint is deleted if each connection has a subflow by link 2",
    arguments: rows)
  private func connections(row: Row) throws {
    func address(_ link: UInt8) throws -> IPAddress {
      try #require(IPAddress(bytes: [10, link, 0, 2]))
    }
    let remote = try #require(IPAddress("203.0.113.9"))
    let subflows = try row.sockets.map { socket in
      let connection = OpenConnection(
        destination: Destination(remote, source: try address(socket.link)), inode: socket.inode,
        report: SocketReport(silence: .zero, roundTrip: .milliseconds(1)), isSubflow: true,
        token: socket.token)
      return try #require(EndpointPlan.Subflow(connection))
    }
    let lost = MultipathEndpoint(id: 1, try address(1), link: 1, [.subflow, .backup])
    let other = MultipathEndpoint(id: 2, try address(2), link: 2, .subflow)
    let plan = EndpointPlan(
      [
        Uplink(link: 1, .lost),
        Uplink(link: 2, .usable(try address(2), isFree: true), isDefault: true),
      ], [lost, other], own: [lost.asMade, other.asMade], subflows: subflows)
    #expect(plan.actions == (row.isDeleted ? [.delete(lost)] : []))
    #expect(plan.mustLookAgain == !row.isDeleted)
  }
}
