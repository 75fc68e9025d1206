import GRPCCore
import Glibc
import LinuxSupport
import Systemd
import TestKit
import Testing

@testable import ConndServer
@testable import UnixTransport

@Suite("Authorization of overrides")
struct CostAuthorizationTests {
  private let directory: TemporaryDirectory

  init() throws { self.directory = try TemporaryDirectory() }

  /// The peer of a connection that a process started by this one made.
  private func peer(
    _ uid: UInt32, groups: [UInt32] = [], process: ProcessReference? = ProcessReference(getpid())
  ) -> PeerCredentials {
    PeerCredentials(
      uid: uid, pid: getpid(), groups: groups, process: process.map { PeerProcess($0) })
  }

  /// The refusal, or `nil` if the peer is authorized.
  private func refusal(
    of peer: PeerCredentials, groups: String = "", seat: UInt32? = nil,
    polkit: @escaping @Sendable (_ isLikely: Bool) -> Polkit.Verdict
  ) async throws -> RPCError.Code? {
    let file = GroupFile(
      name: CostAuthorization.group, path: try self.directory.write(groups, to: "group"))
    var authority = CostAuthorization(members: file)
    authority.ownUser = 990
    authority.userAtSeat = { seat }
    authority.askPolkit = { polkit($1) }
    do throws(RPCError) {
      try await authority.check(peer)
      return nil
    } catch {
      return error.code
    }
  }

  private func refusal(
    of peer: PeerCredentials, groups: String = "", seat: UInt32? = nil, _ verdict: Polkit.Verdict
  ) async throws -> RPCError.Code? {
    try await self.refusal(of: peer, groups: groups, seat: seat) { _ in verdict }
  }

  @Test(
    "no polkit → root, connd itself, the user at the seat and the group's members are authorized")
  func who() async throws {
    let user = self.peer(1000, groups: [1000, 27])
    #expect(try await self.refusal(of: self.peer(0), .absent) == nil)
    #expect(try await self.refusal(of: self.peer(990), .absent) == nil)
    #expect(try await self.refusal(of: user, .absent) == .permissionDenied)
    #expect(try await self.refusal(of: user, seat: 1000, .absent) == nil)
    #expect(try await self.refusal(of: user, seat: 1001, .absent) == .permissionDenied)
    let group = "root:x:0:\nconnd:x:27:\n"
    #expect(try await self.refusal(of: user, groups: group, .absent) == nil)
    // connd's own rule is about users, so that their processes may be gone.
    #expect(
      try await self.refusal(
        of: self.peer(1000, groups: [27], process: nil), groups: group, .absent)
        == nil)
    let others = "root:x:0:\nconnd:x:28:\nsudo:x:27:\nconnd2:x:27:\n"
    #expect(try await self.refusal(of: user, groups: others, .absent) == .permissionDenied)
  }

  @Test("polkit is there → polkit decides, except for root and connd itself")
  func polkit() async throws {
    let user = self.peer(1000, groups: [27])
    #expect(try await self.refusal(of: user, .allowed) == nil)
    #expect(
      try await self.refusal(of: user, groups: "connd:x:27:\n", seat: 1000, .denied)
        == .permissionDenied)
    #expect(try await self.refusal(of: self.peer(0), .denied) == nil)
    #expect(try await self.refusal(of: self.peer(990), .denied) == nil)
  }

  @Test("polkit is there and does not decide → UNAVAILABLE, even at the seat and in the group")
  func undecided() async throws {
    let user = self.peer(1000, groups: [27])
    #expect(
      try await self.refusal(
        of: user, groups: "connd:x:27:\n", seat: 1000, .unavailable("it hangs"))
        == .unavailable)
  }

  @Test("the process has exited before polkit's yes → PERMISSION_DENIED")
  func exited() async throws {
    let child = try RunningCommand(["sleep", "infinity"])
    let reference = ProcessReference(child.processIdentifier)
    // It exits while polkit checks its pid.
    let refusal = try await self.refusal(of: self.peer(1000, process: reference)) { _ in
      kill(child.processIdentifier, SIGKILL)
      while reference?.isAlive ?? false { sched_yield() }
      return .allowed
    }
    #expect(refusal == .permissionDenied)
    #expect(
      try await self.refusal(of: self.peer(1000, process: nil), .allowed) == .permissionDenied)
    // A process of another PID namespace has no pid that polkit could check.
    var foreign = self.peer(1000)
    foreign.pid = 0
    #expect(try await self.refusal(of: foreign, .allowed) == .permissionDenied)
    _ = try? child.wait()
  }

  @Test("polkit is asked first about users whom connd's own rule would authorize")
  func likely() async throws {
    for (seat, groups, isExpected) in [
      (1000, "", true), (nil, "connd:x:27:\n", true), (1001, "connd:x:28:\n", false),
    ] as [(UInt32?, String, Bool)] {
      let refusal = try await self.refusal(
        of: self.peer(1000, groups: [27]), groups: groups, seat: seat
      ) { $0 == isExpected ? .allowed : .denied }
      #expect(refusal == nil)
    }
  }

  @Test(
    "a malformed group file authorizes no user",
    arguments: [
      "connd", "connd:x", "connd:x:", "connd:x:-1:", "connd:x:99999999999:", "::::", ":x:27:",
    ])
  func nonsense(groups: String) async throws {
    #expect(
      try await self.refusal(of: self.peer(1000, groups: [27]), groups: groups, .absent)
        == .permissionDenied)
  }

  @Test("D4 the group file is read again only after it has changed")
  func groups() async throws {
    let path = try self.directory.write("connd:x:27:\n", to: "group")
    let file = GroupFile(name: "connd", path: path)
    #expect(await file.id() == 27)
    // Another file, of the same length.
    try self.directory.write("connd:x:28:\n", to: "new")
    #expect(rename("\(self.directory.path)/new", path) == 0)
    #expect(await file.id() == 28)
    // A look-up does not read the file: it would fail without permission.
    #expect(unlink(path) == 0)
    #expect(await file.id() == nil)
  }
}
