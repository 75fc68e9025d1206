package import Connectivity

extension InvalidationPolicy {
  /// The minimum length of a sleep that destroys connections instead of making them suspect (I6).
  /// NATs commonly forget a connection after five silent minutes.
  package static let longSleep = Duration.seconds(300)

  /// How long a modem may be suspended before its connections are destroyed. Connections survive a
  /// phone call (I0), and TCP gives up after about the same time (tcp_retries2).
  package static let suspension = Duration.seconds(900)

  /// How long a VPN may need to move its tunnel to another available path. strongSwan tries
  /// immediately, and again after 4, 11 and 24 s (charon.retransmit_timeout,
  /// charon.retransmit_base).
  package static let tunnelGrace = Duration.seconds(30)

  /// Returns the severity of a sleep for channels.
  func severity(ofSleep duration: Duration) -> Invalidation.Severity {
    duration >= Self.longSleep ? .destroy : .advise
  }

  /// Returns the grace period of a path that no longer works.
  ///
  /// - Parameter lost: The path that worked before.
  func grace(for path: KernelPath, after lost: KernelPath) -> Duration {
    if path.reason == .suspended { return Self.suspension }
    // A connection that was made although the link seemed to carry no traffic is itself evidence
    // (I0).
    guard path.hasFailedLink(of: lost), lost.status == .satisfied else { return self.routeGrace }
    return path.reason == .linkDown ? .zero : self.carrierGrace[lost.medium] ?? .zero
  }
}

extension KernelPath {
  /// Whether a link of the former path has failed. If only the route was lost, the kernel may now
  /// use another link, which may have failed long ago.
  func hasFailedLink(of lost: KernelPath) -> Bool {
    guard self.chain.first?.index == lost.chain.first?.index else { return false }
    return self.reason == .noCarrier || self.reason == .dormant || self.reason == .linkDown
  }
}
