import CLinux
import Connectivity
import Glibc
import TestKit
import TestTraits
import Testing

@testable import Netlink

/// A kernel that does not answer, or whose answer changes while it is read.
@Suite(
  "Missing answers",
  .enabled(if: NetworkNamespace.isEnabled, "network namespaces: \(NetworkNamespace.obstacle ?? "")")
)
struct UnansweredTests {
  @Test("D8 a silent socket is an error in time, and may answer again later")
  func silence() throws {
    let namespace = try NetworkNamespace()
    let requester = try namespace.perform { try Requester(timeout: .milliseconds(50)) }
    let destinations = try ["127.0.0.1", "127.0.0.2"].map { Destination(try address($0)) }
    let answers = try requester.routes(to: destinations)

    // The kernel sends the answers, and only the socket loses them.
    var drop = sock_filter(code: UInt16(BPF_RET | BPF_K), jt: 0, jf: 0, k: 0)
    withUnsafeMutablePointer(to: &drop) { drop in
      #expect(requester.socket.setSocket(SO_ATTACH_FILTER, sock_fprog(len: 1, filter: drop)))
    }
    #expect(self.errno { () throws(NetlinkError) in try requester.link(index: 1) } == ETIMEDOUT)
    #expect(self.errno { () throws(NetlinkError) in try requester.links() } == ETIMEDOUT)
    #expect(
      self.errno { () throws(NetlinkError) in try requester.routes(to: destinations) } == ETIMEDOUT)

    #expect(requester.socket.setSocket(SO_DETACH_FILTER, CInt(0)))
    #expect(try requester.link(index: 1)?.name == "lo")
    #expect(try requester.links().map(\.name) == ["lo"])
    #expect(try requester.routes(to: destinations) == answers)
  }

  private func outcome<Answer>(
    _ ask: () throws(NetlinkError) -> Answer
  ) -> Result<Answer, NetlinkError> {
    Result { () throws(NetlinkError) in try ask() }
  }

  private func errno<Answer>(_ ask: () throws(NetlinkError) -> Answer) -> CInt? {
    switch self.outcome(ask) {
    case .success: nil
    case .failure(let error): error.code
    }
  }

  @Test(
    "D8 a dump that changes while it is read is repeated until it is complete, or an error",
    .blocking)
  func interruptedDumps() throws {
    let namespace = try NetworkNamespace()
    try namespace.ip("link add ve0 index 10 type veth peer name ve1 index 21")
    // More than a datagram holds, so that the list can change between two.
    let lasting = (0..<2_000).map { "10.\($0 / 250).\($0 % 250).1" }
    try namespace.ipBatch(lasting.map { "addr add \($0)/32 dev ve0" })
    let requester = try namespace.perform { try Requester() }
    let churn = (0..<20_000).flatMap {
      ["addr add 10.99.0.\($0 % 250)/32 dev ve0", "addr del 10.99.0.\($0 % 250)/32 dev ve0"]
    }
    let directory = try TemporaryDirectory()
    let batch = try directory.write(churn.joined(separator: "\n") + "\n", to: "batch")
    let storm = try namespace.spawn(["ip", "-batch", batch])

    // A socket that takes whatever it gets sees that the kernel does interrupt dumps.
    let socket = try namespace.perform { try NetlinkSocket(nonBlocking: false) }
    try socket.bind()
    while try !self.isDumpInterrupted(socket) {}

    let expected = Set(try lasting.map(address))
    var (whole, interrupted) = (0, 0)
    while whole + interrupted < 100 {
      switch self.outcome({ () throws(NetlinkError) in try requester.addresses(on: 10) }) {
      case .success(let found):
        let addresses = found.map(\.address).filter { $0.family == .ipv4 }
        #expect(expected.isSubset(of: addresses))
        #expect(Set(addresses).count == addresses.count, "one is there twice")
        whole += 1
      case .failure(let error):
        #expect(error.code == EINTR)
        interrupted += 1
      }
    }
    storm.signal(SIGKILL)
    try storm.wait()
    print("of dumps under churn \(whole) were whole at last, \(interrupted) were given up")
    #expect(expected.isSubset(of: try requester.addresses(on: 10).map(\.address)))
  }

  private func isDumpInterrupted(_ socket: NetlinkSocket) throws -> Bool {
    var header = ifaddrmsg()
    header.ifa_family = UInt8(AF_INET)
    var request = Request(Int(RTM_GETADDR), "RTM_GETADDR", isDump: true, header: header)
    let bytes = request.bytes(sequence: 1)
    try socket.send(bytes, operation: "RTM_GETADDR")
    var exchange = Exchange(isDump: true)
    while case .datagram(let datagram) = socket.receive() {
      var messages = MessageReader(datagram)
      while let message = messages.next() {
        switch exchange.receive(message) {
        case .object, .nothing: continue
        case .interrupted: return true
        case .complete: return false
        case .failed(let code, _): throw NetlinkError(operation: "RTM_GETADDR", code: code)
        }
      }
    }
    throw NetlinkError(operation: "RTM_GETADDR", code: EBADMSG)
  }
}
