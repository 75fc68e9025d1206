package import Connectivity

extension InvalidationPolicy {
  /// A sleep from which on connections are not only suspect but given up (I6): NATs commonly forget a connection that
  /// is silent for five minutes.
  package static let longSleep = Duration.seconds(300)

  /// How long a modem may carry nothing until connections over it are given up: they outlive a call (I0), and TCP itself gives up
  /// after about so long (tcp_retries2).
  package static let suspension = Duration.seconds(900)

  /// How long a VPN may take to move its tunnel to another way that is there: strongSwan tries it at once, and again after 4, 11 and
  /// 24 s (charon.retransmit_timeout, charon.retransmit_base).
  package static let tunnelGrace = Duration.seconds(30)

  /// What a sleep does to channels.
  func severity(ofSleep duration: Duration) -> Invalidation.Severity {
    duration >= Self.longSleep ? .destroy : .advise
  }

  /// How long a path that is not satisfied any more may take to come back.
  ///
  /// - Parameter lost: what was there before.
  func grace(for path: Path, after lost: Path) -> Duration {
    if path.reason == .suspended { return Self.suspension }
    // A connection that was made although the link seemed to carry nothing is evidence itself (I0).
    guard path.hasFailedLink(of: lost), lost.status == .satisfied else { return self.routeGrace }
    return path.reason == .linkDown ? .zero : self.carrierGrace[lost.medium] ?? .zero
  }
}

extension Path {
  /// Whether a link has failed under the path that led this way before. Where only the route went, the kernel may now name
  /// another link, and one that has failed long ago.
  func hasFailedLink(of lost: Path) -> Bool {
    guard self.chain.first?.index == lost.chain.first?.index else { return false }
    return self.reason == .noCarrier || self.reason == .dormant || self.reason == .linkDown
  }
}
