package import Connectivity

/// Another connection to the same host and port, from the same address (E2). If it was made after a
/// change and its peer is heard, the host and the path work, and a connection that stays silent is
/// dead. A value.
package struct Contrast: Hashable, Sendable {
  /// When it was registered, just after it had been made.
  private var made: Instant
  /// When its peer was heard last.
  private var lastHeard: Instant
  private var report: SocketReport

  /// - Parameter now: When the kernel gave the report.
  package init(made: Instant, _ report: SocketReport, at now: Instant) {
    self.made = made
    self.lastHeard = now.advanced(by: .zero - report.silence)
    self.report = report
  }

  /// Whether the peer has acknowledged data. A box on the way may accept a connection for it, so
  /// the three-way handshake is not enough: it counts as one byte. A connection that has lost
  /// packets itself proves nothing.
  private var isHeard: Bool {
    self.report.progress > 1 && !self.report.hasUnacknowledgedData && self.report.resent == 0
  }

  /// Whether a silent connection has sent its data again since this one was made, without an
  /// answer.
  func shows(_ silent: SocketEvidence) -> Bool {
    self.isHeard && silent.change < self.made && silent.change < self.lastHeard
      && silent.lastTimeout.map { self.made < $0 } ?? false
  }
}
