import Connectivity
import ConnectivityRules
import LinuxSupport

/// A guarded flow and the state of its evaluation. A class, because it is large and most
/// evaluations change nothing.
final class GuardedFlow {
  let key: FlowTable.Key
  let account: Account
  var machine: FlowMachine
  /// The cause of the pending query to the flow's socket.
  var examinedCause: ChangeCause?
  /// The path that the client received last.
  var reported: KernelPath {
    didSet { if self.reported.isOther(than: oldValue) { self.hasMoved = true } }
  }
  /// Whether the flow's path has changed since the last inquiry (E2).
  var hasMoved = false
  /// The number of the last step for which the flow was evaluated.
  var seen: UInt64
  /// Whether the flow is due without a step: its grace period is over, or a quality has changed.
  var isOverdue = false
  /// Whether the flow had no path at registration, and has had none since (I11).
  var isDoubted: Bool
  /// The time and progress at registration, or `nil` unless the connection was new while other
  /// flows were in doubt.
  var made: Contrast.Made?
  /// When the client last reported that it heard from the flow's peer, or `nil` if never.
  var heard: Instant?
  /// The flow's index in the table.
  var place: Int

  init(
    _ key: FlowTable.Key, of account: Account, _ machine: FlowMachine, reported: KernelPath,
    isDoubted: Bool, seen: UInt64, place: Int
  ) {
    self.key = key
    self.account = account
    self.machine = machine
    self.reported = reported
    self.isDoubted = isDoubted
    self.seen = seen
    self.place = place
  }

  /// The addresses with routes that matter: the remote address, and the flow's own address, because
  /// a route alone may make it local (AnyIP).
  var addresses: [IPAddress] {
    [self.flow.destination.address] + (self.flow.local.map { [$0] } ?? [])
  }

  /// The host, and everything else that is common to connections on the same path.
  struct Host: Hashable, Sendable {
    var account: Account
    var destination: Destination
  }

  var host: Host {
    var destination = self.tracker.question
    destination.transport?.localPort = 0
    return Host(account: self.account, destination: destination)
  }

  var socket: Destination { self.tracker.question.socket }

  /// Returns the evidence of this flow against silent flows to its host (*contrast* in E2), or
  /// `nil` if this flow was not new.
  func contrast(_ report: SocketReport?, lastChange: Instant?, at now: Instant) -> Contrast? {
    guard let made, let report else { return nil }
    return Contrast(made, report, lastChange: lastChange, at: now)
  }

  var user: AccountUser { AccountUser(self.flow.destination.uid, of: self.account) }
  var flow: Flow { self.machine.flow }
  var tracker: FlowTracker { self.machine.tracker }
}

extension KernelPath {
  /// Whether packets take another path.
  fileprivate func isOther(than other: KernelPath) -> Bool {
    self.status != other.status || self.chain != other.chain || self.gateway != other.gateway
      || self.table != other.table || self.source != other.source
  }
}
