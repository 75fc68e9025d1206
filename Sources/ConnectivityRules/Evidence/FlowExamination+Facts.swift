import Connectivity

/// The result of one evaluation of a flow's lookup and socket.
enum FlowOutcome: Hashable, Sendable {
  /// No news, except perhaps another path.
  case none
  case verdict(FlowTracker.Verdict)
  /// The flow is no longer in doubt. The client had received advice.
  case recovered
  /// The client must ask its peer (E4). Nothing else is new.
  case question
}

extension FlowOutcome {
  /// Returns this outcome or the lookup's news, whichever is more severe. A question is kept.
  func joined(with news: FlowTracker.Verdict?) -> Self {
    guard var news else { return self }
    switch self {
    case .verdict(let verdict) where verdict.severity > news.severity: return self
    case .verdict(let verdict): news.asksPeer = verdict.asksPeer
    case .question: news.asksPeer = true
    case .none, .recovered: break
    }
    return .verdict(news)
  }
}

extension FlowExamination {
  /// The input of one evaluation: the news from the flow's lookup, and its socket's report.
  struct Facts: Hashable, Sendable {
    /// The news from the lookup, if any.
    var verdict: FlowTracker.Verdict?
    /// Whether nothing can refute `verdict`, because both the flow's address and link are gone.
    var isCertain: Bool
    /// Whether nothing on this machine can send packets elsewhere than the lookup says (E0).
    var isProof: Bool
    /// Whether a better path first drains the flow, because the path may exist only for a moment
    /// (I3).
    var drainsFirst: Bool
    /// The earliest time at which the flow's owner may ask its peer, or `nil` if it cannot (E4).
    var earliestQuestion: Instant?
    /// Whether the client knows that the flow is in doubt for the verdict's reason.
    var isAdvised: Bool
    /// Whether the lookup still has the disputed result.
    var isDisputed: Bool
    /// Whether the lookup differs from the lookup that the socket has refuted.
    var isLookupNew: Bool
    /// Whether the flow's path carries traffic according to the lookup.
    var isSound: Bool
    /// Whether the flow's path uses a tunnel.
    var isTunnelled: Bool
    /// When the change behind the verdict happened.
    var change: Instant
    /// The socket's report, or `nil` without a query or an answer.
    var report: SocketReport?
    /// Another connection to the same host, if there is one.
    var contrast: Contrast?
    var now: Instant

    init(
      _ verdict: FlowTracker.Verdict?, isCertain: Bool = false, isProof: Bool = true,
      drainsFirst: Bool = false, earliestQuestion: Instant? = nil, isAdvised: Bool = false,
      isDisputed: Bool = false, isLookupNew: Bool = false, isSound: Bool = true,
      isTunnelled: Bool = false, change: Instant,
      report: SocketReport? = nil, contrast: Contrast? = nil, at now: Instant
    ) {
      self.verdict = verdict
      (self.isCertain, self.isProof, self.drainsFirst) = (isCertain, isProof, drainsFirst)
      self.earliestQuestion = earliestQuestion
      self.isAdvised = isAdvised
      self.isDisputed = isDisputed
      self.isLookupNew = isLookupNew
      self.isSound = isSound
      self.isTunnelled = isTunnelled
      self.change = change
      (self.report, self.contrast) = (report, contrast)
      self.now = now
    }

    func evidence(
      on change: Instant, beyond known: SocketEvidence.Known? = nil
    ) -> SocketEvidence? {
      self.report.map { SocketEvidence($0, on: change, beyond: known, at: self.now) }
    }
  }
}
