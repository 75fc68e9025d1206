import Connectivity
import ConnectivityRules

extension FlowTable {
  /// A client's registration of a flow.
  struct Registration: Sendable {
    var key: Key
    var flow: Flow
    /// The path that the client received for it before.
    var knownPath: Path?
    /// The last generation that the client knew before it connected.
    var sinceGeneration: UInt64?
    /// Whether it was registered while the kernel was unavailable, so that the flow may have died
    /// since.
    var hasWaited = false

    /// Whether the client describes a connection that has just been made.
    var isNew: Bool { self.flow.local != nil && self.knownPath == nil && !self.hasWaited }
  }

  /// The kernel's state and the history that apply to flows registered together.
  struct RegistrationContext {
    let reader: FlowReader
    private let answers: [Destination: RouteAnswer]
    /// The invalidations that were more than advice, oldest first.
    private let invalidations: [Invalidation]

    init(
      _ questions: [Destination], _ reader: FlowReader, past: [Published]
    ) throws(KernelUnavailable) {
      self.reader = reader
      let answers = zip(questions, try reader.view.routes(to: questions))
      // A lookup without a source may have an answer with one (IPv6).
      self.answers = Dictionary(answers.filter { $0.1 != .noRoute(.noRoute) }) { $1 }
      self.invalidations = past.compactMap { published in
        guard case .invalidation(let invalidation) = published.change,
          invalidation.severity != .advise
        else { return nil }
        return invalidation
      }
    }

    /// Returns the answer to a lookup, or `nil` if it must be asked again.
    func answer(for question: Destination) -> RouteAnswer? { self.answers[question] }

    /// Returns the registration with the link of its link-local address. Each link has that
    /// network, so without a link the address names no host (RFC 4007). If the client does not name
    /// the link, its own address may belong to exactly one.
    ///
    /// - Returns: `nil` if the link is unknown.
    func placed(
      _ registration: Registration
    ) throws(KernelUnavailable) -> Registration? {
      let remote = registration.flow.destination
      guard remote.address.family == .ipv6, remote.address.isLinkLocal, remote.outLink == nil
      else { return registration }
      guard let local = registration.flow.local, local.isLinkLocal else { return nil }
      let links = Set(try self.reader.view.addresses().filter { $0.address == local }.map(\.link))
      // A connection whose address is gone is registered, so that its end is reported.
      guard let link = links.first else { return registration }
      guard links.count == 1 else { return nil }
      var placed = registration
      placed.flow.destination.outLink = link
      return placed
    }

    /// Notes that a flow uses a path and may be bound to a link. Links that do not exist, which a
    /// client may invent, are not watched.
    func use(_ path: Path, boundTo link: UInt32?) throws(KernelUnavailable) {
      var links = link.map { [$0] } ?? []
      for link in path.chain where try self.reader.view.link(link.index) != nil {
        links.append(link.index)
      }
      self.reader.view.subscriptions.ignoredLinks.use(links)
    }

    /// Returns the most severe invalidation of a registered flow since the generation that its
    /// client knew, or `nil` without one. If several are equal, returns the latest.
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
  /// Whether the invalidation applied to a flow that is registered only now.
  ///
  /// Causes that the flow's own path shows are not considered here. Another category, or a lost
  /// link, means nothing for a connection whose address and path still exist (I0).
  fileprivate func covers(_ flow: Flow, _ path: Path) -> Bool {
    guard self.scope != .everything else { return false }
    if let family = self.scope.family, family != flow.destination.address.family { return false }
    if self.scope.destination == .offLink, path.gateway == nil { return false }
    if let addresses = self.scope.localAddresses {
      guard let local = flow.local else { return false }
      return addresses.contains(local)
    }
    // The flow's own address still exists and represents its link. The kernel can judge the link,
    // but not the network behind it.
    guard flow.local == nil || self.reason == .networkChanged else { return false }
    return self.scope.interface == path.interface
  }
}
