import ArgumentParser
import Connectivity

/// Which units of systemd are to be started and stopped as conditions begin and cease to hold. A value without a clock.
///
/// What ceases to hold for a moment stops nothing: a Wi-Fi roam, a DHCP client that deletes a route and adds it again. While the machine
/// sleeps no time goes by: the network may be back a moment after it wakes.
struct KeptUnits: Sendable {
  /// A unit, and what has to hold for it, all of it.
  struct Rule: Hashable, Sendable {
    var conditions: [Condition]
    var unit: String
  }

  enum Action: Hashable, Sendable {
    case start(String)
    case stop(String)

    var unit: String {
      switch self {
      case .start(let unit), .stop(let unit): unit
      }
    }
  }

  private struct Kept: Sendable {
    let rule: Rule
    /// As it was asked for last; `nil`: nobody knows.
    var isStarted: Bool?
    /// Since when the conditions have not held.
    var failsSince: SuspendingClock.Instant?
    /// systemd would not, and is asked again: after how long, and when.
    var retry: (pause: Duration, at: SuspendingClock.Instant)?
  }

  private var units: [Kept]
  private let grace: Duration

  init(_ rules: [Rule], grace: Duration) {
    self.units = rules.map { Kept(rule: $0) }
    self.grace = grace
  }

  /// Takes in what is so now. The first word stops at once what an earlier run has left.
  mutating func note(
    _ status: ConnectivityStatus, at now: SuspendingClock.Instant
  ) -> [Action] {
    for (place, kept) in self.units.enumerated() {
      let holds = kept.rule.conditions.allSatisfy { $0.holds(for: status) }
      self.units[place].failsSince = holds ? nil : kept.failsSince ?? now
      self.units[place].retry = nil
    }
    return self.elapse(at: now)
  }

  /// Takes in that time has gone by.
  mutating func elapse(at now: SuspendingClock.Instant) -> [Action] {
    var actions: [Action] = []
    for (place, kept) in self.units.enumerated() {
      if let retry = kept.retry, retry.at > now { continue }
      if let since = kept.failsSince {
        let isOver = kept.isStarted == nil || since.advanced(by: self.grace) <= now
        guard kept.isStarted != false, isOver else { continue }
        self.units[place].isStarted = false
        actions.append(.stop(kept.rule.unit))
      } else if kept.isStarted != true {
        self.units[place].isStarted = true
        actions.append(.start(kept.rule.unit))
      }
    }
    return actions
  }

  /// Takes in what came of it. What failed is tried again with the next word, or after half a minute, and then after twice as long each time.
  mutating func note(_ action: Action, isDone: Bool, at now: SuspendingClock.Instant) {
    for (place, kept) in self.units.enumerated() where kept.rule.unit == action.unit {
      if isDone {
        self.units[place].retry = nil
      } else {
        let pause = kept.retry.map { min($0.pause * 2, Self.longestPause) } ?? Self.firstPause
        self.units[place].isStarted = nil
        self.units[place].retry = (pause, now.advanced(by: pause))
      }
    }
  }

  private static let firstPause = Duration.seconds(30)
  private static let longestPause = Duration.seconds(3600)

  /// When to look at the time again; `nil`: not before something is told.
  var due: SuspendingClock.Instant? {
    let stops = self.units.filter { $0.isStarted == true }.compactMap(\.failsSince)
    let retries = self.units.filter { $0.isStarted == nil }.compactMap { $0.retry?.at }
    return (stops.map { $0.advanced(by: self.grace) } + retries).min()
  }
}

extension KeptUnits.Rule {
  /// `online,not-expensive=backup.timer`
  ///
  /// - Throws: `ValidationError` that says what is wrong with it.
  init(reading text: String) throws {
    let parts = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
    guard parts.count == 2, !parts[1].isEmpty, !parts[1].hasPrefix("-") else {
      throw ValidationError("“\(text)”: write conditions, =, and a unit: online=name.target")
    }
    self.conditions = try Condition.readingAll(String(parts[0]))
    self.unit = String(parts[1])
  }
}
