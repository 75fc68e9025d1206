import Connectivity
import ConnectivityRules
import LinuxSupport

// Answers to clients' queries. If a query changes something for all users, its answer waits until
// the change is published.
extension MonitorLoop {
  /// Answers clients' queries until the time for this turn is over.
  mutating func answerQueries() {
    // A thread that was preempted has not used its time.
    let start = self.clock.worked
    var worked = start
    // A query's effect is published before the next query is answered.
    while !self.readings.areDue, worked - start < QueryQueue.maxTime,
      let turn = self.queries.popFirst()
    {
      self.answer(turn.item)
      self.readings.note(user: turn.user)
      let then = self.clock.worked
      self.queries.charge(then - worked, to: turn.user)
      worked = then
    }
  }

  private mutating func answer(_ query: KernelQuery) {
    switch query.kind {
    case .path(let destination, let reply):
      let answer = self.ask { queries throws(KernelUnavailable) in
        try queries.path(to: destination)
      }
      reply.resume(returning: (try? answer.get()) ?? .unknown)
    case .otherWay(let destination, let reply):
      let answer = self.ask { queries throws(KernelUnavailable) in
        (try queries.otherWay(to: destination), queries.view.subscriptions.uplinks)
      }
      // The links of default routes are kept up to date by the kernel's messages.
      if case .success(let (_, uplinks)) = answer {
        self.engine.context.subscriptions.uplinks = uplinks
      }
      reply.resume(returning: answer.map(\.0))
    case .attempt(let destination, let outcome, let reply):
      let answer = self.note(outcome, to: destination, by: query.account)
      self.readings.whenDone { reply.resume(returning: answer) }
    case .explain(let destination, let links, let reply):
      reply.resume(
        returning: self.ask { queries throws(KernelUnavailable) in
          try queries.explain(destination, comparedWith: links)
        })
    case .judge(let connections, let reply):
      let past = PastInvalidations(self.feed.store.past.lazy.map(\.change))
      let flows = self.engine.flows
      let history = KernelQueries.History(
        past: past, lastChange: flows.lastChange,
        verdicts: flows.verdicts(of: connections.map(\.question)))
      let (policy, now) = (self.engine.changes.policy, self.clock.now)
      reply.resume(
        returning: self.ask { queries throws(KernelUnavailable) in
          try queries.judge(connections, history, policy, at: now)
        })
    case .listLinks(let reply): self.list(for: query, reply)
    case .restOfLinks: self.continueListing(in: query.account)
    case .watch(let destination, let reply): reply.resume(returning: self.watch(destination))
    case .costs(let request, let reply):
      let answer = self.answer(request)
      self.readings.whenDone { reply.resume(returning: answer) }
    }
  }

  mutating func answer(
    _ request: CostRequest
  ) -> Result<CostRequest.Answer, CostRequest.Refusal> {
    let (costs, time) = (self.engine.costs, self.clock.time)
    return Result { () throws(CostRequest.Refusal) in
      let queries: KernelQueries
      switch self.ask({ $0 }) {
      case .success(let found): queries = found
      case .failure(let error): throw .kernel(error)
      }
      let requests = OverrideRequests(queries: queries, costs: costs, time: time)
      switch request {
      case .list: return .list(try requests.list(), assist: costs.overrides.assist)
      case .copy(let user): return .copy(try requests.copy(of: user))
      case .set(let request):
        let change = try requests.set(request)
        return .set(overruledBy: change.overruledBy, self.apply(change))
      case .assist(let request):
        return .set(overruledBy: nil, self.apply(requests.assist(request)))
      case .forget(let name, let user):
        return .forgotten(self.apply(try requests.forget(name, user)))
      }
    }
  }

  func ask<Answer>(
    _ query: (KernelQueries) throws(KernelUnavailable) -> Answer
  ) -> KernelAnswer<Answer> {
    Result { () throws(KernelUnavailable) in
      guard let kernel = self.kernel else { throw .notOpen }
      return try query(
        KernelQueries(
          kernel: kernel, view: KernelView(kernel, self.engine.context),
          reader: self.engine.reader, preferred: self.engine.preferred,
          identify: self.engine.identify,
          signalQualities: self.sources.lazy.map(\.signalQualities).first { !$0.isEmpty } ?? [:]))
    }
  }

  // MARK: - Listings of links

  /// Begins a listing for all pending queries, or lets the query wait for the next listing.
  private mutating func list(for query: KernelQuery, _ reply: Reply<PendingListing.Answer>) {
    guard self.queries.listing == nil else {
      self.queries.listing?.later.append(query)
      return
    }
    var replies = [reply]
    for case .listLinks(let reply) in self.queries.takeListings().map(\.kind) {
      replies.append(reply)
    }
    switch self.ask({ queries throws(KernelUnavailable) in try LinkListing(queries) }) {
    case .success(let listing):
      self.queries.listing = PendingListing(listing: listing, replies: replies)
      self.continueListing(in: query.account)
    case .failure(let error):
      for reply in replies { reply.resume(returning: .failure(error)) }
    }
  }

  /// Builds the next part of the listing. The rest is queued among its user's queries.
  private mutating func continueListing(in account: Account) {
    guard var pending = self.queries.listing.take() else { return }
    let part = self.ask { queries throws(KernelUnavailable) in
      try pending.listing.advance(queries)
    }
    if case .success(nil) = part {
      self.queries.listing = pending
      self.queries.append(KernelQuery(id: 0, account: account, kind: .restOfLinks))
      return
    }
    let answer = part.map { $0 ?? [] }
    for reply in pending.replies { reply.resume(returning: answer) }
    for query in pending.later { self.queries.append(query) }
  }
}
