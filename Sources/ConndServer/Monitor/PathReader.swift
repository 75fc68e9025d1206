import Connectivity

/// Reads from the kernel what a path is made of, and nothing more: the cost does not depend on how many links, addresses
/// or routes there are (D6).
struct PathReader {
  var destinations: DefaultDestination
  var classifier: PathClassifier

  /// The default paths.
  func observation(from kernel: some Kernel) throws(KernelUnavailable) -> Observation {
    Observation(
      ipv4: try self.defaultPath(.ipv4, from: kernel).observed,
      ipv6: try self.defaultPath(.ipv6, from: kernel).observed)
  }

  /// The default path of a family, and what it is made of.
  func defaultPath(
    _ family: AddressFamily, from kernel: some Kernel
  ) throws(KernelUnavailable) -> (observed: ObservedPath, facts: PathFacts) {
    let (probe, answers) = try self.probe(family, from: kernel)
    guard let probe else {
      let facts = PathFacts(destination: .unspecified(family), answer: .noRoute(.noRoute))
      return (ObservedPath(.unsatisfied(.noRoute)), facts)
    }
    let destination = Destination(self.destinations[family][probe])
    let facts = try self.facts(about: destination, answer: answers[probe], from: kernel)
    let path = self.classifier.path(facts)
    guard path.status != .unsatisfied else { return (ObservedPath(path), facts) }
    return (ObservedPath(path, route: try kernel.match(for: destination)), facts)
  }

  /// What the kernel says of each probe, and the place of the one that the majority agrees with.
  ///
  /// - Parameter all: whether to ask also about those that can no longer change the majority.
  func probe(
    _ family: AddressFamily, all: Bool = false, from kernel: some Kernel
  ) throws(KernelUnavailable) -> (Int?, [RouteAnswer]) {
    var answers = try self.answers(family, all: all, from: kernel)
    // Where each says something else, something has changed between two questions, mostly.
    if !Self.hasMajority(answers, of: self.destinations[family].count) {
      answers = try self.answers(family, all: all, from: kernel)
    }
    return (DefaultDestination.majority(of: answers), answers)
  }

  private func answers(
    _ family: AddressFamily, all: Bool, from kernel: some Kernel
  ) throws(KernelUnavailable) -> [RouteAnswer] {
    let probes = self.destinations[family]
    var answers: [RouteAnswer] = []
    for probe in probes {
      let answer = try kernel.route(to: Destination(probe))
      // Only a unicast route leads to the internet (K2).
      if case .route(let route) = answer, route.kind != .unicast {
        answers.append(.noRoute(.noRoute))
      } else {
        answers.append(answer)
      }
      if !all, Self.hasMajority(answers, of: probes.count) { break }
    }
    return answers
  }

  private static func hasMajority(_ answers: [RouteAnswer], of count: Int) -> Bool {
    answers.contains { answer in 2 * answers.count { $0.goesTheWay(of: answer) } > count }
  }

  /// The path to a destination.
  func path(
    to destination: Destination, from kernel: some Kernel
  ) throws(KernelUnavailable) -> Path {
    self.classifier.path(try self.facts(about: destination, from: kernel))
  }

  /// All that the kernel says about the way to a destination.
  func facts(
    about destination: Destination, answer: RouteAnswer? = nil, from kernel: some Kernel
  ) throws(KernelUnavailable) -> PathFacts {
    var answer = if let answer { answer } else { try kernel.route(to: destination) }
    answer = try self.current(answer, destination, kernel)
    var facts = PathFacts(destination: destination.address, answer: answer)
    guard case .route(let route) = answer else { return facts }
    try self.followChain(from: route.outLink, into: &facts, kernel)
    if let source = route.source {
      facts.source = try kernel.address(source, on: route.outLink)
    }
    return facts
  }

  /// What the kernel says of a destination by the time that it is asked for the address that its answer names: between the two
  /// questions the address may have gone, and others have taken its place. Unnumbered links, which borrow an address, give
  /// the same answer once more.
  private func current(
    _ answer: RouteAnswer, _ destination: Destination, _ kernel: some Kernel
  ) throws(KernelUnavailable) -> RouteAnswer {
    var answer = answer
    for _ in 0..<Self.mostRepetitions {
      guard case .route(let route) = answer, route.kind == .unicast, let source = route.source,
        try kernel.address(source, on: route.outLink) == nil
      else { break }
      let now = try kernel.route(to: destination)
      if now == answer { break }
      answer = now
    }
    return answer
  }

  /// Where addresses change faster than that, the messages of it tell.
  private static let mostRepetitions = 3

  /// How many links of a path that was depend those on who were made on it: what is below a tunnel may move (I5).
  func depth(
    of chain: [PathLink], from kernel: some Kernel
  ) throws(KernelUnavailable) -> Int {
    for (place, link) in chain.enumerated() {
      if try kernel.link(link.index)?.isTunnel == true { return place + 1 }
    }
    return chain.count
  }

  /// Appends the out-link and what is below it.
  private func followChain(
    from outLink: UInt32, into facts: inout PathFacts, _ kernel: some Kernel
  ) throws(KernelUnavailable) {
    var next = try kernel.link(outLink)
    while let link = next, facts.links.count < Self.deepest,
      !facts.links.contains(where: { $0.link.index == link.link.index })
    {
      facts.links.append(link)
      switch link.below {
      case .nothing:
        next = nil
      case .links(let indexes):
        next = try self.port(among: indexes, kernel)
      case .destination(let remote):
        switch try kernel.route(to: Destination(remote)) {
        case .route(let route):
          next = try kernel.link(route.outLink)
        case .noRoute(let reason):
          facts.brokenBelow = reason
          next = nil
        }
      }
    }
  }

  /// Stacks are shallow; one that is deeper, or that contains itself, is not followed to its end.
  static let deepest = 16

  /// The port that most likely carries the traffic. A bridge may have a thousand of them, most of them guests: the first
  /// that leaves no doubt will do.
  private func port(
    among indexes: [UInt32], _ kernel: some Kernel
  ) throws(KernelUnavailable) -> LinkFacts? {
    var ports: [LinkFacts] = []
    for index in indexes.sorted() {
      guard let port = try kernel.link(index) else { continue }
      if port.isPlaced, port.link.state == .up { return port }
      ports.append(port)
    }
    return ports.likelyPort
  }
}
