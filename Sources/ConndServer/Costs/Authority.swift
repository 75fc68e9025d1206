import GRPCCore
import Glibc
import Systemd
import UnixTransport

/// Who may say what a link or a network costs. Everybody may look.
///
/// Root and connd's own user may, always. Of others polkit decides where it is there, by an action whose defaults allow the user who
/// sits at the machine. Elsewhere it is that user, and the members of a group.
struct Authority: Sendable {
  /// The group's name. The rule that comes with the action knows it, too.
  static let group = "connd"
  /// In `polkit/org.connd.policy`.
  static let action = "org.connd.set-cost"

  var ownUser: UInt32 = geteuid()
  var groups = "/etc/group"
  /// The user at the seat; `nil` where nobody is, or nobody knows.
  var userAtSeat: @Sendable () -> UInt32? = { Seat.activeUser }
  /// What polkit says; `nil` where it says nothing.
  var askPolkit: @Sendable (PeerCredentials) async throws(RPCError) -> Bool?

  init() {
    let desk = PolkitDesk(action: Self.action)
    self.askPolkit = { peer async throws(RPCError) in try await desk.answer(of: peer) }
  }

  /// - Throws: PERMISSION_DENIED, in words for who asked; RESOURCE_EXHAUSTED while too many ask.
  func check(_ peer: PeerCredentials) async throws(RPCError) {
    if peer.uid == 0 || peer.uid == self.ownUser { return }
    if let isAllowed = try await self.askPolkit(peer) {
      if isAllowed { return }
      throw RPCError(
        code: .permissionDenied,
        message: "polkit does not let this user change this (\(Self.action))")
    }
    if peer.uid == self.userAtSeat() { return }
    if let group = self.groupID, peer.groups.contains(group) { return }
    throw RPCError(
      code: .permissionDenied,
      message:
        "only root, members of the group “\(Self.group)” and the user at the machine's seat may change this"
    )
  }

  /// Read from the file itself: a directory service that hangs keeps nobody waiting.
  private var groupID: UInt32? {
    guard let bytes = try? contents(of: self.groups, most: 1 << 20) else { return nil }
    let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n")
    let fields = lines.lazy.map { $0.split(separator: ":", omittingEmptySubsequences: false) }
    return fields.first { $0.first.map { $0 == Self.group } ?? false }
      .flatMap { $0.count > 2 ? UInt32($0[2]) : nil }
  }
}
