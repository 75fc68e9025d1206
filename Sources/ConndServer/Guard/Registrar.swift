import Connectivity
import ConnectivityRules

extension FlowTable {
  /// A flow as a client registers it.
  struct Registration: Sendable {
    var key: Key
    var flow: Flow
    /// The path that the client was told of it before.
    var knownPath: Path?
    /// The last generation that the client knew of before it connected.
    var sinceGeneration: UInt64?
    /// It was registered while the kernel could not be asked, and may have died since.
    var hasWaited = false

    /// A connection that has just been made, as far as the client says.
    var isNew: Bool { self.flow.local != nil && self.knownPath == nil && !self.hasWaited }
  }

  /// What the kernel and the history say about flows that are registered together.
  struct Registrar {
    let reader: FlowReader
    private let answers: [Destination: RouteAnswer]
    /// What was not only advised, the oldest first.
    private let invalidations: [Invalidation]

    init(
      _ questions: [Destination], _ reader: FlowReader, past: [Published]
    ) throws(KernelUnavailable) {
      self.reader = reader
      let answers = zip(questions, try reader.view.routes(to: questions))
      // A question without a source may have an answer with one (IPv6).
      self.answers = Dictionary(answers.filter { $0.1 != .noRoute(.noRoute) }) { $1 }
      self.invalidations = past.compactMap { published in
        guard case .invalidation(let invalidation) = published.change,
          invalidation.severity != .advise
        else { return nil }
        return invalidation
      }
    }

    /// `nil` where it is to be asked for.
    func answer(for question: Destination) -> RouteAnswer? { self.answers[question] }

    /// The registration, with the link that a link-local address is of: each link has that network, so that without its link
    /// an address names no host (RFC 4007). Where the client does not name it, its own address may be of one link alone.
    ///
    /// - Returns: `nil` where nobody knows the link.
    func placed(
      _ registration: Registration
    ) throws(KernelUnavailable) -> Registration? {
      let remote = registration.flow.destination
      guard remote.address.family == .ipv6, remote.address.isLinkLocal, remote.outLink == nil
      else { return registration }
      guard let local = registration.flow.local, local.isLinkLocal else { return nil }
      let links = Set(try self.reader.view.addresses().filter { $0.address == local }.map(\.link))
      // Of a connection whose address is gone its end is to be told.
      guard let link = links.first else { return registration }
      guard links.count == 1 else { return nil }
      var placed = registration
      placed.flow.destination.outLink = link
      return placed
    }

    /// A flow is on this path, and perhaps bound to a link. Links that are not there, as a client may invent them, are none
    /// to watch.
    func use(_ path: Path, boundTo link: UInt32?) throws(KernelUnavailable) {
      var links = link.map { [$0] } ?? []
      for link in path.chain where try self.reader.view.link(link.index) != nil {
        links.append(link.index)
      }
      self.reader.view.interests.unusedLinks.use(links)
    }

    /// The gravest of what happened to a flow that is registered again, since the generation that its client knew of; of these
    /// the latest.
    func gravest(
      of registration: Registration, _ path: Path, _ reading: FlowReading
    ) -> Invalidation? {
      guard let generation = registration.sinceGeneration, !reading.isLocal else { return nil }
      let covering = self.invalidations.reversed()
        .prefix { $0.generation > generation }
        .filter { $0.covers(registration.flow, path) }
      let gravest = covering.map(\.severity).max()
      return covering.first { $0.severity == gravest }
    }
  }
}

extension Invalidation {
  /// Whether a flow that is registered only now had been in the scope.
  ///
  /// What its own way tells is not looked for here: that a category is another, or a link went, says nothing of a connection
  /// whose address and way are there (I0).
  fileprivate func covers(_ flow: Flow, _ path: Path) -> Bool {
    guard self.scope != .everything else { return false }
    if let family = self.scope.family, family != flow.destination.address.family { return false }
    if self.scope.destination == .offLink, path.gateway == nil { return false }
    if let addresses = self.scope.localAddresses {
      guard let local = flow.local else { return false }
      return addresses.contains(local)
    }
    // Its own address stands for the link that it was on, and is there: then the kernel can tell, but not of a network.
    guard flow.local == nil || self.reason == .networkChanged else { return false }
    return self.scope.interface == path.interface
  }
}
