package import Connectivity

/// A second connection of the user to the host and port of a silent flow, by the same path (E2). If
/// that connection was made after all changes and its peer responds, the host and the path work, so
/// the silent flow is dead.
package struct Contrast: Hashable, Sendable {
  /// The state of a connection at its registration.
  package struct Made: Hashable, Sendable {
    package var time: Instant
    /// The number of bytes that the connection's peer had acknowledged.
    package var progress: UInt64

    package init(at time: Instant, progress: UInt64) {
      (self.time, self.progress) = (time, progress)
    }
  }

  private var made: Made
  /// When the connection last received anything.
  private var lastHeard: Instant
  /// When a change last occurred that may have ended a path.
  private var lastChange: Instant?
  private var report: SocketReport

  /// - Parameter now: When the kernel gave the report.
  package init(_ made: Made, _ report: SocketReport, lastChange: Instant?, at now: Instant) {
    self.made = made
    self.lastHeard = now.advanced(by: .zero - report.silence)
    self.lastChange = lastChange
    self.report = report
  }

  /// Whether the peer has acknowledged data since the registration. A handshake is not enough,
  /// because a middlebox may accept a connection for the peer. A connection that has itself lost
  /// packets proves nothing.
  private var isHeard: Bool {
    self.made.time < self.lastHeard && self.made.progress < self.report.progress
      && !self.report.hasUnacknowledgedData && self.report.resent == 0
  }

  /// Whether the connection proves a silent flow dead: the connection works, and since it was made
  /// the flow has sent its data again without an answer.
  func shows(_ silent: SocketEvidence) -> Bool {
    guard self.isHeard, silent.change < self.made.time, let timeout = silent.lastTimeout else {
      return false
    }
    return self.made.time < timeout && self.lastChange.map { $0 < self.made.time } ?? true
  }
}
