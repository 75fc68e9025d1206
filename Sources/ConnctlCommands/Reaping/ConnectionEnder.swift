import Connectivity
import ConnectivityMonitor

/// Finds out which connections may be ended, and ends them.
protocol ConnectionEnder: Sendable {
  /// How connd may have a peer asked (E4).
  var question: PeerQuestion { get }

  /// Returns the connections of the list that may be ended.
  func select(_ connections: [ReapableConnection]) -> [ReapableConnection]

  /// Asks the peers of connections by keepalive probes, and returns when all answers are in (R3).
  ///
  /// - Parameter thread: The thread whose timers end the probes.
  func ask(_ connections: [ReapableConnection], on thread: ClientThread) async

  /// Ends connections, and reports each one.
  func end(_ losses: [(ReapableConnection, Reaper.Loss)])
}
