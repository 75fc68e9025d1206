import ArgumentParser
import Connectivity

/// Decides which systemd units to start and stop as conditions change. The caller passes the time.
///
/// A short interruption does not stop a unit, for example if Wi-Fi roams or a DHCP client replaces
/// a route. Time does not advance while the machine sleeps, because the network may be back right
/// after the wake-up.
struct UnitSupervisor: Sendable {
  /// A unit, and the conditions that must all hold for it.
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
    /// The last requested state, or `nil` if unknown.
    var isStarted: Bool?
    /// The time since which the conditions have not held, or `nil` if they hold.
    var failsSince: SuspendingClock.Instant?
    /// The pause and the time of the next attempt, after systemd failed.
    var retry: (pause: Duration, at: SuspendingClock.Instant)?
  }

  private var units: [Kept]
  private let grace: Duration

  init(_ rules: [Rule], grace: Duration) {
    self.units = rules.map { Kept(rule: $0) }
    self.grace = grace
  }

  /// Records the current status. The first status immediately stops units that an earlier run has
  /// left running.
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

  /// Returns the actions that are due now.
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

  /// Records the result of an action. A failed action is retried with the next status, or after 30
  /// s, and then with doubling pauses.
  mutating func note(_ action: Action, isDone: Bool, at now: SuspendingClock.Instant) {
    for (place, kept) in self.units.enumerated() where kept.rule.unit == action.unit {
      if isDone {
        self.units[place].retry = nil
      } else {
        let pause = kept.retry.map { min($0.pause * 2, Self.maxPause) } ?? Self.firstPause
        self.units[place].isStarted = nil
        self.units[place].retry = (pause, now.advanced(by: pause))
      }
    }
  }

  private static let firstPause = Duration.seconds(30)
  private static let maxPause = Duration.seconds(3600)

  /// The time of the next check, or `nil` if only the next status matters.
  var due: SuspendingClock.Instant? {
    let stops = self.units.filter { $0.isStarted == true }.compactMap(\.failsSince)
    let retries = self.units.filter { $0.isStarted == nil }.compactMap { $0.retry?.at }
    return (stops.map { $0.advanced(by: self.grace) } + retries).min()
  }
}

extension UnitSupervisor.Rule {
  /// Parses `online,not-metered=backup.timer`.
  ///
  /// - Throws: `ValidationError` that names the problem.
  init(reading text: String) throws {
    let parts = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
    guard parts.count == 2, !parts[1].isEmpty, !parts[1].hasPrefix("-") else {
      throw ValidationError(
        "“\(text)”: expected conditions, =, and a unit, as in online=name.target")
    }
    self.conditions = try Condition.readingAll(String(parts[0]))
    self.unit = String(parts[1])
  }
}
