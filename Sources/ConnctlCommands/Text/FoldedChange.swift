import Connectivity

/// A change with its consequences, as one line of `history` and `top`.
struct FoldedChange: Hashable, Sendable {
  var time: WallTime
  /// The change in one to three words. Red if traffic was lost.
  var headline: Text
  var details: String

  /// Groups changes in the order of publication: a transition or a path change with its
  /// invalidations, or invalidations alone.
  static func groups(_ changes: [ConnectivityChange]) -> [[ConnectivityChange]] {
    changes.reduce(into: []) { groups, change in
      if case .invalidation = change, groups.last?.first?.time == change.time {
        groups[groups.count - 1].append(change)
      } else {
        groups.append([change])
      }
    }
  }

  /// - Parameter group: As from ``groups(_:)``.
  init?(_ group: [ConnectivityChange]) {
    guard let first = group.first else { return nil }
    self.time = first.time
    self.headline = first.headline
    switch first {
    case .transition(let transition):
      let losses = group.compactMap(\.invalidation).filter { $0.reason != .categoryChanged }
      self.details = ([transition.details(transition.cause.brief)] + losses.consequences).joined(
        separator: " · ")
    case .path(let change):
      let losses = group.compactMap(\.invalidation).consequences
      let text = change.overrideText ?? change.details(change.cause.brief)
      self.details = ([text] + losses).joined(separator: " · ")
    case .invalidation(let first):
      let all = group.compactMap(\.invalidation).narrow
      let worst = all.map(\.severity).min { $0.rank < $1.rank } ?? first.severity
      self.headline = worst.headline
      let what = all.map { "\($0.scope.text): \($0.reason.text)" }.unique
      self.details = "\(what.joined(separator: ", ")); \(first.cause.brief)"
    case .dns:
      self.details = first.details
    }
  }
}

extension ConnectivityChange.PathChange {
  /// The text `constrained on wlan0, by alice`, or `nil` if no override changed.
  var overrideText: String? {
    guard self.cause.trigger == .user else { return nil }
    let status = self.snapshot.status
    let what =
      switch self.cause.change {
      case "constrainedSet": status.isConstrained ? "constrained" : "not constrained"
      case "expensiveSet": status.isMetered ? "metered" : "not metered"
      default: ""
      }
    guard !what.isEmpty else {
      let costs = [
        status.isMetered ? "metered" : nil, status.path.constraint.word,
      ].compactMap { $0 }
      return self.cause.text
        + (costs.isEmpty ? "" : "; still \(costs.joined(separator: " and "))")
    }
    let link = (self.cause.interface ?? status.interface).map { " " + Text.tied("on", $0) } ?? ""
    return what + link + self.cause.byUser
  }
}

extension ChangeCause {
  /// Whether the cause is connd's start, so that nothing changed on the machine.
  var isStart: Bool { self.change == "started" }

  /// The cause without the kernel's message: `carrier lost on wlan0`.
  var brief: String {
    var cause = self
    cause.message = nil
    return cause.text
  }
}

extension [Invalidation] {
  /// The invalidations except those of a changed category, which concern everything. If no others
  /// exist, all invalidations.
  fileprivate var narrow: [Invalidation] {
    let narrow = self.filter { $0.reason != .categoryChanged }
    return narrow.isEmpty ? self : narrow
  }

  /// The texts `to end: connections on wlan0 (ipv4)` and `in doubt: connections by a gateway`.
  fileprivate var consequences: [String] {
    self.map { "\($0.severity.text): \($0.scope.text)" }.unique
  }
}

extension [String] {
  /// The strings without repetitions.
  fileprivate var unique: [String] {
    self.reduce(into: []) { words, word in if !words.contains(word) { words.append(word) } }
  }
}

extension Invalidation.Severity {
  /// The position in an order with the worst first.
  fileprivate var rank: Int {
    switch self {
    case .destroy: 0
    case .drain: 1
    case .advise: 2
    }
  }
}
