import Connectivity

/// For how long a flow's lookup has said something that its socket may refute (E1), or has stood
/// while its socket is silent (E2).
struct Testimony {
  /// Since when something is wrong with the flow's way, by the model, and when the network last
  /// changed meanwhile.
  private var troubleAt: Instant?
  private var lastChange = Instant(sinceStart: .zero)
  /// Since when connd must know that the flow is over by its lookup.
  private var knownOverAt: Instant?
  /// Since when connd has read nothing but that the lookup stands.
  private var standsSince: Instant?
  /// The first change since then that connd heard of while the socket was silent.
  private var suspectSince: Instant?
  /// Whether its path has led through a tunnel since then.
  private var wasTunnelled = false
  /// Whether its socket has proved that the lookup does not describe the flow, so that E2 decides.
  private var isSpared = false
  /// When neither the flow's address nor its link was there last.
  private(set) var goneAt: Instant?

  /// The network has become another.
  mutating func observe(isInTrouble: Bool, isStanding: Bool, isGone: Bool, at now: Instant) {
    self.lastChange = now
    // Unless connd reads in between that all is well, the trouble is the same.
    if isInTrouble, self.troubleAt == nil { self.troubleAt = now }
    if !isInTrouble { self.knownOverAt = nil }
    if isGone { self.goneAt = now }
    if !isStanding, !self.isSpared { (self.standsSince, self.suspectSince) = (nil, nil) }
  }

  /// connd has read what there is.
  ///
  /// - Parameter isSpared: Whether connd says that the socket has refuted the lookup.
  mutating func isRead(
    isInTrouble: Bool, isStanding: Bool, isOver: Bool, isSpared: Bool, at now: Instant
  ) {
    self.isSpared = isSpared
    let isStanding = isStanding || isSpared
    // What connd takes for the flow's way may change without the network.
    self.troubleAt = isInTrouble ? self.troubleAt ?? now : nil
    self.knownOverAt = isOver ? self.knownOverAt ?? now : nil
    self.standsSince = isStanding ? self.standsSince ?? now : nil
    if !isStanding { self.suspectSince = nil }
  }

  /// connd could not read what there is.
  mutating func isUnread() {
    (self.knownOverAt, self.standsSince, self.suspectSince) = (nil, nil, nil)
  }

  // MARK: - E1

  /// How long the evidence may take at most, besides a round trip.
  private static let patience = Duration.milliseconds(110)

  /// Whether the flow may be there although its lookup says that it is over: something new has
  /// arrived since, or the socket has had no time yet to show that.
  func excuses(_ connection: ModelConnection, at now: Instant) -> Bool {
    if self.isSpared { return true }
    guard let troubleAt else { return false }
    let news = connection.lastNews(at: now)
    if news > troubleAt { return true }
    // Without news for a second there is no evidence.
    guard news.duration(to: troubleAt) <= .seconds(1) else { return false }
    let since = max(self.knownOverAt ?? now, self.lastChange)
    return since.duration(to: now) <= Self.patience + connection.kind.roundTrip
  }

  // MARK: - E2

  /// connd was told of a change that may have cost a path.
  mutating func isAskedAbout(_ connection: ModelConnection, at now: Instant) {
    guard self.standsSince != nil, self.suspectSince == nil, !connection.isAlive(at: now) else {
      return
    }
    (self.suspectSince, self.wasTunnelled) = (now, false)
  }

  mutating func isAskedAnew() { self.suspectSince = nil }

  /// A VPN may move the tunnel that the flow is in.
  mutating func isTunnelled() { self.wasTunnelled = true }

  /// Why a dead flow must have been found by now, or `nil` if it need not.
  func whyUnfound(_ connection: ModelConnection, at now: Instant) -> String? {
    let news = connection.lastNews(at: now)
    guard let suspectSince, news <= suspectSince else { return nil }
    // The first question, and what three timeouts take at least.
    let ripe = suspectSince.advanced(by: self.wasTunnelled ? .seconds(31) : .milliseconds(2400))
    guard let timeout = connection.thirdTimeout(from: ripe, at: now),
      timeout.advanced(by: connection.kind.roundTrip * 2 + Self.patience) < now
    else { return nil }
    return "E2: kept although its socket has been silent since \(news.milliseconds) ms"
  }
}
