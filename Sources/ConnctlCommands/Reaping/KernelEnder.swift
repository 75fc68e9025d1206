import Connectivity
import ConnectivityMonitor
import Glibc
import LinuxSupport
import Netlink
import Synchronization

/// Ends connections of any process by the kernel (`SOCK_DESTROY`, sock_diag(7)). Needs
/// CAP_NET_ADMIN.
///
/// Implements rules R4 to R6.
final class KernelEnder: ConnectionEnder {
  /// The connections that may be ended.
  struct Rules: Sendable {
    /// Empty: those of all users.
    var users: Set<UInt32> = []
    /// The names of systemd units. Empty: any unit.
    var units: Set<String> = []
    /// Ports of peers. Empty: any port but that of SSH.
    var ports: Set<UInt16> = []
    /// Whether connections may be ended that this machine has accepted.
    var includesAccepted = false
    /// Whether connections are only reported.
    var isDryRun = false
  }

  /// The kernel also ends connections of programs that cannot be accessed, so their peers are not
  /// asked.
  let question = PeerQuestion.none
  private let rules: Rules
  private let report: @Sendable (String) -> Void
  private let groups = Mutex(ControlGroups())
  private let count = Atomic(0)
  private let isForbidden = Atomic(false)

  init(_ rules: Rules, report: @escaping @Sendable (String) -> Void) {
    (self.rules, self.report) = (rules, report)
  }

  private static let ssh: UInt16 = 22

  func select(_ connections: [ReapableConnection]) -> [ReapableConnection] {
    let groups = ControlGroups.read()
    self.groups.withLock { $0 = groups }
    return connections.filter { connection in
      let ports = [connection.localPort, connection.remotePort]
      guard !connection.isSubflow, self.rules.includesAccepted || !connection.isAccepted,
        self.rules.users.isEmpty || self.rules.users.contains(connection.user),
        self.rules.ports.isEmpty
          ? !ports.contains(Self.ssh) : self.rules.ports.contains(connection.remotePort)
      else { return false }
      return self.rules.units.isEmpty
        || connection.controlGroup.map {
          groups.units(of: $0).contains(where: self.rules.units.contains)
        }
          ?? false
    }
  }

  func ask(_ connections: [ReapableConnection], on thread: ClientThread) async -> Int { 0 }

  func end(_ losses: [(ReapableConnection, Reaper.Loss)]) {
    guard !losses.isEmpty else { return }
    do throws(NetlinkError) {
      let kernel = try SocketDiagnosis(on: KernelSockets().open(.socketDiagnosis))
      // Before Linux 6.15, connd does not learn which connections are subflows.
      let subflows = try Self.subflows()
      for (connection, loss) in losses where !subflows.contains(connection.cookie) {
        try self.end(connection, loss, kernel)
      }
    } catch {
      self.report("cannot end connections: \(error)")
    }
  }

  private func end(
    _ connection: ReapableConnection, _ loss: Reaper.Loss, _ kernel: SocketDiagnosis
  ) throws(NetlinkError) {
    let unit = connection.controlGroup.flatMap { group in
      self.groups.withLock { $0.units(of: group).last }
    }
    let name = [unit, "uid \(connection.user)"].compactMap { $0 }.joined(separator: ", ")
    guard !self.rules.isDryRun else {
      self.report("would end \(name), \(connection.peer): \(loss.text)")
      return
    }
    do throws(NetlinkError) {
      try kernel.destroy(connection.destination, cookie: connection.cookie)
    } catch {
      // It has ended meanwhile.
      if error.code == ENOENT { return }
      throw error
    }
    let count = self.count.wrappingAdd(1, ordering: .relaxed).newValue
    self.report(
      "ended \(name), \(connection.peer): \(loss.text); destroyed (\(count) since the start)")
  }

  /// Returns the numbers of the sockets that are subflows of Multipath TCP.
  private static func subflows() throws(NetlinkError) -> Set<UInt64> {
    let dump = try SocketDump(.subflows)
    var cookies: Set<UInt64> = []
    while let part = try dump.next() { cookies.formUnion(part.map(\.cookie)) }
    return cookies
  }
}

extension ReapableConnection {
  fileprivate var destination: Destination {
    Destination(
      self.flow.remote, source: self.flow.local, transport: self.flow.transport)
  }
}
