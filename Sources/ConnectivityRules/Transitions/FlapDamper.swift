package import Connectivity

/// Counts how often links lost their carrier, and decides how long a gain of a flapping link is
/// held back (T1).
///
/// Links are known by name, because a modem that re-enumerates has a new index each time. Changing
/// addresses and routes are not flaps. A value without a clock.
package struct FlapDamper: Hashable, Sendable {
  /// Applies from the next loss or gain on.
  package var policy: FlapPolicy

  fileprivate struct History: Hashable {
    var index: UInt32
    var isUp: Bool
    var carrierDownCount: UInt32?
    /// Losses within the memory, oldest first.
    var losses: [Instant] = []
    /// The number of losses since the link began to flap, including the one that made it so.
    var sinceFlapping = 0
    /// When the hold of its gain ends.
    var heldUntil: Instant?

    init(_ link: Link) {
      self.index = link.index
      self.isUp = link.state == .up
      self.carrierDownCount = link.carrierDownCount
    }
  }

  private var links: [String: History] = [:]

  package init(_ policy: FlapPolicy = FlapPolicy()) { self.policy = policy }

  /// Updates from a link of a default path, or from a kernel message about a former one.
  package mutating func observe(_ link: Link, isPartOfPath: Bool, at now: Instant) {
    guard link.provesSomething else { return }
    guard var history = self.links[link.name] else {
      if isPartOfPath { self.links[link.name] = History(link) }
      return
    }
    guard let losses = history.losses(until: link) else { return }
    let isGain = link.state == .up && (!history.isUp || losses > 0)
    (history.index, history.isUp) = (link.index, link.state == .up)
    history.carrierDownCount = link.carrierDownCount ?? history.carrierDownCount
    history.record(losses, at: now, self.policy)
    if link.state != .up {
      history.heldUntil = nil
    } else if isGain {
      history.heldUntil = history.hold(at: now, self.policy).map { now.advanced(by: $0) }
    }
    self.links[link.name] = history
  }

  /// Notes that the kernel has removed a link.
  package mutating func observeRemoval(of link: Link, at now: Instant) {
    guard var history = self.links[link.name], history.index == link.index else { return }
    if history.isUp { history.record(1, at: now, self.policy) }
    (history.isUp, history.carrierDownCount, history.heldUntil) = (false, nil, nil)
    self.links[link.name] = history
  }

  /// Returns the names of the links whose gain is held back.
  package func held(at now: Instant) -> Set<String> {
    var held: Set<String> = []
    for (name, history) in self.links {
      if let end = history.heldUntil, end > now { held.insert(name) }
    }
    return held
  }

  /// Returns when the next hold ends, or `nil` without one.
  package func deadline(after now: Instant) -> Instant? {
    self.links.values.compactMap(\.heldUntil).filter { $0 > now }.min()
  }

  /// Forgets links that are not part of a default path, once their losses no longer count.
  package mutating func forget(allBut present: some Collection<String>, at now: Instant) {
    let gone = self.links.lazy.filter { [policy] name, history in
      !present.contains(name)
        && history.losses.last.map { policy.forgets($0, at: now) } ?? true
    }
    for name in gone.map(\.key) as [String] { self.links[name] = nil }
  }
}

extension FlapPolicy {
  fileprivate func forgets(_ loss: Instant, at now: Instant) -> Bool {
    loss.duration(to: now) >= self.memory
  }
}

extension FlapDamper.History {
  /// Further losses do not make a hold longer.
  private static let mostDoublings = 8

  /// Returns how often the link was lost since, or `nil` if the message is older than the known
  /// state.
  fileprivate func losses(until link: Link) -> Int? {
    guard self.index == link.index else { return self.isUp ? 1 : 0 }
    let isLost = self.isUp && link.state != .up
    guard let before = self.carrierDownCount, let now = link.carrierDownCount else {
      return isLost ? 1 : 0
    }
    guard now >= before else { return nil }
    return max(Int(now - before), isLost ? 1 : 0)
  }

  fileprivate mutating func record(_ count: Int, at now: Instant, _ policy: FlapPolicy) {
    guard count > 0 else { return }
    if self.losses.last.map({ policy.forgets($0, at: now) }) ?? true {
      (self.losses, self.sinceFlapping) = ([], 0)
    }
    self.losses = self.losses.filter { $0.duration(to: now) <= policy.memory }
    for _ in 0..<min(count, policy.losses + Self.mostDoublings) {
      self.losses.append(now)
      if self.sinceFlapping > 0 || self.losses.count >= policy.losses {
        self.sinceFlapping += 1
      }
    }
    self.losses = self.losses.suffix(policy.losses)
  }

  /// Returns how long a gain is held back, or `nil` if it is not.
  fileprivate func hold(at now: Instant, _ policy: FlapPolicy) -> Duration? {
    guard self.sinceFlapping > 0, let last = self.losses.last,
      !policy.forgets(last, at: now), policy.firstHold > .zero
    else { return nil }
    let doublings = min(self.sinceFlapping - 1, Self.mostDoublings)
    return min(policy.firstHold * (1 << doublings), policy.longestHold)
  }
}
