import GRPCCore
import Glibc
import Systemd
import UnixTransport

/// Who may say what a link or a network costs: root and connd's own user, the members of a group, and the user who sits at the
/// machine. Everybody may look.
struct Authority: Sendable {
  /// The group's name.
  static let group = "connd"

  var ownUser: UInt32 = geteuid()
  var groups = "/etc/group"
  /// The user at the seat; `nil` where nobody is, or nobody knows.
  var userAtSeat: @Sendable () -> UInt32? = { Seat.activeUser }

  /// - Throws: PERMISSION_DENIED, in words for who asked.
  func check(_ peer: PeerCredentials) throws(RPCError) {
    if peer.uid == 0 || peer.uid == self.ownUser || peer.uid == self.userAtSeat() { return }
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
