import GRPCCore
import Glibc
import Systemd
import UnixTransport

/// Decides which users may set the cost of a link or a network. All users may read it.
///
/// Root and connd's own user are always allowed. For other users polkit decides. By default, its
/// action allows the user at the machine's seat. On a machine without polkit, connd allows that
/// user and the members of a group.
struct CostAuthorization: Sendable {
  /// The group of users that may set costs without polkit. The polkit rule also names this group.
  static let group = "connd"
  /// The polkit action, which `packaging/polkit/org.connd.policy` defines.
  static let action = "org.connd.set-cost"

  var ownUser: UInt32 = geteuid()
  var members: GroupFile
  /// Returns the user at the seat, or `nil` if no user is there or logind is absent.
  var userAtSeat: @Sendable () -> UInt32? = { Seat.activeUser }
  var askPolkit:
    @Sendable (PeerCredentials, _ isLikely: Bool) async throws(RPCError) -> Polkit.Verdict

  init(members: GroupFile = GroupFile(name: Self.group)) {
    let desk = PolkitClient(action: Self.action)
    self.members = members
    self.askPolkit = { peer, isLikely async throws(RPCError) in
      try await desk.verdict(on: peer, isLikely: isLikely)
    }
  }

  /// - Throws: PERMISSION_DENIED with a reason for the caller, UNAVAILABLE if polkit has not
  ///   decided, or RESOURCE_EXHAUSTED while it has too many pending queries.
  func check(_ peer: PeerCredentials) async throws(RPCError) {
    if peer.uid == 0 || peer.uid == self.ownUser { return }
    // polkit receives a PID, which may be reused. So the process that connected must still be alive
    // after the answer.
    let process = peer.process?.open()
    let isAllowedHere = await self.isAtSeatOrMember(peer)
    let verdict = try await self.askPolkit(peer, isAllowedHere)
    if verdict == .absent {
      if isAllowedHere { return }
      throw RPCError(
        code: .permissionDenied,
        message:
          "only root, members of the group “\(Self.group)” and the user at the machine's seat may set costs"
      )
    }
    guard let process, peer.pid > 0, process.isAlive else {
      throw RPCError(
        code: .permissionDenied,
        message:
          "the process that connected has exited or is in another PID namespace, so polkit cannot decide (\(Self.action))"
      )
    }
    switch verdict {
    case .allowed, .absent: return
    case .denied:
      throw RPCError(
        code: .permissionDenied,
        message: "polkit does not allow this user to set costs (\(Self.action))")
    case .unavailable(let why):
      throw RPCError(
        code: .unavailable,
        message: "polkit cannot decide (\(Self.action)): \(why); try again, or ask as root")
    }
  }

  private func isAtSeatOrMember(_ peer: PeerCredentials) async -> Bool {
    if peer.uid == self.userAtSeat() { return true }
    guard let group = await self.members.id() else { return false }
    return peer.groups.contains(group)
  }
}
