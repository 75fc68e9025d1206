import Connectivity
import ConnectivityRules
import LinuxSupport

/// A guarded flow and the state of its evaluation. It is an object because it is large, and most
/// evaluations change nothing.
final class GuardedFlow {
  let key: FlowTable.Key
  let account: Account
  var machine: FlowMachine
  /// The cause of the pending query to its socket.
  var examinedCause: ChangeCause?
  /// The path that the client received last.
  var reported: KernelPath {
    didSet { if self.reported.isOther(than: oldValue) { self.hasMoved = true } }
  }
  /// Whether its path has changed since it was asked after a change.
  var hasMoved = false
  /// The number of the last step that it was evaluated for.
  var seen: UInt64
  /// Whether its grace period is over.
  var isOverdue = false
  /// Whether it had no path when it was made, and has had none since (I11).
  var isDoubted: Bool
  /// Its registration, if it had just been made while other flows were in doubt.
  var made: Contrast.Made?
  /// Its index in the table.
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

  /// The addresses whose routes matter: the remote one and its own, which a route alone may make
  /// local (AnyIP).
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

  /// Compares others with this connection, if it was registered when it was made.
  func contrast(_ report: SocketReport?, lastChange: Instant?, at now: Instant) -> Contrast? {
    guard let made, let report else { return nil }
    return Contrast(made, report, lastChange: lastChange, at: now)
  }

  var flow: Flow { self.machine.flow }
  var tracker: FlowTracker { self.machine.tracker }
}

extension KernelPath {
  /// Whether packets take another way.
  fileprivate func isOther(than other: KernelPath) -> Bool {
    self.status != other.status || self.chain != other.chain || self.gateway != other.gateway
      || self.table != other.table || self.source != other.source
  }
}
