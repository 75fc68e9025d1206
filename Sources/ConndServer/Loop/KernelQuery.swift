import Connectivity
import Synchronization
import UnixTransport

/// A client's query, answered on the monitor thread.
struct KernelQuery: Sendable {
  enum Kind: Sendable {
    /// Answered with `unknown` if the kernel is unavailable.
    case path(Destination, Reply<Path>)
    case explain(Destination?, Reply<KernelAnswer<Explanation>>)
    case listLinks(Reply<KernelAnswer<[LinkReport]>>)
    /// The rest of a listing. Not a client's query.
    case restOfLinks
    /// Begins to watch the path to a destination.
    case watch(Destination, Reply<MonitorLoop.Watch>)
    case costs(CostRequest, Reply<Result<CostRequest.Answer, CostRequest.Refusal>>)
  }

  typealias ID = UInt64

  private static let lastID = Atomic<ID>(0)

  static func nextID() -> ID { self.lastID.wrappingAdd(1, ordering: .relaxed).newValue }

  var id: ID
  var account: Account
  var kind: Kind

  /// Ends the query without an answer because the client has disconnected or connd is stopping.
  func drop() {
    switch self.kind {
    case .path(_, let reply): reply.resume(returning: nil)
    case .explain(_, let reply): reply.resume(returning: nil)
    case .listLinks(let reply): reply.resume(returning: nil)
    case .restOfLinks: break
    case .watch(_, let reply): reply.resume(returning: nil)
    case .costs(_, let reply): reply.resume(returning: nil)
    }
  }
}

// MARK: - Answers

extension MonitorLoop {
  /// The time per turn for clients' queries, so that they cannot delay kernel messages for longer.
  private static let longest = Duration.microseconds(250)

  /// Answers clients' queries until the time for this turn is over.
  mutating func answerQueries() {
    let end = self.clock.now.advanced(by: Self.longest)
    var worked = self.clock.worked
    while self.clock.now < end, let turn = self.queries.popFirst() {
      self.answer(turn.item)
      let then = self.clock.worked
      self.queries.charge(then - worked, to: turn.user)
      worked = then
    }
  }

  /// Drops a query whose client has disconnected.
  mutating func drop(_ id: KernelQuery.ID, of account: Account) {
    let dropped = self.queries.remove(of: account) { $0.id == id }
    for query in dropped { query.drop() }
  }

  /// Drops all queries because connd is stopping.
  mutating func dropQueries() {
    for query in self.queries.remove(where: { _ in true }) { query.drop() }
    self.dropListing()
  }

  private mutating func answer(_ query: KernelQuery) {
    switch query.kind {
    case .path(let destination, let reply):
      let answer = self.ask { queries throws(KernelUnavailable) in
        try queries.path(to: destination)
      }
      reply.resume(returning: (try? answer.get()) ?? .unknown)
    case .explain(let destination, let reply):
      reply.resume(
        returning: self.ask { queries throws(KernelUnavailable) in
          try queries.explain(destination)
        })
    case .listLinks(let reply): self.list(for: query, reply)
    case .restOfLinks: self.continueListing(in: query.account)
    case .watch(let destination, let reply): reply.resume(returning: self.watch(destination))
    case .costs(let request, let reply): reply.resume(returning: self.answer(request))
    }
  }

  func ask<Answer>(
    _ query: (KernelQueries) throws(KernelUnavailable) -> Answer
  ) -> KernelAnswer<Answer> {
    Result { () throws(KernelUnavailable) in
      guard let kernel = self.kernel else { throw .notOpen }
      return try query(
        KernelQueries(
          kernel: kernel, view: self.engine.view(of: kernel), reader: self.engine.reader,
          preferred: self.engine.preferred, identify: self.engine.identify,
          signalQualities: self.modems?.signalQualities ?? [:]))
    }
  }
}
