package import Connectivity

/// The evidence for doubt (Q1) and limps (Q2) on one link. A value without a clock.
///
/// Doubt comes from the Wi-Fi driver, or from sockets that connd examined. A limp comes from
/// clients' reports that connections by another link worked while connections by this link did not.
///
/// Implements rules Q1, Q2, Q3 and Q4.
package struct LinkTrouble: Hashable, Sendable {
  package enum Input: Hashable, Sendable {
    case signal(SignalChange.Kind)
    case attempt(LinkAttempt)
    case census(SocketCensus)
    /// The link has joined another network, has roamed, or has lost an address.
    case renewed
  }

  /// The report for clients.
  package struct Report: Hashable, Sendable {
    package static let none = LinkTrouble().report

    /// The users for which the link limps.
    fileprivate var limping: Set<UInt32> = []
    fileprivate var limpsForAll = false
    fileprivate var common = LinkQuality.unknown
  }

  /// The last attempts of one user.
  private struct History: Hashable {
    /// The number of the user's account.
    var person: UInt32
    var attempts: [Dated] = []
    /// When the limp began and ends, or `nil` without a limp.
    var limp: Limp?
    /// The time of the last report.
    var lastReport: Instant
  }

  private struct Limp: Hashable {
    var begin: Instant
    var end: Instant
  }

  /// Persons with silent connections that are evidence for the limps of other persons (Q3).
  private struct Witnesses: Hashable {
    var persons: Set<UInt32>
    /// When the evidence expires.
    var end: Instant
  }

  private struct Dated: Hashable {
    var attempt: LinkAttempt
    var time: Instant
  }

  package static let attemptLife = Duration.seconds(60)
  package static let limpDuration = Duration.seconds(120)
  package static let doubtDuration = Duration.seconds(10)
  private static let window = 5
  private static let minContrasts = 3
  package static let maxUsers = 32
  /// The minimum duration of a limp. It bounds how often one person's reports can change the
  /// quality for others, and make connd examine that person's flows.
  private static let minLimp = Duration.seconds(5)

  private var users: [UInt32: History] = [:]
  private var isSignalLow: Bool?
  /// When the doubt after lost frames or silent sockets ends.
  private var doubtEnd: Instant?
  /// When the driver's evidence expires. Until then a limp counts for all users (Q3).
  private var confirmedUntil: Instant?
  private var witnesses: Witnesses?

  package init() {}

  /// Whether there is nothing to remember.
  package var isEmpty: Bool { self == LinkTrouble() }

  /// When the quality changes without new input, or `nil` if it does not. Only a limp, and a doubt
  /// that ends by time, need a timer (Q4).
  package var deadline: Instant? {
    let limps = self.users.values.compactMap(\.limp?.end)
    let evidence = limps.isEmpty ? [] : [self.confirmedUntil, self.witnesses?.end]
    return (limps + ([self.doubtEnd] + evidence).compactMap { $0 }).min()
  }

  package var report: Report {
    let limping = Set(self.users.filter { $0.value.limp != nil }.keys)
    let isInDoubt = self.isSignalLow == true || self.doubtEnd != nil
    return Report(
      limping: limping, limpsForAll: self.limpsForAll,
      common: isInDoubt ? .moderate : self.isSignalLow == false ? .good : .unknown)
  }

  /// Whether the link's driver has reported a low signal or lost frames lately.
  var isConfirmed: Bool { self.isSignalLow == true || self.confirmedUntil != nil }

  /// Returns the evidence for the quality of a user's traffic, as text for people.
  package func reasons(for user: UInt32, on link: String) -> [String] {
    var reasons: [String] = []
    if self.isSignalLow == true { reasons.append("the signal is low on \(link)") }
    if self.doubtEnd != nil { reasons.append("packets were lost on \(link)") }
    if let history = self.users[user], history.limp != nil {
      let won = history.attempts.count { $0.attempt.outcome == .contrast }
      reasons.append("\(won) of \(history.attempts.count) races were won by another link")
    } else if self.report.limpsForAll {
      reasons.append("races of other users were won by another link")
    }
    return reasons
  }

  // MARK: - Inputs

  package mutating func handle(_ input: Input, at now: Instant) {
    self.expire(at: now)
    switch input {
    case .signal(.low):
      self.isSignalLow = true
      self.confirm(at: now)
    case .signal(.high):
      // A link gets another chance when its signal is good again (W7).
      self = LinkTrouble()
      self.isSignalLow = false
    case .signal(.framesLost):
      self.doubtEnd = now.advanced(by: Self.doubtDuration)
      self.confirm(at: now)
    case .attempt(let attempt): self.note(attempt, at: now)
    case .census(let census):
      if census.isTroubled { self.doubtEnd = now.advanced(by: Self.doubtDuration) }
      if census.isOfLink {
        self.witnesses = Witnesses(
          persons: census.witnesses, end: now.advanced(by: Self.limpDuration))
      }
    case .renewed: self = LinkTrouble()
    }
  }

  /// Drops everything that has expired.
  package mutating func expire(at now: Instant) {
    if let doubtEnd, doubtEnd <= now { self.doubtEnd = nil }
    if let confirmedUntil, confirmedUntil <= now { self.confirmedUntil = nil }
    if let witnesses, witnesses.end <= now { self.witnesses = nil }
    for (user, var history) in self.users {
      history.attempts.removeAll { $0.time.advanced(by: Self.attemptLife) <= now }
      if let limp = history.limp, limp.end <= now { history.limp = nil }
      let isOver = history.attempts.isEmpty && history.limp == nil
      self.users[user] = isOver ? nil : history
    }
  }

  /// Whether a user's limp counts for all users. A person's own connections do not prove the
  /// person's limp, although another person's report may make connd examine them.
  private var limpsForAll: Bool {
    self.users.values.contains { history in
      guard history.limp != nil else { return false }
      let witnesses = self.witnesses?.persons ?? []
      return self.confirmedUntil != nil || !witnesses.isSubset(of: [history.person])
    }
  }

  /// When a user last reported, or `nil` if there is also evidence from another source.
  var lastReport: Instant? {
    let hasOther = self.isSignalLow != nil || self.doubtEnd != nil || self.confirmedUntil != nil
    return hasOther ? nil : self.users.values.map(\.lastReport).max()
  }

  private mutating func confirm(at now: Instant) {
    self.confirmedUntil = now.advanced(by: Self.limpDuration)
  }

  private mutating func note(_ attempt: LinkAttempt, at now: Instant) {
    switch attempt.outcome {
    // A stall is a reason to examine sockets, and proves nothing by itself.
    case .stalled: return
    case .clean:
      guard let limp = self.users[attempt.user]?.limp else {
        self.users[attempt.user] = nil
        return
      }
      self.users[attempt.user]?.attempts = []
      self.users[attempt.user]?.limp?.end = limp.begin.advanced(by: Self.minLimp)
      self.expire(at: now)
      return
    case .contrast, .ready: break
    }
    var history =
      self.users[attempt.user] ?? History(person: attempt.person, lastReport: now)
    history.lastReport = now
    history.attempts =
      history.attempts.suffix(Self.window - 1) + [Dated(attempt: attempt, time: now)]
    let contrasts = history.attempts.map(\.attempt).filter { $0.outcome == .contrast }
    if contrasts.count >= Self.minContrasts,
      Set(contrasts.map(\.host)).count >= SocketCensus.minHosts
    {
      let begin = history.limp?.begin ?? now
      history.limp = Limp(begin: begin, end: now.advanced(by: Self.limpDuration))
    }
    self.users[attempt.user] = history
    if self.users.count > Self.maxUsers { self.forgetUser() }
  }

  /// Forgets the user with the oldest report, among the users of the person with the most users.
  /// Thus one person's users do not replace those of others.
  private mutating func forgetUser() {
    let counts = self.users.values.reduce(into: [:]) { $0[$1.person, default: 0] += 1 }
    let oldest = self.users.min { first, second in
      let (one, other) = (counts[first.value.person] ?? 0, counts[second.value.person] ?? 0)
      return one == other
        ? (first.value.lastReport, first.key) < (second.value.lastReport, second.key) : one > other
    }
    if let oldest { self.users[oldest.key] = nil }
  }
}

extension LinkTrouble.Report {
  /// Returns the users for which the quality differs between two reports, or `nil` for all users.
  package static func changes(_ former: Self, _ new: Self) -> Set<UInt32>? {
    guard former.limpsForAll == new.limpsForAll, former.common == new.common else { return nil }
    return new.limpsForAll ? [] : former.limping.symmetricDifference(new.limping)
  }

  /// Returns the quality for a user's traffic.
  package func quality(for user: UInt32) -> LinkQuality {
    self.limpsForAll || self.limping.contains(user) ? .minimal : self.common
  }
}
