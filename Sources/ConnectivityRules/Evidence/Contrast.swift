package import Connectivity

/// Another connection to the same host and port, by the same path (E2). If it was made after all
/// changes and its peer responds, the host and the path work, and a connection that stays silent is
/// dead. A value.
package struct Contrast: Hashable, Sendable {
  /// The state of a connection at its registration.
  package struct Made: Hashable, Sendable {
    package var time: Instant
    /// The number of bytes that its peer had acknowledged.
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

  /// Whether the peer has acknowledged data since the registration. A middlebox may accept a
  /// connection for it, so a handshake is not enough. A connection that has itself lost packets
  /// proves nothing.
  private var isHeard: Bool {
    self.made.time < self.lastHeard && self.made.progress < self.report.progress
      && !self.report.hasUnacknowledgedData && self.report.resent == 0
  }

  /// Whether a silent connection has sent its data again since this one was made, and got no
  /// answer.
  func shows(_ silent: SocketEvidence) -> Bool {
    guard self.isHeard, silent.change < self.made.time, let timeout = silent.lastTimeout else {
      return false
    }
    return self.made.time < timeout && self.lastChange.map { $0 < self.made.time } ?? true
  }
}
