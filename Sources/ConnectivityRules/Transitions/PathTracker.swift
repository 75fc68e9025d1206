import Connectivity

/// The tracker of one address family's path. It recognises a bounce by its evidence (T2).
struct PathTracker: Hashable, Sendable {
  /// The published path, with which readings are compared (T4).
  private(set) var published: CandidatePath

  /// The result of comparing a reading with the published path.
  struct Outcome {
    /// Whether the path went and came back.
    var bounced = false
    fileprivate var before: KernelPath
    fileprivate var evidence: Evidence?
    /// Whether traffic flows as before, without evidence of an interruption.
    var isSameRoute = false
  }

  /// The evidence that the path was gone.
  fileprivate enum Evidence {
    /// The message with this index.
    case message(Int)
    /// No message, only the link's count of carrier losses.
    case lostCarrier(KernelPath.Link)
  }

  init(_ published: CandidatePath) {
    self.published = published
  }

  mutating func update(to observed: CandidatePath, after events: [KernelEvent]) -> Outcome {
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
    // The kernel may have merged a loss into one message that does not show the loss.
    if wasSatisfied, bounce == nil, observed.path.status == .satisfied,
      let link = observed.lostCarrier(since: before)
    {
      (outcome.bounced, outcome.evidence) = (true, .lostCarrier(link))
    }
    outcome.isSameRoute = outcome.evidence == nil && observed.isSameRoute(as: before)
    return outcome
  }

  /// Returns the cause of the last update: from its message, or else from the reading.
  func cause(of outcome: Outcome, after events: [KernelEvent], family: AddressFamily) -> ChangeCause
  {
    switch outcome.evidence {
    case .message(let place):
      events.explanation(ofMessageAt: place).cause(between: outcome.before, self.published.path)
    case .lostCarrier(let link):
      ChangeCause(.link, "carrierLost", message: "RTM_NEWLINK", interface: link.name)
    case nil: events.cause(of: family, from: outcome.before, to: self.published.path)
    }
  }
}

extension CandidatePath {
  /// Returns the indexes of the messages that report the loss of a part of the path. An address
  /// with several prefixes is lost only when its last entry is removed.
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
      return events[place].indicatesLoss(self)
    }
  }

  /// Whether the earlier path was lost, as the first message reports, and is back.
  fileprivate func isBack(_ before: CandidatePath, since events: ArraySlice<KernelEvent>) -> Bool {
    switch events.first {
    case .link(let link), .linkRemoved(let link):
      // The path uses the lost link again, so the path was gone too, whatever else changed. A path
      // over another port of a bond was not interrupted.
      self.path.chain.contains { $0.index == link.index || $0.name == link.name }
    case .routeRemoved where self.route != before.route,
      .nexthopRemoved where self.route != before.route:
      // Another route gives the same path. If that route existed before the removal, traffic was
      // not interrupted.
      self.path == before.path && events.contains { $0.adds(self.route) }
    default:
      self.path == before.path
    }
  }

  /// Returns the first link that has lost its carrier more often than in the earlier path, or `nil`
  /// if no link has.
  fileprivate func lostCarrier(since before: CandidatePath) -> KernelPath.Link? {
    self.path.chain.first { link in
      guard let now = self.carrierDownCounts[link.index],
        let then = before.carrierDownCounts[link.index]
      else { return false }
      return now > then
    }
  }
}
