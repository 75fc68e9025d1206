import Connectivity

/// Follows the path of one family, and tells a bounce by its evidence (T2).
struct PathTracker: Hashable, Sendable {
  /// What was last published, and is compared against (T4).
  private(set) var published: ObservedPath

  /// What a reading means for the path.
  struct Outcome {
    /// The path went and came back.
    var bounced = false
    fileprivate var before: Path
    fileprivate var evidence: Evidence?
    /// Traffic flows the way that it flowed before, and nothing says that it did not in between.
    var isSameWay = false
  }

  /// What says that the path was gone.
  fileprivate enum Evidence {
    /// The message at this place.
    case message(Int)
    /// Nothing but that the link has lost its carrier in between.
    case lostCarrier(PathLink)
  }

  init(_ published: ObservedPath) {
    self.published = published
  }

  mutating func update(to observed: ObservedPath, after events: [KernelEvent]) -> Outcome {
    let before = self.published
    self.published = observed
    let wasSatisfied = before.path.status == .satisfied
    let evidence = wasSatisfied ? before.losses(in: events) : []
    var bounce: Int?
    if observed.path.status == .satisfied {
      bounce = evidence.first { observed.isBack(before, since: events[$0...]) }
    }
    var outcome = Outcome(
      bounced: bounce != nil, before: before.path,
      evidence: (bounce ?? evidence.first).map(Evidence.message))
    // Losses whose messages were merged into one that shows none.
    if wasSatisfied, bounce == nil, observed.path.status == .satisfied,
      let link = observed.lostCarrier(since: before)
    {
      (outcome.bounced, outcome.evidence) = (true, .lostCarrier(link))
    }
    outcome.isSameWay = outcome.evidence == nil && observed.isSameWay(as: before)
    return outcome
  }

  /// The message that says what happened in the last update, or what the reading shows if none does.
  func cause(of outcome: Outcome, after events: [KernelEvent], family: AddressFamily) -> Cause {
    switch outcome.evidence {
    case .message(let place): events[place].cause(between: outcome.before, self.published.path)
    case .lostCarrier(let link):
      Cause(.link, "carrierLost", message: "RTM_NEWLINK", interface: link.name)
    case nil: events.cause(of: family, from: outcome.before, to: self.published.path)
    }
  }
}

extension ObservedPath {
  /// The places of the messages that say that something of the path went. An address with several prefixes stays until its
  /// last entry is removed.
  fileprivate func losses(in events: [KernelEvent]) -> [Int] {
    var lengths = self.sourcePrefixLengths
    return events.indices.filter { place in
      switch events[place] {
      case .addressRemoved(let address) where self.path.leaves(from: address):
        lengths.remove(address.prefixLength)
        return lengths.isEmpty
      case .address(let address) where self.path.leaves(from: address):
        lengths.insert(address.prefixLength)
      default: break
      }
      return events[place].saysGone(self)
    }
  }

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

  /// The link of both paths that has lost its carrier in between, and has it back.
  fileprivate func lostCarrier(since before: ObservedPath) -> PathLink? {
    self.path.chain.first { link in
      guard let now = self.carrierDownCounts[link.index],
        let then = before.carrierDownCounts[link.index]
      else { return false }
      return now > then
    }
  }
}
