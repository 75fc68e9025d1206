import Connectivity
import ConnectivityProtocol

/// What the monitor's thread is given to do, by whatever thread.
enum Input: Sendable {
  /// Everything is to be looked at with another configuration.
  case configure(Configuration, Reply<Void>)
  /// Whoever starts waits until the kernel was read for the first time, or could not be.
  case awaitFirstReading(Reply<Void>)
  case explain(Destination?, Reply<KernelAnswer<Connectivity_V1_Explanation>>)
  case listLinks(Reply<KernelAnswer<Connectivity_V1_ListLinksResponse>>)
  case count(Reply<MonitorLoop.Counts>)
  case watch(Destination, Reply<MonitorLoop.Watch>)
  case unwatch(Destination, watcher: UInt64)
  case admit(any FlowMailbox, Reply<Void>)
  /// The client with this number has gone.
  case dismiss(UInt64)
  case flow(GuardRequest)
}

/// Takes the answer to an input, once; `nil` where connd stops before there is one. Safe to use from any thread.
typealias Reply<Answer> = CheckedContinuation<Answer?, Never>

/// What came of asking the kernel.
typealias KernelAnswer<Answer> = Result<Answer, KernelUnavailable>

extension MonitorLoop {
  mutating func take(_ input: Input) {
    switch input {
    case .configure(let configuration, let reply):
      self.configure(configuration)
      reply.resume(returning: ())
    case .awaitFirstReading(let reply): reply.resume(returning: ())
    case .explain(let destination, let reply):
      reply.resume(
        returning: self.answer { explainer throws(KernelUnavailable) in
          try explainer.explain(destination)
        })
    case .listLinks(let reply):
      reply.resume(
        returning: self.answer { explainer throws(KernelUnavailable) in
          try explainer.listLinks()
        })
    case .count(let reply): reply.resume(returning: self.counts)
    case .watch(let destination, let reply): reply.resume(returning: self.watch(destination))
    case .unwatch(let destination, let watcher): self.unwatch(destination, watcher)
    case .admit(let guardian, let reply):
      self.admit(guardian)
      reply.resume(returning: ())
    case .dismiss(let number): self.dismiss(number)
    case .flow(let request): self.requests.append(request)
    }
  }

  private func answer<Answer>(
    _ question: (Explainer) throws(KernelUnavailable) -> Answer
  ) -> KernelAnswer<Answer> {
    Result { () throws(KernelUnavailable) in
      guard let kernel = self.kernel else { throw .notOpen }
      return try question(
        Explainer(
          kernel: kernel, view: self.engine.view(of: kernel), reader: self.engine.reader,
          preferred: self.engine.preferred))
    }
  }

  /// What there is at the moment.
  struct Counts: Sendable {
    var guardingClients: Int
    var guardedFlows: Int
    var watchedPaths: Int
  }

  private var counts: Counts {
    Counts(
      guardingClients: self.guardians.count, guardedFlows: self.engine.flows.count,
      watchedPaths: self.watchers.count)
  }
}
