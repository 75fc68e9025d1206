/// Follows the path of one family: tells a bounce by its evidence, and holds back the gains of a link that flaps.
struct PathTracker: Hashable, Sendable {
  /// What was last let through, and is compared against (T4).
  private(set) var published: ObservedPath
  /// A gain that is held back.
  private var held: Held?

  private struct Held: Hashable {
    var candidate: ObservedPath
    /// What made it.
    var cause: Cause
    var until: Instant
  }

  /// What a reading means for the path.
  struct Outcome {
    /// The path went and came back.
    var bounced = false
    /// The message that says what happened, or what the reading shows if none does.
    var cause: Cause
  }

  init(_ published: ObservedPath) {
    self.published = published
  }

  /// When a held gain is due.
  var deadline: Instant? { self.held?.until }

  mutating func update(
    to observed: ObservedPath, after events: [KernelEvent], family: AddressFamily,
    damper: inout FlapDamper, at now: Instant
  ) -> Outcome {
    // A held gain can be lost as well as a published path, and counts against the link.
    let before = self.held?.candidate ?? self.published
    let wasSatisfied = before.path.status == .satisfied
    let isSatisfied = observed.path.status == .satisfied
    let evidence = wasSatisfied ? events.indices.filter { events[$0].saysGone(before) } : []
    let bounce =
      isSatisfied ? evidence.first { observed.isBack(before, since: events[$0...]) } : nil

    if wasSatisfied, observed.path.isLost || bounce != nil, let link = before.path.interface {
      damper.recordLoss(of: link, family, at: now)
    }

    let telling = bounce ?? evidence.first
    var outcome = Outcome(
      cause: telling.map { events[$0].cause(between: before.path, observed.path) }
        ?? events.cause(of: family, from: before.path, to: observed.path))

    // From `unknown` nothing is gained: it counts as online (K8).
    guard isSatisfied, let link = observed.path.interface,
      self.published.path.isLost || bounce != nil
    else {
      // A loss, a path that never was away, or one that replaces another.
      self.held = nil
      self.published = observed
      return outcome
    }

    if bounce != nil || self.held?.candidate.path.interface != link {
      self.held = damper.hold(for: link, at: now).map {
        Held(candidate: observed, cause: outcome.cause, until: now.advanced(by: $0))
      }
    } else if let held = self.held, held.until <= now {
      self.held = nil
      outcome.cause = Cause(.timer, "holdEnded", message: held.cause.message, interface: link)
    } else {
      self.held?.candidate = observed
    }

    let wasTold = self.published.path.status == .satisfied
    if self.held == nil {
      outcome.bounced = bounce != nil && wasTold
      self.published = observed
    } else if wasTold {
      // The bounce of a flapping link: its loss is told now, and the gain when the hold is over.
      self.published = ObservedPath(observed.path.lost(.flapping), route: observed.route)
    }
    return outcome
  }
}

extension ObservedPath {
  /// Whether this is the path of before, come back since the first of the messages, which says that it was gone.
  fileprivate func isBack(_ before: ObservedPath, since events: ArraySlice<KernelEvent>) -> Bool {
    switch events.first {
    case .link(let link), .linkRemoved(let link):
      // What leads over that link again was gone too, whatever else of it has changed meanwhile. (A path that leads
      // over another port of a bond went on without a break.)
      self.path.chain.contains { $0.index == link.index || $0.name == link.name }
    case .routeRemoved where self.route != before.route,
      .nexthopRemoved where self.route != before.route:
      // Another entry leads the same way, and that without a break if it was there before this one went.
      self.path == before.path && events.contains { $0.adds(self.route) }
    default:
      self.path == before.path
    }
  }
}

extension Path {
  /// Whether there is none that carries traffic. Not to be able to ask is no loss.
  fileprivate var isLost: Bool { self.status == .unsatisfied || self.status == .requiresConnection }

  /// The same path at a moment when it does not carry traffic.
  fileprivate func lost(_ reason: Reason) -> Path {
    var path = self
    path.status = .requiresConnection
    path.reason = reason
    return path
  }
}
