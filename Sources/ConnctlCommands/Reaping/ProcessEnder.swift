import Connectivity
import ConnectivityMonitor
import Glibc
import LinuxSupport
import Synchronization

/// Ends connections of this process's descendants. Needs no privileges, as far as the kernel's
/// security modules let a process access its descendants (ptrace(2), Yama).
///
/// Implements rules R3 to R6.
final class ProcessEnder: ConnectionEnder {
  private struct State {
    var descriptors: [UInt64: [ProcessTree.Descriptor]] = [:]
    /// The processes that were reported as inaccessible.
    var reported: Set<Int> = []
  }

  let question = PeerQuestion.keepalive
  private let root: Int
  private let report: @Sendable (String) -> Void
  private let state = Mutex(State())

  /// - Parameter report: Receives one line for each ended connection, and for each process that
  ///   cannot be accessed.
  init(root: Int = Int(getpid()), report: @escaping @Sendable (String) -> Void) {
    (self.root, self.report) = (root, report)
  }

  func select(_ connections: [ReapableConnection]) -> [ReapableConnection] {
    var hidden: [(Int, CInt)] = []
    let descriptors = ProcessTree.sockets(ofDescendantsOf: self.root) { hidden.append(($0, $1)) }
    self.state.withLock { state in
      state.descriptors = descriptors
      // Numbers of ended processes may be used again.
      state.reported.formIntersection(
        descriptors.values.joined().map(\.process) + hidden.map(\.0))
    }
    for (process, code) in hidden { self.obstacle(process, code) }
    return connections.filter {
      descriptors[$0.inode] != nil && !$0.isSubflow && !$0.isAccepted
    }
  }

  func ask(_ connections: [ReapableConnection], on thread: ClientThread) async -> Int {
    var probes: [(ReapableConnection, KeepaliveProbe)] = connections.compactMap { connection in
      guard let probe = self.hold(connection).flatMap({ KeepaliveProbe(on: $0.socket) }) else {
        return nil
      }
      return (connection, probe)
    }
    var elapsed = Duration.zero
    for time in KeepaliveProbe.repeats {
      try? await thread.sleep(for: time - elapsed)
      elapsed = time
      for place in probes.indices {
        if let socket = self.hold(probes[place].0)?.socket { probes[place].1.repeat(on: socket) }
      }
    }
    // Even if this task is cancelled, the options are restored.
    try? await thread.sleep(for: KeepaliveProbe.time - elapsed)
    for (connection, probe) in probes {
      if let socket = self.hold(connection)?.socket { probe.end(on: socket) }
    }
    return probes.count
  }

  func end(_ losses: [(ReapableConnection, Reaper.Loss)]) {
    for (connection, loss) in losses {
      guard let (socket, process) = self.hold(connection) else { continue }
      let ending = socket.end(link: loss.link?.index)
      self.report(
        "ended \(Self.name(of: process)), \(connection.peer): \(loss.text); \(ending.rawValue)")
    }
  }

  private func hold(_ connection: ReapableConnection) -> (socket: HeldSocket, process: Int)? {
    for descriptor in self.state.withLock({ $0.descriptors[connection.inode] ?? [] }) {
      do throws(HeldSocket.Obstacle) {
        return (try HeldSocket(descriptor, cookie: connection.cookie), descriptor.process)
      } catch {
        if case .forbidden(let code) = error { self.obstacle(descriptor.process, code) }
      }
    }
    return nil
  }

  /// Reports once that a process cannot be accessed.
  private func obstacle(_ process: Int, _ code: CInt) {
    guard self.state.withLock({ $0.reported.insert(process).inserted }) else { return }
    self.report(
      "cannot end connections of \(Self.name(of: process)): \(SystemError(code))")
  }

  private static func name(of process: Int) -> String {
    "\(ProcessName.read(process) ?? "process") (\(process))"
  }
}

extension Reaper.Loss {
  /// The text `interface lost on eth0; the other path is by wlan0`.
  var text: String {
    let link = self.link.map { " on \($0.name)" } ?? ""
    let way = self.way?.chain.first.map { "the other path is by \($0.name)" } ?? "no other path"
    return "\(self.reason.rawValue.separatedWords)\(link); \(way)"
  }
}
