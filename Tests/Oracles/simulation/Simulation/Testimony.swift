import Connectivity

/// How long a flow's lookup has been against it, which its socket may refute (E1), or has stood
/// while its socket is silent (E2).
struct Testimony {
  /// Since when the flow's way has a fault, by the model, and when the network last changed since.
  private var troubleAt: Instant?
  private var lastChange = Instant(sinceStart: .zero)
  /// Since when connd must know that the flow is over by its lookup.
  private var knownOverAt: Instant?
  /// Since when all of connd's readings say that the lookup stands.
  private var standsSince: Instant?
  /// The first change since then that connd learned of while the socket was silent.
  private var suspectSince: Instant?
  /// Whether its path has led through a tunnel since then.
  private var wasTunnelled = false
  /// Whether its socket has proved that the lookup does not describe the flow, so that E2 decides.
  private(set) var isSpared = false
  /// When a change last named something that the flow uses.
  private(set) var touchedAt: Instant?
  /// When both the flow's address and its link were last gone.
  private(set) var goneAt: Instant?

  /// The network has changed.
  mutating func observe(isInTrouble: Bool, isStanding: Bool, isGone: Bool, at now: Instant) {
    self.lastChange = now
    // Unless connd reads in between that all is well, the fault is the same.
    if isInTrouble, self.troubleAt == nil { self.troubleAt = now }
    if !isInTrouble { self.knownOverAt = nil }
    if isGone { self.goneAt = now }
    if !isStanding, !self.isSpared { (self.standsSince, self.suspectSince) = (nil, nil) }
  }

  /// connd has read the present state.
  ///
  /// - Parameter isSpared: Whether connd reports that the socket has refuted the lookup.
  mutating func isRead(
    isInTrouble: Bool, isStanding: Bool, isOver: Bool, isSpared: Bool, at now: Instant
  ) {
    self.isSpared = isSpared
    let isStanding = isStanding || isSpared
    // connd's view of the flow's way may change without the network.
    self.troubleAt = isInTrouble ? self.troubleAt ?? now : nil
    self.knownOverAt = isOver ? self.knownOverAt ?? now : nil
    self.standsSince = isStanding ? self.standsSince ?? now : nil
    if !isStanding { self.suspectSince = nil }
  }

  /// connd could not read the present state.
  mutating func isUnread() {
    (self.knownOverAt, self.standsSince, self.suspectSince) = (nil, nil, nil)
  }

  // MARK: - E1

  /// The maximum time for the evidence, besides a round trip.
  private static let patience = Duration.milliseconds(110)

  /// Whether the flow may exist although its lookup is against it: something new has arrived since,
  /// or the socket has had no time yet to show it.
  ///
  /// - Parameters:
  ///   - isProof: Whether nothing on the machine sends packets elsewhere (E0).
  ///   - isLinkWorking: Whether only a better path is against it.
  func excuses(
    _ connection: ModelConnection, isProof: Bool, isLinkWorking: Bool, at now: Instant
  ) -> Bool {
    if self.isSpared { return true }
    guard let troubleAt else { return false }
    let news = connection.lastNews(at: now)
    if news > troubleAt { return true }
    let since = max(self.knownOverAt ?? now, self.lastChange)
    guard isProof else {
      // A connection that speaks is asked by what it sends, and an idle one by its owner. Without a
      // question it is drained.
      let end =
        connection.kind.isActive
        ? connection.isAsked(since: since, at: now) : connection.isProbed(since: since, at: now)
      return end.map { now <= $0 } ?? true
    }
    // A flow that was silent already when connd read a better path has six seconds for that.
    let wasSilent = connection.kind.isActive && news.advanced(by: .milliseconds(500)) < since
    if isLinkWorking, wasSilent, news.duration(to: now) <= .milliseconds(6500) { return true }
    // A second without news is not evidence.
    guard news.duration(to: troubleAt) <= .seconds(1) else { return false }
    // If the peer repeats its data and only a better path is the reason, two timeouts decide.
    let timeouts = connection.kind.hearsCopies ? Duration.milliseconds(2500) : .zero
    return since.duration(to: now) <= Self.patience + connection.kind.roundTrip + timeouts
  }

  // MARK: - E2

  /// connd learned of a change that may have cost a path.
  mutating func isAskedAbout(_ connection: ModelConnection, at now: Instant) {
    guard self.standsSince != nil, self.suspectSince == nil, !connection.isAlive(at: now) else {
      return
    }
    (self.suspectSince, self.wasTunnelled) = (now, false)
  }

  mutating func isTouched(at now: Instant) { self.touchedAt = now }

  mutating func isAskedAnew() { self.suspectSince = nil }

  /// A VPN may move the flow's tunnel.
  mutating func isTunnelled() { self.wasTunnelled = true }

  /// Why a dead flow must have been found by now, or `nil` if it need not.
  func whyUnfound(_ connection: ModelConnection, at now: Instant) -> String? {
    let news = connection.lastNews(at: now)
    guard let suspectSince, news <= suspectSince else { return nil }
    let first = suspectSince.advanced(by: .milliseconds(1100))
    let ripe = suspectSince.advanced(by: self.wasTunnelled ? .seconds(31) : .milliseconds(6100))
    guard let timeout = connection.lateTimeout(from: ripe, after: first, at: now),
      timeout.advanced(by: connection.kind.roundTrip * 2 + Self.patience) < now
    else { return nil }
    return "E2: kept although its socket has been silent since \(news.milliseconds) ms"
  }
}
