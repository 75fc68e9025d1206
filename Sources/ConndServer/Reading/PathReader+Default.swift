import Connectivity
import ConnectivityRules

/// The path of one address family to the default destination. It is an object because it is large,
/// and a reading passes it on often.
final class DefaultPath: Sendable {
  /// The probe that represents the majority.
  let destination: Destination
  /// The lookup that shows whether the path is still current, and its answer, or `nil` without a
  /// lookup.
  let lookup: (question: Destination, answer: RouteAnswer)?
  /// The kernel's answers.
  let facts: PathFacts
  /// The path that new connections get.
  let observed: CandidatePath
  /// The probes that use another route of equal rank, with the kernel's answers.
  let equals: [(question: Destination, answer: RouteAnswer)]

  init(
    destination: Destination, lookup: (question: Destination, answer: RouteAnswer)?,
    facts: PathFacts, observed: CandidatePath,
    equals: [(question: Destination, answer: RouteAnswer)] = []
  ) {
    self.destination = destination
    self.lookup = lookup
    self.facts = facts
    self.observed = observed
    self.equals = equals
  }

  /// Creates the path to a destination about which the kernel refused a query.
  convenience init(unknownTo destination: Destination) {
    self.init(
      destination: destination, lookup: nil,
      facts: PathFacts(destination: destination.address, answer: .unanswered("")),
      observed: CandidatePath(.unknown))
  }
}

extension PathReader {
  func observation(_ view: KernelView) throws(KernelUnavailable) -> Observation {
    Observation(
      ipv4: try self.defaultPath(.ipv4, view).observed,
      ipv6: try self.defaultPath(.ipv6, view).observed)
  }

  /// Returns the default path of an address family and its parts.
  func defaultPath(
    _ family: AddressFamily, _ view: KernelView
  ) throws(KernelUnavailable) -> DefaultPath {
    let (probe, answers) = try self.probe(family, view)
    guard let probe else {
      let destination = Destination(.unspecified(family))
      let path = KernelPath.unsatisfied(.noRoute)
      return DefaultPath(
        destination: destination,
        lookup: zip(self.destinations[family], answers).first { _ in true }
          .map { (Destination($0), $1) },
        facts: PathFacts(destination: destination.address, answer: .noRoute(.noRoute)),
        observed: CandidatePath(path))
    }
    let destination = Destination(self.destinations[family][probe])
    let facts = try self.facts(about: destination, answer: answers[probe], view)
    let path = try self.path(facts, view)
    var observed = CandidatePath(path, knownLinks: facts.knownLinks)
    if path.status != .unsatisfied {
      observed.route = try view.entry(for: destination)?.route
      if let source = path.source, let link = path.chain.first?.index {
        observed.sourcePrefixLengths = try view.prefixLengths(of: source, on: link)
      }
      for facts in facts.links {
        observed.carrierDownCounts[facts.link.index] = facts.link.carrierDownCount
      }
    }
    return DefaultPath(
      destination: destination, lookup: (destination, facts.answer), facts: facts,
      observed: observed, equals: try self.equals(of: probe, answers, family, view))
  }

  /// Returns the probes that use another route of the same prefix, table and metric. The kernel
  /// chooses between such routes by whether their routers answer (fib_select_default, rt6_select),
  /// and reports no change of its choice.
  private func equals(
    of probe: Int, _ answers: [RouteAnswer], _ family: AddressFamily, _ view: KernelView
  ) throws(KernelUnavailable) -> [(question: Destination, answer: RouteAnswer)] {
    let all = zip(self.destinations[family].map { Destination($0) }, answers)
      .map { (question: $0, answer: $1) }
    let others = all.filter { !$0.answer.usesRoute(of: answers[probe]) }
    guard !others.isEmpty, let entry = try view.entry(for: all[probe].question), !entry.isSpread
    else { return [] }
    var equals: [(question: Destination, answer: RouteAnswer)] = []
    for other in others where try view.entry(for: other.question)?.route == entry.route {
      equals.append(other)
    }
    return equals
  }

  /// Returns the answer for each probe, and the index of the probe that represents the majority.
  ///
  /// - Parameters:
  ///   - mark: The mark of the traffic.
  ///   - all: Whether to look up probes that can no longer change the majority.
  func probe(
    _ family: AddressFamily, mark: UInt32 = 0, all: Bool = false, _ view: KernelView
  ) throws(KernelUnavailable) -> (Int?, [RouteAnswer]) {
    var answers = try self.answers(family, mark, all: all, view)
    // If no answer has a majority, the routes usually changed between two lookups.
    if !Self.hasMajority(answers, of: self.destinations[family].count) {
      answers = try self.answers(family, mark, all: all, anew: true, view)
    }
    return (DefaultDestination.majority(of: answers), answers)
  }

  /// Looks up, in one batch, just enough probes for a majority if all of them agree.
  func askProbes(
    _ families: [AddressFamily], _ view: KernelView
  ) throws(KernelUnavailable) {
    var questions: [Destination] = []
    for family in families {
      let all = self.destinations[family]
      questions += all.prefix(all.count / 2 + 1).map { Destination($0) }
    }
    if !questions.isEmpty { try view.askAnew(questions) }
  }

  /// Whether the kernel still gives the answer that the path was read from.
  func isSettled(_ path: DefaultPath, _ view: KernelView) throws(KernelUnavailable) -> Bool {
    guard let lookup = path.lookup else { return true }
    return Self.reachable(try view.routeAnew(to: lookup.question)) == lookup.answer
  }

  private func answers(
    _ family: AddressFamily, _ mark: UInt32, all: Bool, anew: Bool = false, _ view: KernelView
  ) throws(KernelUnavailable) -> [RouteAnswer] {
    let probes = self.destinations[family]
    var answers: [RouteAnswer] = []
    for probe in probes {
      let question = Destination(probe, mark: mark)
      let answer = anew ? try view.routeAnew(to: question) : try view.route(to: question)
      answers.append(Self.reachable(answer))
      if !all, Self.hasMajority(answers, of: probes.count) { break }
    }
    return answers
  }

  /// Replaces a route that is not unicast, because it does not reach the internet (K2).
  private static func reachable(_ answer: RouteAnswer) -> RouteAnswer {
    if case .route(let route) = answer, route.kind != .unicast {
      .noRoute(.noRoute)
    } else {
      answer
    }
  }

  private static func hasMajority(_ answers: [RouteAnswer], of count: Int) -> Bool {
    answers.contains { answer in
      !answer.isUnanswered && 2 * answers.count { $0.usesRoute(of: answer) } > count
    }
  }
}
