import Connectivity
import ConnectivityRules

/// The kernel's state and the history that apply to flows registered together.
struct RegistrationContext {
  let reader: FlowReader
  private let answers: [Destination: RouteAnswer]
  private let invalidations: PastInvalidations

  init(
    _ questions: [Destination], _ reader: FlowReader, past: [Published]
  ) throws(KernelUnavailable) {
    self.reader = reader
    let answers = zip(questions, try reader.view.routes(to: questions))
    // An IPv6 lookup that fails without a source may succeed when it is repeated.
    self.answers = Dictionary(answers.filter { $0.1 != .noRoute(.noRoute) }) { $1 }
    self.invalidations = PastInvalidations(past.lazy.map(\.change))
  }

  /// Returns the answer to a lookup, or `nil` if the kernel must be queried again.
  func answer(for question: Destination) -> RouteAnswer? { self.answers[question] }

  /// Returns the registration with the link of its link-local address, or `nil` if the link is
  /// unknown.
  func placed(
    _ registration: FlowTable.Registration
  ) throws(KernelUnavailable) -> FlowTable.Registration? {
    let flow = try registration.flow.placed { (local) throws(KernelUnavailable) in
      Set(try self.reader.view.addresses().filter { $0.address == local }.map(\.link))
    }
    guard let flow else { return nil }
    var placed = registration
    placed.flow = flow
    return placed
  }

  /// Watches the links of a flow's path, and the link that it is bound to. Skips links that do not
  /// exist, because a client may invent a path.
  func use(_ path: KernelPath, boundTo link: UInt32?) throws(KernelUnavailable) {
    var links = link.map { [$0] } ?? []
    for link in path.chain where try self.reader.view.link(link.index) != nil {
      links.append(link.index)
    }
    self.reader.view.subscriptions.ignoredLinks.use(links)
  }

  /// Returns the most severe invalidation of a registered flow since the generation that its
  /// client knew, or `nil` without one.
  func gravest(
    of registration: FlowTable.Registration, _ path: KernelPath, _ reading: FlowReading
  ) -> Invalidation? {
    self.invalidations.gravest(
      of: registration.flow, since: registration.sinceGeneration, path, reading)
  }
}
