/// What the configuration says about invalidations.
public struct InvalidationPolicy: Hashable, Sendable {
  /// How long a Wi-Fi link without a carrier may take to come back (I10).
  public var wifiGrace: Duration
  /// How long a route that went may take to come back (I10).
  public var routeGrace: Duration
  /// What a better path does to those on the old one (I3).
  public var betterPath: Invalidation.Severity
  /// What a changed category does to all (I5).
  public var categoryChanged: Invalidation.Severity

  public init(
    wifiGrace: Duration = .seconds(1), routeGrace: Duration = .seconds(1),
    betterPath: Invalidation.Severity = .destroy, categoryChanged: Invalidation.Severity = .destroy
  ) {
    self.wifiGrace = wifiGrace
    self.routeGrace = routeGrace
    self.betterPath = betterPath
    self.categoryChanged = categoryChanged
  }

  /// A sleep from which on connections are not only suspect but given up (I6): NATs commonly forget a connection that
  /// is silent for five minutes.
  public static let longSleep = Duration.seconds(300)

  /// What a sleep does to channels.
  func severity(ofSleep duration: Duration) -> Invalidation.Severity {
    duration >= Self.longSleep ? .destroy : .advise
  }

  /// How long a path that is not satisfied any more may take to come back.
  ///
  /// - Parameter lost: what was there before.
  func grace(for path: Path, after lost: Path) -> Duration {
    // A connection that was made although the link seemed to carry nothing is evidence itself (I0).
    guard path.hasFailedLink(of: lost), lost.status == .satisfied else { return self.routeGrace }
    return path.reason != .linkDown && lost.medium == .wifi ? self.wifiGrace : .zero
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
