/// Remembers how often paths were lost, and says how long a gain on a link is held back (T1).
///
/// Links are known by name: a modem that re-enumerates has a new index each time.
struct FlapDamper: Hashable, Sendable {
  /// After so long without a loss, earlier losses are forgotten.
  static let memory = Duration.seconds(10)
  /// The loss within that time from which on gains are held.
  static let tolerated = 3
  static let firstHold = Duration.milliseconds(500)
  static let longestHold = Duration.seconds(5)

  /// Each family's losses count for themselves: a dual stack loses two paths at a time.
  private struct Key: Hashable {
    var link: String
    var family: AddressFamily
  }

  fileprivate struct Losses: Hashable {
    var last: Instant
    /// Those within the memory, as long as the link is not taken to flap.
    var recent: [Instant]
    /// How many losses have come since the link is taken to flap, the one that made it so among them.
    var sinceFlapping: Int
  }

  private var losses: [Key: Losses] = [:]

  mutating func recordLoss(of link: String, _ family: AddressFamily, at now: Instant) {
    self.losses = self.losses.filter { !$0.value.isForgotten(at: now) }
    let key = Key(link: link, family: family)
    var losses = self.losses[key] ?? Losses(last: now, recent: [], sinceFlapping: 0)
    losses.last = now
    losses.recent = losses.recent.filter { $0.duration(to: now) <= Self.memory } + [now]
    if losses.sinceFlapping > 0 || losses.recent.count >= Self.tolerated {
      losses.sinceFlapping += 1
      losses.recent = []
    }
    self.losses[key] = losses
  }

  /// How long a gain on the link is held back from the moment of the gain on; `nil`: not at all.
  ///
  /// It is the link that flaps: what either family has shown holds for both.
  func hold(for link: String, at now: Instant) -> Duration? {
    AddressFamily.allCases.compactMap { family in
      guard let losses = self.losses[Key(link: link, family: family)], losses.sinceFlapping > 0,
        !losses.isForgotten(at: now)
      else { return nil }
      let doublings = min(losses.sinceFlapping - 1, 4)
      return min(Self.firstHold * (1 << doublings), Self.longestHold)
    }.max()
  }
}

extension FlapDamper.Losses {
  fileprivate func isForgotten(at now: Instant) -> Bool {
    self.last.duration(to: now) >= FlapDamper.memory
  }
}
