import GRPCCore
import TestKit
import Testing
import UnixTransport

@testable import ConndServer

@Suite("Who may say what a network costs")
struct AuthorityTests {
  private func allows(
    _ peer: PeerCredentials, groups: String = "", seat: UInt32? = nil, polkit: Bool? = nil
  ) async throws -> Bool {
    let directory = try TemporaryDirectory()
    var authority = Authority()
    authority.ownUser = 990
    authority.groups = try directory.write(groups, to: "group")
    authority.userAtSeat = { seat }
    authority.askPolkit = { _ in polkit }
    do throws(RPCError) {
      try await authority.check(peer)
      return true
    } catch {
      #expect(error.code == .permissionDenied)
      return false
    }
  }

  @Test("root, connd itself, the user at the seat, and the group's members")
  func who() async throws {
    let user = PeerCredentials(uid: 1000, pid: 1, groups: [1000, 27])
    #expect(try await self.allows(PeerCredentials(uid: 0, pid: 1)))
    #expect(try await self.allows(PeerCredentials(uid: 990, pid: 1)))
    #expect(try await !self.allows(user))
    #expect(try await self.allows(user, seat: 1000))
    #expect(try await !self.allows(user, seat: 1001))
    #expect(try await self.allows(user, groups: "root:x:0:\nconnd:x:27:\n"))
    #expect(try await !self.allows(user, groups: "root:x:0:\nconnd:x:28:\nsudo:x:27:\n"))
  }

  @Test("where polkit is there, it decides, but not of root and of connd itself")
  func polkit() async throws {
    let user = PeerCredentials(uid: 1000, pid: 1, groups: [27])
    #expect(try await self.allows(user, polkit: true))
    #expect(
      try await !self.allows(user, groups: "connd:x:27:\n", seat: 1000, polkit: false))
    #expect(try await self.allows(PeerCredentials(uid: 0, pid: 1), polkit: false))
    #expect(try await self.allows(PeerCredentials(uid: 990, pid: 1), polkit: false))
  }

  @Test(
    "a file of groups that makes no sense lets nobody in",
    arguments: [
      "connd", "connd:x", "connd:x:", "connd:x:-1:", "connd:x:99999999999:", "::::", ":x:27:",
    ])
  func nonsense(groups: String) async throws {
    #expect(
      try await !self.allows(PeerCredentials(uid: 1000, pid: 1, groups: [27]), groups: groups))
  }
}
