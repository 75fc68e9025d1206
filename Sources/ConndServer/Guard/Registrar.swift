import Connectivity

extension FlowTable {
  /// A flow as a client registers it.
  struct Registration: Sendable {
    var key: Key
    var flow: Flow
    /// The path that the client was told of it before.
    var knownPath: Path?
    /// The last generation that the client knew of before it connected.
    var sinceGeneration: UInt64?
  }

  /// What the kernel and the history say about flows that are registered together.
  struct Registrar {
    let look: Look
    private let answers: [Destination: RouteAnswer]
    /// What was not only advised, the oldest first.
    private let invalidations: [Invalidation]

    init(
      _ destinations: [Destination], _ look: Look, _ kernel: some Kernel, past: [Published]
    ) throws(KernelUnavailable) {
      self.look = look
      let answers = zip(destinations, try kernel.routes(to: destinations))
      self.answers = Dictionary(answers) { $1 }
      self.invalidations = past.compactMap { published in
        guard case .invalidation(let invalidation) = published.change,
          invalidation.severity != .advise
        else { return nil }
        return invalidation
      }
    }

    func answer(for destination: Destination) -> RouteAnswer {
      self.answers[destination] ?? .noRoute(.noRoute)
    }

    /// The gravest of what happened to the flow since a generation, of these the latest.
    func gravest(
      since generation: UInt64?, _ flow: Flow, _ path: Path, _ reading: FlowReading
    ) -> Invalidation? {
      guard let generation, !reading.isLocal else { return nil }
      let covering = self.invalidations.reversed()
        .prefix { $0.generation > generation }
        .filter { $0.covers(flow, path) }
      let gravest = covering.map(\.severity).max()
      return covering.first { $0.severity == gravest }
    }
  }
}

extension Invalidation {
  /// Whether a flow that is registered only now had been in the scope.
  fileprivate func covers(_ flow: Flow, _ path: Path) -> Bool {
    if self.scope == .everything { return true }
    if let family = self.scope.family, family != flow.destination.address.family { return false }
    if let addresses = self.scope.localAddresses {
      guard let local = flow.local else { return false }
      return addresses.contains(local)
    }
    // Its own address stands for the link that it was on, and is there: then the kernel can tell, but not of a network.
    guard flow.local == nil || self.reason == .networkChanged else { return false }
    return self.scope.interface == path.interface
  }
}
