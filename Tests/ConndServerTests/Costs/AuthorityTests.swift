import GRPCCore
import TestKit
import Testing
import UnixTransport

@testable import ConndServer

@Suite("Who may say what a network costs")
struct AuthorityTests {
  private func allows(_ peer: PeerCredentials, groups: String = "", seat: UInt32? = nil) throws
    -> Bool
  {
    let directory = try TemporaryDirectory()
    var authority = Authority()
    authority.ownUser = 990
    authority.groups = try directory.write(groups, to: "group")
    authority.userAtSeat = { seat }
    do throws(RPCError) {
      try authority.check(peer)
      return true
    } catch {
      #expect(error.code == .permissionDenied)
      return false
    }
  }

  @Test("root, connd itself, the user at the seat, and the group's members")
  func who() throws {
    let user = PeerCredentials(uid: 1000, pid: 1, groups: [1000, 27])
    #expect(try self.allows(PeerCredentials(uid: 0, pid: 1)))
    #expect(try self.allows(PeerCredentials(uid: 990, pid: 1)))
    #expect(try !self.allows(user))
    #expect(try self.allows(user, seat: 1000))
    #expect(try !self.allows(user, seat: 1001))
    #expect(try self.allows(user, groups: "root:x:0:\nconnd:x:27:\n"))
    #expect(try !self.allows(user, groups: "root:x:0:\nconnd:x:28:\nsudo:x:27:\n"))
  }

  @Test(
    "a file of groups that makes no sense lets nobody in",
    arguments: [
      "connd", "connd:x", "connd:x:", "connd:x:-1:", "connd:x:99999999999:", "::::", ":x:27:",
    ])
  func nonsense(groups: String) throws {
    #expect(try !self.allows(PeerCredentials(uid: 1000, pid: 1, groups: [27]), groups: groups))
  }
}
